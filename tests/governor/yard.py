"""A yard of compiler calls: real launchers, a real governor, and a compiler that does as its source
says.

The source of a unit is Python text: ``hold(MIB, SECONDS)`` grows to so much and keeps it. What runs
when is written to a log by the compiler itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.arch import parse_arch
from buildkit.events import SILENT
from buildkit.governor.capacity import Capacity
from buildkit.governor.estimate import MARGIN, Measured, Prior, UnitKey
from buildkit.governor.govern import governed, read_load
from buildkit.governor.jobs import Limit
from buildkit.governor.knowledge import Knowledge
from buildkit.governor.ledger import Load
from buildkit.launcher import Admission, binary, read_records, render_config
from tests.fakes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildkit.records import UnitRecord

MIB = 1 << 20

COMPILER = """\
import os, signal, subprocess, sys, time

def note(word):
    with open({log!r}, "a") as log:
        log.write(f"{{word}} {{name}} {{time.monotonic():.3f}}\\n")

def hold(mib, seconds, steps=20):
    kept = []
    for _ in range(steps):
        kept.append(bytearray(b"x" * (mib * (1 << 20) // steps)))
        time.sleep(seconds / steps)
    return kept

source = sys.argv[sys.argv.index("-c") + 1]
name = os.path.basename(source)
note("start")
with open(os.path.join(os.environ["TMPDIR"], "tmpxft"), "w") as left:
    left.write("x")
exec(open(source).read())
open(sys.argv[sys.argv.index("-o") + 1], "w").write("object")
note("end")
"""


@dataclass
class Yard:
    """One build's directory, and how its calls are let in."""

    root: Path
    governor: Path
    """Directory of the governor's socket; shared by the yards of one test."""
    name: str = "build"
    slots: int = 1
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in (self.root / "src", self.root / "tmp"):
            folder.mkdir(parents=True)
        compiler = self.root / "compiler"
        compiler.write_text(f"#!{sys.executable}\n{COMPILER.format(log=str(self.root / 'log'))}")
        compiler.chmod(0o755)

    def know(
        self,
        cap_mib: int,
        cpus: int = 2,
        *,
        history: dict[str, tuple[int, float]] | None = None,
        prior_mib: int = 50,
    ) -> None:
        """Write what is known of the build, and the configuration of the launchers.

        :param history: MiB and seconds of units, by file name. What is expected is just this.
        """
        flags = self._flags()
        runs = {
            UnitKey(f"{unit}", flags): [
                Measured(peak_bytes=int(mib * MIB / MARGIN), seconds=seconds)
            ]
            for unit, (mib, seconds) in (history or {}).items()
        }
        prior = Prior(peak_bytes=prior_mib * MIB, seconds=1.0)
        knowledge = Knowledge(
            limit=Limit(memory_bytes=cap_mib * MIB, cpus=cpus),
            roots=(str(self.root / "src"),),
            history=runs,
            profile={},
            priors={"cuda": prior, "c++": prior, "link": prior},
        )
        (self.root / "knowledge.json").write_text(knowledge.render())
        text = render_config(
            target=parse_arch("sm120"),
            without_code="keep",
            rules=(),
            tools={},
            records=self.root / "records.jsonl",
            admission=Admission(
                folder=self.governor,
                knowledge=self.root / "knowledge.json",
                slots=self.slots,
                cap_bytes=cap_mib * MIB,
                jobs=64,
            ),
        )
        (self.root / "launch.conf").write_text(text)

    def unit(self, name: str, text: str) -> None:
        """Write the source of a unit."""
        (self.root / "src" / name).write_text(text)

    def launch(self, *names: str) -> list[subprocess.Popen[str]]:
        """Start the launchers of units, in this order."""
        launched = [
            subprocess.Popen(
                [
                    *(binary("bk-launch"), self.root / "compiler"),
                    *("-c", self.root / "src" / name, "-o", self.root / f"{name}.o"),
                ],
                env={
                    "PATH": os.environ["PATH"],
                    "BK_LAUNCH_CONFIG": str(self.root / "launch.conf"),
                    "TMPDIR": str(self.root / "tmp"),
                },
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for name in names
        ]
        self.started += launched
        return launched

    def log(self) -> list[str]:
        """Return what ran: ``start a.cu``, ``end a.cu``, in order."""
        try:
            lines = (self.root / "log").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.rsplit(" ", 1)[0] for line in lines]

    def records(self) -> tuple[UnitRecord, ...]:
        return read_records(self.root / "records.jsonl")

    def left_over(self) -> list[Path]:
        """Return what compilers have left in TMPDIR."""
        return list((self.root / "tmp").rglob("*"))

    def most_at_once(self) -> int:
        """Return how many calls ran at the same time."""
        running = most = 0
        for line in self.log():
            running += 1 if line.startswith("start") else -1
            most = max(most, running)
        return most

    def clear(self) -> None:
        """End what still runs."""
        for launcher in self.started:
            with suppress(ProcessLookupError):
                launcher.send_signal(signal.SIGTERM)
        for launcher in self.started:
            with suppress(subprocess.TimeoutExpired):
                launcher.communicate(timeout=10)

    def _flags(self) -> str:
        """Ask the launcher for the digest of our calls' flags."""
        self.unit("probe.cu", "")
        probe = self.root / "probe.conf"
        probe.write_text(f"records {self.root / 'probe.jsonl'}\n")
        subprocess.run(
            [
                *(binary("bk-launch"), self.root / "compiler"),
                *("-c", self.root / "src/probe.cu", "-o", self.root / "probe.o"),
            ],
            env={"BK_LAUNCH_CONFIG": str(probe), "TMPDIR": str(self.root / "tmp")},
            check=True,
        )
        (self.root / "log").unlink()
        return str(json.loads((self.root / "probe.jsonl").read_text().splitlines()[-1])["flags"])


def machine(mib: int, cpus: int = 4) -> Capacity:
    """Return a machine of so much memory, all of it for builds."""
    return Capacity(
        memory_bytes=mib * MIB,
        memory_source="the test",
        reserve_bytes=0,
        cpus=cpus,
        cpu_source="the test",
    )


def statuses(launched: list[subprocess.Popen[str]], seconds: float = 60.0) -> list[int]:
    """Wait for launchers and return their exit statuses."""
    for launcher in launched:
        launcher.communicate(timeout=seconds)
    return [launcher.returncode for launcher in launched]


@contextmanager
def serving(yard: Yard, mib: int = 4096, cpus: int = 4, headroom: int = 1 << 40) -> Iterator[None]:
    """Let a governor serve the yard's directory, from this process."""
    with governed(yard.governor, machine(mib, cpus), events=SILENT, headroom=lambda: headroom):
        wait_for(lambda: read_load(yard.governor, "x") is not None)
        yield


def load_of(yard: Yard) -> Load:
    """Ask how a yard's build is doing; while no governor answers, nothing runs."""
    load = read_load(yard.governor, str(yard.root / "knowledge.json"))
    nothing = Load(running=0, paused=0, waiting=-1, held_bytes=0, cap_bytes=1, seconds_left=0.0)
    return load or nothing
