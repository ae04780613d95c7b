"""What the user sees: events and errors drawn for a terminal, for a pipe, or as JSON lines.

Colours and the moving progress line appear only on a terminal; a pipe gets plain lines. Results
go to standard output, everything else to standard error, so that a script can read the wheel's
path from the former.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from buildkit.errors import BuildkitError
    from buildkit.events import Progress

__all__ = [
    "PlainEvents",
    "TerminalEvents",
    "TickingEvents",
    "draw_error",
    "draw_unexpected",
    "events_for",
]

#: Seconds between two progress lines in a pipe: enough to see life in a CI log, not more.
PLAIN_PERIOD_SECONDS = 30.0

#: Seconds between two redraws of the progress line on a terminal.
TERMINAL_PERIOD_SECONDS = 0.1


class PlainEvents:
    """Draws events as plain lines."""

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_verbose: bool = False,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._is_verbose = is_verbose
        self._step_started = clock()
        self._last_drawn = clock()

    def step(self, name: str, detail: str = "") -> None:
        """Write one line per step."""
        self._step_started = self._last_drawn = self._clock()
        self._write(f"{name:<8} {detail}".rstrip())

    def progress(self, progress: Progress) -> None:
        """Write how far the step is, now and then."""
        now = self._clock()
        if now - self._last_drawn < PLAIN_PERIOD_SECONDS:
            return
        self._last_drawn = now
        self._write(f"         {render_progress(progress, now - self._step_started)}")

    def warning(self, text: str) -> None:
        """Write a warning."""
        self._write(f"warning: {text}")

    def fact(self, key: str, value: str) -> None:
        """Facts are for the machine-readable output alone."""

    def output(self, line: str) -> None:
        """Write what a tool printed, if it was asked for."""
        if self._is_verbose:
            self._write(line)

    def close(self) -> None:
        """Nothing is left open."""

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class TerminalEvents(PlainEvents):
    """Draws events on a terminal: colours, and one line that moves."""

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_verbose: bool = False,
    ) -> None:
        super().__init__(stream, clock=clock, is_verbose=is_verbose)
        self._is_line_open = False

    def step(self, name: str, detail: str = "") -> None:
        """Write one line per step, its name in bold."""
        self._step_started = self._last_drawn = self._clock()
        self._clear()
        print(f"\x1b[1;36m{name:<8}\x1b[0m {detail}".rstrip(), file=self._stream, flush=True)

    def progress(self, progress: Progress) -> None:
        """Redraw the moving line."""
        now = self._clock()
        is_last = progress.total is not None and progress.done >= progress.total
        if now - self._last_drawn < TERMINAL_PERIOD_SECONDS and not is_last:
            return
        self._last_drawn = now
        import shutil

        width = shutil.get_terminal_size().columns - 1
        line = f"         {render_progress(progress, now - self._step_started)}"[:width]
        print(f"\r\x1b[K{line}", end="", file=self._stream, flush=True)
        self._is_line_open = True

    def warning(self, text: str) -> None:
        """Write a warning in yellow."""
        self._clear()
        print(f"\x1b[33mwarning:\x1b[0m {text}", file=self._stream, flush=True)

    def output(self, line: str) -> None:
        """Write what a tool printed, if it was asked for."""
        if self._is_verbose:
            self._clear()
            self._write(line)

    def close(self) -> None:
        """Take the moving line away."""
        self._clear()

    def _clear(self) -> None:
        if self._is_line_open:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._is_line_open = False


class TickingEvents:
    """Passes events on, and repeats the last progress, so that time is seen to pass.

    A single compiler call may take many minutes, in which no tool says a word.
    """

    def __init__(self, drawing: PlainEvents, *, period_seconds: float = 1.0) -> None:
        self._drawing = drawing
        self._period_seconds = period_seconds
        self._lock = threading.Lock()
        self._last: Progress | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, name: str, detail: str = "") -> None:
        """Pass it on; the progress of the step before is over."""
        with self._lock:
            self._last = None
            self._drawing.step(name, detail)

    def progress(self, progress: Progress) -> None:
        """Pass it on, and go on repeating it."""
        with self._lock:
            self._last = progress
            self._drawing.progress(progress)
        if self._thread is None:
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def warning(self, text: str) -> None:
        """Pass it on."""
        with self._lock:
            self._drawing.warning(text)

    def fact(self, key: str, value: str) -> None:
        """Pass it on."""
        self._drawing.fact(key, value)

    def output(self, line: str) -> None:
        """Pass it on."""
        with self._lock:
            self._drawing.output(line)

    def close(self) -> None:
        """End the repeating, then the drawing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._drawing.close()

    def _tick(self) -> None:
        while not self._ended.wait(self._period_seconds):
            with self._lock:
                if self._last is not None:
                    self._drawing.progress(self._last)


