"""A governed build against every fixed ``-j``, under a cap that the kernel enforces.

    python benchmarks/governed_build.py synthetic DIR --cap 5GiB [--jobs 1 2 3 4] [--json FILE]
    python benchmarks/governed_build.py slot SLOT DIR --cap 10GiB [--jobs 1 2] [--json FILE]

``synthetic`` writes a project of C++ units that are heavy with templates, of 0.2 to 4 GiB each.
``slot`` takes the ninja file that a ``make`` has left in a build slot (of torch's cpp_extension,
for example). All builds compile the same units from nothing, one build after the other, each in a
control group of its own with the cap as its limit; so this runs only where such a group can be made
(``--hard-cap on`` of a make tells). A fixed ``-j`` is ninja's, through a launcher that only
measures. The governed build comes twice: knowing nothing, and knowing the first one's history.
``--governed again --history SLOT/records.jsonl`` runs the second alone, from what a make recorded.
A build ends at its first failed unit, as ninja's do.

"x bound" compares with the lower bound for schedules that reserve peaks, from the unit times of the
same build, "x any" with the one for any schedule, "x alone" with the first from the unit times of
``-j1``; "slowdown" is what the units took longer than there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.arch import parse_arch
from buildkit.events import SILENT
from buildkit.governor.bounds import Load, bounds_for
from buildkit.governor.capacity import read_capacity, read_headroom
from buildkit.governor.estimate import Prior, measured_of
from buildkit.governor.govern import governed, offered_jobs
from buildkit.governor.hardcap import HardCap, hard_cap
from buildkit.governor.jobs import Limit
from buildkit.governor.knowledge import Knowledge, unit_of
from buildkit.launcher import Admission, binary, read_records, render_config
from buildkit.sizes import parse_size
from buildkit.values import FlagRule

if TYPE_CHECKING:
    from buildkit.records import UnitRecord

GIB = 1 << 30

#: GiB of the synthetic units; a cell of the template below costs some 40 kB.
SIZES = (*(0.25,) * 4, *(0.5,) * 4, *(1.0,) * 3, *(1.5,) * 2, *(2.5,) * 2, 4.0)
CELLS_PER_GIB = 26_000

TEMPLATE = """\
// A binary tree of instantiations: the compiler keeps every one of them.
template <int N> struct Cell {
  int v[3];
  template <class T> constexpr int f(T t) const {
    int s = 0;
    for (int i = 0; i < 3; ++i) s += v[i] * t.v[i] + N;
    return s;
  }
};
template <int A, int B> struct Walk {
  static int go() {
    if constexpr (B - A == 1) {
      return Cell<A>{}.f(Cell<A + 1>{});
    } else {
      constexpr int M = (A + B) / 2;
      return Walk<A, M>::go() ^ Walk<M, B>::go();
    }
  }
};
"""


@dataclass(frozen=True, kw_only=True)
class Project:
    """What is built."""

    ninja: Path
    """Directory of its ninja file."""
    tools: dict[str, Path]
    rules: tuple[FlagRule, ...]
    targets: tuple[str, ...]
    """Outputs to build; empty for all."""
    prior: Prior


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one build went."""

    rule: str
    seconds: float
    status: int
    failed: int
    """Units that ninja saw fail."""
    kernel_kills: int
    repeated: int
    """Attempts that were ended for memory and repeated."""
    peak_bytes: int
    """Most that the calls held together, by the launchers' samples."""
    loads: tuple[Load, ...]
    """Of the successful attempts, without pauses."""

    @property
    def unit_seconds(self) -> float:
        """Return the sum of the units' times."""
        return sum(load.seconds for load in self.loads)


