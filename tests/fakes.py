"""Stand-ins for the outside: a scripted runner, a clock that ticks, events that remember.

And what a test does with real processes: finds them, waits for what they do.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from buildkit.run import Completed, render_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from buildkit.events import Progress


def hear_interrupts() -> None:
    """Make a child hear Ctrl-C and its like even where the tests run in a script's background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def processes_with(mark: str) -> list[str]:
    """Return the process numbers of all whose command line holds a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "cmdline").read_text():
                found.append(folder.name)
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Tell whether a process still runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for(is_so: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something is so.

    :raises AssertionError: if it does not become so.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not become so in time"
        time.sleep(0.02)


@dataclass
class ScriptedRunner:
    """Answers commands from a table: the first key that the command line contains."""

    answers: dict[str, Completed]
    commands: list[str] = field(default_factory=list)

    def capture(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        timeout_seconds: float | None = None,
    ) -> Completed:
        line = render_command(argv)
        self.commands.append(line)
        for part, answer in self.answers.items():
            if part in line:
                return answer
        raise AssertionError(f"unexpected command: {line}")

    def stream(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        log: BinaryIO,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> int:
        answer = self.capture(argv, env=env, cwd=cwd)
        for line in answer.stdout.splitlines():
            log.write(f"{line}\n".encode())
            if on_line is not None:
                on_line(line)
        return answer.status

    def attach(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | None = None
    ) -> int:
        return self.capture(argv, env=env, cwd=cwd).status


def says(stdout: str = "", *, status: int = 0, stderr: str = "") -> Completed:
    """What a scripted command answers."""
    return Completed(status=status, stdout=stdout, stderr=stderr)


@dataclass
class TickingClock:
    """A clock that moves by a fixed step at each reading."""

    now: float = 0.0
    step: float = 1.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@dataclass
class RecordingEvents:
    """Remembers what a stage told."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    progresses: list[Progress] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def step(self, name: str, detail: str = "") -> None:
        self.steps.append((name, detail))

    def progress(self, progress: Progress) -> None:
        self.progresses.append(progress)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def fact(self, key: str, value: str) -> None:
        self.facts[key] = value

    def output(self, line: str) -> None:
        self.lines.append(line)