class JsonEvents:
    """Draws nothing but keeps the facts and the warnings for the final JSON document."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.warnings: list[str] = []

    def step(self, name: str, detail: str = "") -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def output(self, line: str) -> None: ...
    def close(self) -> None: ...

    def warning(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)

    def fact(self, key: str, value: str) -> None:
        """Keep a fact."""
        self.facts[key] = value


def events_for(
    *, as_json: bool, verbose: bool = False, stream: TextIO | None = None
) -> TickingEvents | JsonEvents:
    """Return the drawing that suits where the output goes."""
    if as_json:
        return JsonEvents()
    target = sys.stderr if stream is None else stream
    kind = TerminalEvents if target.isatty() else PlainEvents
    return TickingEvents(kind(target, is_verbose=verbose))


def render_progress(progress: Progress, elapsed_seconds: float) -> str:
    """Return ``[done/total]``, the time gone, the time to go, and what is worked on.

    >>> from buildkit.events import Progress
    >>> render_progress(Progress(done=3, total=12, unit="files", current="a.cu"), 30.0)
    '[3/12] 0:30 elapsed, about 1:30 to go  a.cu'
    """
    if progress.unit == "bytes":
        done = f"{progress.done / 1e6:.1f} MB"
        total = f"{progress.total / 1e6:.1f} MB" if progress.total else "?"
    else:
        done, total = str(progress.done), str(progress.total or "?")
    text = f"[{done}/{total}] {render_seconds(elapsed_seconds)} elapsed"
    rest = progress.seconds_left
    if rest is None and progress.total and 0 < progress.done < progress.total:
        rest = elapsed_seconds / progress.done * (progress.total - progress.done)
    if rest is not None:
        text += f", about {render_seconds(rest)} to go"
    return f"{text}  {progress.current}".rstrip()


def render_seconds(seconds: float) -> str:
    """Return a duration as minutes and seconds, with hours where there are any.

    >>> render_seconds(65), render_seconds(3723)
    ('1:05', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def draw_error(error: BuildkitError, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Write an error: for people one line and its details, for scripts a JSON document."""
    from buildkit.errors import CompileError

    if as_json:
        print(render_error_json(error), file=sys.stdout if stream is None else stream)
        return
    target = sys.stderr if stream is None else stream
    if isinstance(error, CompileError) and error.output:
        print(error.output.rstrip(), file=target)
    label = "\x1b[1;31merror:\x1b[0m" if target.isatty() else "error:"
    print(f"{label} {error}", file=target)
    if error.log is not None:
        print(f"       The log: {error.log}", file=target)


def render_error_json(error: BuildkitError) -> str:
    """Return the JSON document of an error."""
    import json

    where = None
    if error.where is not None:
        where = {"file": error.where.file, "line": error.where.line, "key": error.where.key}
    return json.dumps(
        {
            "status": "error",
            "slug": error.slug,
            "what": error.what,
            "where": where,
            "remedy": error.remedy,
            "log": str(error.log) if error.log else None,
        }
    )


def draw_unexpected(error: Exception, environment: Mapping[str, str]) -> None:
    """Save the traceback of an error that we did not foresee, and say where it lies."""
    import tempfile
    import traceback
    from pathlib import Path

    from buildkit.paths import paths_from

    text = "".join(traceback.format_exception(error))
    try:
        folder = paths_from(environment).root / "crashes"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir())
    with tempfile.NamedTemporaryFile(
        "w", prefix="buildkit-", suffix=".txt", dir=folder, delete=False
    ) as file:
        file.write(text)
    print(
        f"error: buildkit failed in a way that it did not foresee: {type(error).__name__}: {error}."
        f" Please report it with the file {file.name}",
        file=sys.stderr,
    )
