"""The only module that starts processes.

What enters: an argument list (never a shell string), a complete environment, a directory. What
leaves: an exit status and what was written. Each child leads a process group of its own with
``/dev/null`` as its input; when the kit is interrupted the whole group is asked to stop, then
told, then killed, so that no compiler outlives its ``make``. The program is looked up in the
child's PATH, not in ours.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from buildkit.environ import SECRET_MARKS
from buildkit.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Completed", "ProcessRunner", "Runner", "render_command"]

#: Seconds that a group gets after each signal of the ladder before the next one.
#: Source: as patient as the ladder of nox (interrupt, terminate, kill), our own figures.
LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a captured command ended."""

    status: int
    """Exit status; the negative signal number if a signal ended it."""
    stdout: str
    stderr: str


class Runner(Protocol):
    """What the rooms need of processes; tests script it."""

    def capture(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        timeout_seconds: float | None = None,
    ) -> Completed:
        """Run a short command and return what it wrote."""

    def stream(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        log: BinaryIO,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> int:
        """Run a long command, write both its outputs to a log line by line, return its status."""

    def attach(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | None = None
    ) -> int:
        """Run a command on our own terminal and return its status."""


class ProcessRunner:
    """Runs real processes."""

    def capture(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        timeout_seconds: float | None = None,
    ) -> Completed:
        """Run a short command and return what it wrote.

        :param env: The whole environment of the child.
        :raises ToolchainError: if the program is not found, or did not end in time.
        """
        process = _start(argv, env=env, cwd=cwd, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            raise ToolchainError(
                f"`{render_command(argv)}` gave no answer within {timeout_seconds:g} s.",
                remedy="Run it by hand to see what it waits for.",
            ) from None
        except BaseException:
            _stop(process)
            raise
        return Completed(
            status=process.returncode,
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
        )

    def stream(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        log: BinaryIO,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> int:
        """Run a long command, write both its outputs to a log line by line, return its status.

        :param env: The whole environment of the child.
        :param on_line: Called with each line, without its end, after it was logged.
        :returns: Exit status; the negative signal number if a signal ended it.
        :raises ToolchainError: if the program is not found.
        """
        log.write(f"+ {render_command(argv)}\n".encode())
        process = _start(argv, env=env, cwd=cwd, stderr=subprocess.STDOUT)
        if process.stdout is None:  # pragma: no cover - Popen gives the pipe that was asked for
            raise AssertionError("no pipe")
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if on_line is not None:
                    on_line(line.decode(errors="replace").rstrip("\r\n"))
            process.stdout.close()
            return process.wait()
        except BaseException:
            _stop(process)
            raise

    def attach(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | None = None
    ) -> int:
        """Run a command on our own terminal and return its status.

        It stays in our process group, so that the terminal's signals reach it, and it alone
        decides what they do.

        :returns: Exit status; 128 plus the signal number if a signal ended it.
        :raises ToolchainError: if the program is not found.
        """
        # A handler, not SIG_IGN: only a handler is reset in the child.
        before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
        try:
            process = subprocess.Popen(
                [_find(argv, env), *(str(part) for part in argv[1:])], env=dict(env), cwd=cwd
            )
            status = process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
        return status if status >= 0 else 128 - status


def render_command(argv: Sequence[str | Path]) -> str:
    """Return the command as a line that can be pasted into a shell.

    >>> render_command(["cp", "a b", "c"])
    "cp 'a b' c"
    """
    return shlex.join(str(part) for part in argv)


def render_environment(env: Mapping[str, str], base: Mapping[str, str]) -> list[str]:
    """Return the lines of what ``env`` changes against ``base``, with secrets hidden."""
    lines = []
    for name in sorted(env):
        if env[name] == base.get(name):
            continue
        secret = any(mark in name.upper() for mark in SECRET_MARKS)
        lines.append(f"{name}={'***' if secret else shlex.quote(env[name])}")
    return lines


def _find(argv: Sequence[str | Path], env: Mapping[str, str]) -> str:
    """Return the path of the program, looked up in the child's own PATH."""
    program = shutil.which(str(argv[0]), path=env.get("PATH", os.defpath))
    if program is None:
        raise ToolchainError(
            f"Program {str(argv[0])!r} was not found in PATH={env.get('PATH', '')}.",
            remedy="Install it, or add its directory to PATH.",
        )
    return program


def _start(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stderr: int,
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [_find(argv, env), *(str(part) for part in argv[1:])],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )
    _keep_nice(process.pid)
    return process


def _keep_nice(leader: int) -> None:
    """Give a new session our own nice value, as a session on its own.

    Linux may weigh sessions against each other and nice values only within one, so that a new
    session of a niced process is as good as any other (``man 7 sched``, "The autogroup feature").
    """
    with suppress(OSError):  # no such feature, or the process has ended
        Path(f"/proc/{leader}/autogroup").write_text(str(os.nice(0)))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: ask, tell, kill; then reap."""
    for number, patience_seconds in LADDER:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline:
            if process.poll() is not None and not _group_lives(process.pid):
                break
            time.sleep(0.02)
        else:
            continue
        break
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