def synthetic(folder: Path) -> Project:
    """Write the project; units in a mixed order that is the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    order = sorted(range(len(SIZES)), key=lambda number: (number * 7) % len(SIZES))
    lines = [
        "rule cxx",
        f"  command = '{binary('bk-launch')}' g++ -std=c++20 -O1 -c $in -o $out",
    ]
    for place, number in enumerate(order):
        cells = int(SIZES[number] * CELLS_PER_GIB)
        text = f"{TEMPLATE}int total{place}() {{ return Walk<0, {cells}>::go(); }}\n"
        (folder / f"unit{place}.cpp").write_text(text)
        lines.append(f"build unit{place}.o: cxx unit{place}.cpp")
    (folder / "build.ninja").write_text("\n".join([*lines, ""]))
    return Project(
        ninja=folder,
        tools={},
        rules=(),
        targets=(),
        prior=Prior(peak_bytes=3 * GIB // 2, seconds=20.0),
    )


def from_slot(slot: Path) -> Project:
    """Take what a make has left."""
    (file,) = slot.glob("build/**/build.ninja")
    tools, rules = {}, []
    for line in (slot / "launch.conf").read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == "tool":
            name, path = value.split("\t")
            tools[name] = Path(path)
        elif key == "rule":
            language, old, new = value.split("\t")
            rules.append(FlagRule(old=old, new=new, language=language))
    objects = [
        line.split(":")[0].removeprefix("build ")
        for line in file.read_text().splitlines()
        if line.startswith("build ") and ": cuda_compile" in line
    ]
    return Project(
        ninja=file.parent,
        tools=tools,
        rules=tuple(rules),
        targets=tuple(objects),
        prior=Prior(peak_bytes=7 * GIB, seconds=90.0),
    )


class Bench:
    """Runs the builds."""

    def __init__(self, project: Project, folder: Path, cap_bytes: int, cpus: int) -> None:
        self._project = project
        self._folder = folder
        self._cap_bytes = cap_bytes
        self._cpus = cpus
        self._ninja = project.tools.get("ninja") or Path(shutil.which("ninja") or "ninja")
        self.history: dict = {}

    def fixed(self, jobs: int) -> Result:
        """Build with a fixed ``-j``."""
        with hard_cap(self._cap_bytes, "on") as cap:
            return self._run(f"-j{jobs}", jobs, None, cap)

    def governed(self, rule: str) -> Result:
        """Build under the governor, and learn from it."""
        capacity = read_capacity(requested_memory=self._cap_bytes, requested_jobs=self._cpus)
        priors = {"cuda": self._project.prior, "c++": self._project.prior}
        knowledge = Knowledge(
            limit=Limit(memory_bytes=self._cap_bytes, cpus=self._cpus),
            roots=(),
            history=self.history,
            profile={},
            priors={**priors, "link": self._project.prior},
        )
        file = self._folder / "knowledge.json"
        file.write_text(knowledge.render())
        admission = Admission(
            folder=self._folder / "governor",
            knowledge=file,
            slots=1,
            cap_bytes=self._cap_bytes,
            jobs=offered_jobs(capacity),
        )
        with hard_cap(self._cap_bytes, "on") as cap:

            def headroom() -> int:
                own = cap.headroom()
                return read_headroom() if own is None else min(own, read_headroom())

            with governed(admission.folder, capacity, events=SILENT, headroom=headroom):
                result = self._run(rule, admission.jobs, admission, cap)
        self.learn(self._records())
        return result

    def learn(self, records: tuple[UnitRecord, ...]) -> None:
        """Add what calls took to the history."""
        for record in records:
            if record.status == 0 or record.ended:
                unit = unit_of(record.source, record.output, record.flags, ())
                self.history.setdefault(unit, []).append(measured_of(record))

    def _run(self, rule: str, jobs: int, admission: Admission | None, cap: HardCap) -> Result:
        self._clean()
        config = self._folder / "launch.conf"
        config.write_text(
            render_config(
                target=parse_arch("sm120"),
                without_code="keep",
                rules=self._project.rules,
                tools=self._project.tools,
                records=self._folder / "records.jsonl",
                admission=admission,
            )
        )
        before = cap.kills()
        start = time.monotonic()
        log = self._folder / f"{rule.replace(' ', '-')}.log"
        with log.open("w") as output:
            ninja = subprocess.Popen(
                [
                    *(binary("bk-isolate"), "--cgroup", cap.entrance, "--", self._ninja),
                    *("-C", self._project.ninja, f"-j{jobs}", *self._project.targets),
                ],
                env={**os.environ, "BK_LAUNCH_CONFIG": str(config)},
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            # The launcher would repeat what the kernel kills; a build without it ends there.
            while ninja.poll() is None:
                if admission is None and cap.kills() > before:
                    os.killpg(ninja.pid, signal.SIGINT)
                    ninja.wait()
                time.sleep(0.2)
        seconds = time.monotonic() - start
        kills = cap.kills() - before
        failed = log.read_text().count("FAILED: ")
        if admission is None and kills:
            failed = max(1, failed)
        return self._result(rule, seconds, ninja.returncode, failed, kills)

    def _result(self, rule: str, seconds: float, status: int, failed: int, kills: int) -> Result:
        records = self._records()
        good = [record for record in records if record.status == 0]
        loads = tuple(
            Load(
                seconds=record.wall_seconds - record.paused_seconds,
                peak_bytes=record.peak_bytes,
                cpu_seconds=record.cpu_seconds,
                byte_seconds=record.byte_seconds,
            )
            for record in good
        )
        return Result(
            rule=rule,
            seconds=seconds,
            status=status,
            failed=failed,
            kernel_kills=kills,
            repeated=sum(bool(record.ended) for record in records),
            peak_bytes=peak_of(records),
            loads=loads,
        )

    def _records(self) -> tuple[UnitRecord, ...]:
        return read_records(self._folder / "records.jsonl")

    def _clean(self) -> None:
        (self._folder / "records.jsonl").unlink(missing_ok=True)
        command = [self._ninja, "-C", self._project.ninja, "-t", "clean", *self._project.targets]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def peak_of(records: tuple[UnitRecord, ...]) -> int:
    """Return the most that all calls held together, from their samples."""
    changes = []
    for record in records:
        held = 0
        for seconds, mib in record.memory:
            changes.append((record.start + seconds, (mib << 20) - held))
            held = mib << 20
        changes.append((record.start + record.wall_seconds, -held))
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def render(results: list[Result], cap_bytes: int, cpus: int) -> str:
    """Return the table."""
    alone = next((one for one in results if one.rule == "-j1" and not one.failed), None)
    lines = [
        f"cap {cap_bytes / GIB:.1f} GiB, {cpus} CPUs",
        f"{'build':<18}{'seconds':>9}{'units':>7}{'failed':>8}{'kills':>7}{'repeated':>10}"
        f"{'peak':>7}{'x bound':>9}{'x any':>7}{'x alone':>9}{'slowdown':>10}",
    ]

    def ratios(result: Result, loads: tuple[Load, ...]) -> tuple[str, str]:
        bounds = bounds_for(loads, cap_bytes=cap_bytes, cpus=cpus)
        found = result.seconds / bounds.best, result.seconds / bounds.of_any_schedule
        return f"{found[0]:.2f}", f"{found[1]:.2f}"

    for result in results:
        whole = not result.failed
        own, any_ = ratios(result, result.loads) if whole else ("-", "-")
        other, _ = ratios(result, alone.loads) if whole and alone else ("-", "-")
        slow = f"{result.unit_seconds / alone.unit_seconds:.2f}" if whole and alone else "-"
        lines.append(
            f"{result.rule:<18}{result.seconds:>9.1f}{len(result.loads):>7}{result.failed:>8}"
            f"{result.kernel_kills:>7}{result.repeated:>10}{result.peak_bytes / cap_bytes:>7.0%}"
            f"{own:>9}{any_:>7}{other:>9}{slow:>10}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run all builds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["synthetic", "slot"])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--cap", required=True)
    parser.add_argument("--cpus", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--jobs", type=int, nargs="*", default=None)
    parser.add_argument("--governed", choices=["first", "again", "both", "none"], default="both")
    parser.add_argument("--history", type=Path, help="records of an earlier build, for `again`")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    folder = given.paths[-1].absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if given.kind == "synthetic":
        project = synthetic(folder / "project")
    else:
        project = from_slot(given.paths[0].absolute())
    cap_bytes = parse_size(given.cap)
    bench = Bench(project, folder, cap_bytes, given.cpus)
    if given.history is not None:
        bench.learn(read_records(given.history))
    results: list[Result] = []
    jobs = list(range(1, 2 * given.cpus + 1)) if given.jobs is None else given.jobs
    rounds = {"both": ("first", "again"), "none": ()}.get(given.governed, (given.governed,))
    builds = [*((f"governed, {name}", None) for name in rounds), *((f"-j{n}", n) for n in jobs)]
    for rule, count in builds:
        result = bench.governed(rule) if count is None else bench.fixed(count)
        results.append(result)
        print(f"{rule}: {result.seconds:.1f} s, {result.failed} failed", file=sys.stderr)
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(one) for one in results], indent=2))
    print(render(results, cap_bytes, given.cpus))


if __name__ == "__main__":
    main()
