"""What people and scripts see: plain lines, a moving line on a terminal, JSON."""

from __future__ import annotations

import io
import json
import sys
import threading
from pathlib import Path

import pytest

from buildkit.console import (
    JsonEvents,
    PlainEvents,
    TerminalEvents,
    TickingEvents,
    draw_error,
    draw_unexpected,
    events_for,
    render_error_json,
    render_progress,
)
from buildkit.errors import CompileError, Location, RecipeError
from buildkit.events import Progress
from tests.fakes import TickingClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def half(done: int = 5) -> Progress:
    return Progress(done=done, total=10, unit="files", current="a.cu")


def test_who_knows_better_what_is_left_is_believed():
    progress = Progress(done=3, total=4, unit="steps", current="a.cu", seconds_left=250.0)
    assert render_progress(progress, 9.0) == "[3/4] 0:09 elapsed, about 4:10 to go  a.cu"


def test_a_pipe_gets_one_line_per_step_and_a_sign_of_life_now_and_then() -> None:
    stream = io.StringIO()
    events = PlainEvents(stream, clock=TickingClock(step=20.0))
    events.step("build", "toy 1.0")
    for done in range(1, 5):
        events.progress(half(done))
    events.warning("mind the gap")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "build    toy 1.0"
    assert lines[1] == "         [2/10] 0:40 elapsed, about 2:40 to go  a.cu"
    assert lines[2] == "         [4/10] 1:20 elapsed, about 2:00 to go  a.cu"
    assert lines[3] == "warning: mind the gap"
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_a_line_that_moves_and_goes_away() -> None:
    stream = Terminal()
    events = TerminalEvents(stream, clock=TickingClock())
    events.step("build")
    events.progress(half())
    events.warning("mind the gap")
    events.progress(half(6))
    events.close()
    text = stream.getvalue()
    assert "\r\x1b[K         [5/10]" in text
    assert text.endswith("\r\x1b[K"), "nothing of the moving line may stay"


def test_the_drawing_follows_from_where_the_output_goes() -> None:
    assert isinstance(events_for(as_json=True), JsonEvents)
    for stream, is_coloured in ((Terminal(), True), (io.StringIO(), False)):
        events = events_for(as_json=False, stream=stream)
        events.step("build")
        events.close()
        assert ("\x1b[" in stream.getvalue()) is is_coloured


def test_time_is_seen_to_pass_while_no_tool_says_a_word() -> None:
    drawn = threading.Event()

    class Drawing(PlainEvents):
        count = 0

        def progress(self, progress: Progress) -> None:
            self.count += 1
            if self.count == 3:
                drawn.set()

    before = set(threading.enumerate())
    events = TickingEvents(Drawing(io.StringIO()), period_seconds=0.01)
    events.progress(Progress(done=1, total=3, unit="steps"))
    assert drawn.wait(20)
    assert set(threading.enumerate()) - before
    events.step("verify")
    events.close()
    assert not set(threading.enumerate()) - before


def test_an_error_is_one_line_with_place_and_remedy(tmp_path: Path) -> None:
    stream = io.StringIO()
    error = RecipeError(
        "Found 'x', allowed 'y'.",
        where=Location(file="toy.toml", line=3, key="build.backend"),
        remedy="Correct it.",
        log=tmp_path / "log",
    )
    draw_error(error, as_json=False, stream=stream)
    assert stream.getvalue().splitlines() == [
        "error: toy.toml:3 (build.backend): Found 'x', allowed 'y'. Correct it.",
        f"       The log: {tmp_path / 'log'}",
    ]


def test_a_compile_error_shows_the_unit_s_own_messages_first() -> None:
    stream = io.StringIO()
    error = CompileError("nvcc could not compile a.cu.", unit="a.cu", output="a.cu(3): bad\n")
    draw_error(error, as_json=False, stream=stream)
    assert stream.getvalue() == "a.cu(3): bad\nerror: nvcc could not compile a.cu.\n"


def test_an_error_as_json() -> None:
    error = RecipeError("Wrong.", where=Location(file="toy.toml"), remedy="Mend it.")
    document = json.loads(render_error_json(error))
    assert document == {
        "status": "error",
        "slug": "recipe",
        "what": "Wrong.",
        "where": {"file": "toy.toml", "line": None, "key": None},
        "remedy": "Mend it.",
        "log": None,
    }


def test_an_unforeseen_error_is_one_line_and_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError as error:
        draw_unexpected(error, {"BUILDKIT_CACHE": str(tmp_path)})
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    file = Path(line.rstrip().rsplit(" ", 1)[1])
    assert file.parent == tmp_path / "crashes"
    assert "ZeroDivisionError: oops" in file.read_text()
    assert sys.stdout is not None
