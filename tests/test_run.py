"""Processes: what they see, what they leave, how they end."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from buildkit.errors import ToolchainError
from buildkit.run import ProcessRunner, render_environment
from tests.fakes import hear_interrupts, is_alive, wait_for

ENV = {"PATH": os.environ["PATH"]}


def test_a_command_sees_only_the_environment_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O0")
    done = ProcessRunner().capture(["env"], env={**ENV, "ONLY": "1"})
    assert "ONLY=1" in done.stdout
    assert "CFLAGS" not in done.stdout


def test_the_program_is_found_in_the_child_s_path(tmp_path: Path) -> None:
    tool = tmp_path / "bin dir" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    done = ProcessRunner().capture(["tool"], env={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    assert done.stdout == "mine\n"


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ToolchainError, match="'no-such-tool' was not found in PATH=/nowhere"):
        ProcessRunner().capture(["no-such-tool"], env={"PATH": "/nowhere"})


def test_a_stream_reaches_the_log_and_the_reader_line_by_line() -> None:
    log, lines = io.BytesIO(), []
    command = ["sh", "-c", "echo out; echo err >&2; printf '\\377bad'; exit 3"]
    status = ProcessRunner().stream(command, env=ENV, log=log, on_line=lines.append)
    assert status == 3
    assert lines == ["out", "err", "\ufffdbad"]
    assert log.getvalue().startswith(b"+ sh -c ")
    assert log.getvalue().endswith(b"\nout\nerr\n\xffbad")


def test_standard_input_is_empty() -> None:
    assert ProcessRunner().capture(["cat"], env=ENV).stdout == ""


@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel does not weigh sessions"
)
def test_a_niced_make_starts_niced_sessions() -> None:
    code = (
        "from buildkit.run import ProcessRunner\n"
        "command = ['sh', '-c', 'sleep 0.2; cat /proc/self/autogroup']\n"
        f"print(ProcessRunner().capture(command, env={ENV}).stdout)"
    )
    done = subprocess.run(
        ["nice", "-n", "7", sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[1:] == ["nice", "7"]


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    code = f"sleep 300 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(ToolchainError, match=r"gave no answer within 0\.3 s"):
        ProcessRunner().capture(["sh", "-c", code], env=ENV, timeout_seconds=0.3)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_an_interrupt_ends_the_whole_group(tmp_path: Path) -> None:
    # The child's child ignores the first two rungs of the ladder, as a stuck compiler might.
    inner = "trap '' INT TERM; echo $$ > $0; while :; do sleep 0.1; done"
    code = f"""
import io, sys
from buildkit import run
run.LADDER = tuple((number, 0.3) for number, _ in run.LADDER)
try:
    run.ProcessRunner().stream(["sh", "-c", "sh -c \\"$1\\" $2 & wait", "x", {inner!r},
        {str(tmp_path / "pid")!r}], env={ENV!r}, log=io.BytesIO())
except KeyboardInterrupt:
    sys.exit(130)
"""
    import subprocess

    process = subprocess.Popen([sys.executable, "-c", code], preexec_fn=hear_interrupts)
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_two_runs_at_once_do_not_disturb_each_other() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=n: results.append(  # type: ignore[misc]  # the default binds n
                ProcessRunner().capture(["sh", "-c", f"exit {n}"], env=ENV).status
            )
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))


def test_only_changes_are_shown_and_secrets_are_not() -> None:
    lines = render_environment({"A": "1", "B": "x y", "MY_TOKEN": "hush"}, {"A": "1"})
    assert lines == ["B='x y'", "MY_TOKEN=***"]
