"""One governor per machine and user: the first ``make`` serves, the others join.

What enters: a directory that all makes of a user on one machine share, and the capacity. What
leaves: while the block runs, a governor answers at the directory's socket. Whoever holds the lock
beside it serves; a make that joined takes over when the one that served has ended.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Literal

from buildkit.digest import digest_value
from buildkit.fs import try_locked
from buildkit.governor.capacity import read_headroom
from buildkit.governor.ledger import Ledger, Load
from buildkit.governor.protocol import render_request
from buildkit.governor.server import BACKLOG, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.governor.capacity import Capacity

__all__ = ["give_up", "governed", "machine_name", "offered_jobs", "read_load"]

#: Seconds between two looks whether the governor of another make has ended. Launchers wait longer
#: before they fall back to lock slots.
TAKEOVER_SECONDS = 0.2

#: What a call that waits costs beside the build tool: a shell and a launcher.
#: Source: benchmarks/governor_cost.py.
WAITING_BYTES = 1 << 20
WAITING_PIDS = 2

#: A call that runs: launcher, shell, nvcc and what it starts.
RUNNING_PIDS = 8

#: Calls that are offered per CPU, so that the order has something to choose from, and the most.
OFFERED_PER_CPU = 32
MOST_OFFERED = 1024

#: Open files that serving may need: one per call that waits, of a few builds.
DESCRIPTORS = 4 * MOST_OFFERED

#: Part of the cap that waiting calls may cost.
WAITING_SHARE = 0.03


def machine_name() -> str:
    """Return a name that differs between machines, and between containers of one machine.

    A cache directory may be shared by both, memory is not: a process namespace is as good a sign
    of a container as there is. Source: random(4), "boot_id"; namespaces(7).
    """
    from pathlib import Path

    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = socket.gethostname()
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    return digest_value([boot, namespace, os.geteuid()])[:12]


def offered_jobs(capacity: Capacity) -> int:
    """Return the ``-j`` of the build tool: far above the CPUs, within processes and memory."""
    bounds = [
        max(64, OFFERED_PER_CPU * capacity.cpus),
        MOST_OFFERED,
        int(WAITING_SHARE * capacity.cap_bytes / WAITING_BYTES),
        _descriptors() - 64,
    ]
    if capacity.free_pids is not None:
        bounds.append((capacity.free_pids - RUNNING_PIDS * capacity.cpus) // WAITING_PIDS)
    return max(capacity.cpus + 1, min(bounds))


@contextmanager
def governed(
    folder: Path,
    capacity: Capacity,
    *,
    events: Events,
    headroom: Callable[[], int] = read_headroom,
) -> Iterator[None]:
    """See to it that a governor serves in ``folder`` while the block runs.

    A governor that cannot serve is told as a warning; the launchers then take lock slots.

    :param capacity: Of the machine, without what a user asked for one build.
    """

    @contextmanager
    def service() -> Iterator[None]:
        over = threading.Event()
        arguments = (folder, capacity, events, headroom, over)
        thread = threading.Thread(target=_serve_or_wait, args=arguments, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(timeout=5.0)

    with _set_aside(service):
        yield


@contextmanager
def _set_aside(service: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Serve while the block runs, but not while Ctrl-Z has stopped this process.

    The calls of other makes would wait for an answer until somebody thinks of ``fg``.
    """
    is_asked = signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
    if not is_asked or threading.current_thread() is not threading.main_thread():
        with service():
            yield
        return
    with ExitStack() as stack:

        def stop(_number: int, _frame: object) -> None:
            stack.close()
            os.kill(os.getpid(), signal.SIGSTOP)
            stack.enter_context(service())

        stack.enter_context(service())
        signal.signal(signal.SIGTSTP, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def read_load(folder: Path, build: str) -> Load | None:
    """Ask the governor in a directory how a build is doing; None if none answers.

    :param build: The file that tells what is known of its units.
    """
    try:
        with _told(folder, "report", build) as handle, handle.makefile() as answer:
            return Load(**json.loads(answer.readline()))
    except (OSError, ValueError, TypeError):
        return None


def give_up(folder: Path, build: str) -> None:
    """Tell the governor in a directory that a build has failed: its calls that wait end then.

    Without a governor they run, which only takes longer.
    """
    with suppress(OSError), _told(folder, "giveup", build):
        pass


@contextmanager
def _told(folder: Path, word: Literal["report", "giveup"], build: str) -> Iterator[socket.socket]:
    """Yield a connection to the governor in a directory, who was told a word about a build."""
    with closing(socket.socket(socket.AF_UNIX)) as handle, _address(folder) as address:
        handle.settimeout(1.0)
        handle.connect(address)
        handle.sendall(render_request(word, build))
        yield handle


def _serve_or_wait(
    folder: Path,
    capacity: Capacity,
    events: Events,
    headroom: Callable[[], int],
    over: threading.Event,
) -> None:
    waited = False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not over.is_set():
            with try_locked(folder / "lock") as is_ours:
                if is_ours:
                    _serve(folder, capacity, headroom, over, waited=waited)
                    return
            waited = True
            over.wait(TAKEOVER_SECONDS)
    except Exception as error:  # whatever it is, the build goes on without a governor
        events.warning(f"No governor: {error}. Compiler calls run as many at a time as surely fit.")


def _serve(
    folder: Path,
    capacity: Capacity,
    headroom: Callable[[], int],
    over: threading.Event,
    *,
    waited: bool,
) -> None:
    """Serve; the caller holds the lock.

    :param waited: Another governor has served until now. One that was killed leaves its socket.
    """
    _raise_descriptors()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        with _address(folder) as address:
            succeeds = (folder / "socket").exists() or waited
            (folder / "socket").unlink(missing_ok=True)
            listener.bind(address)
        (folder / "socket").chmod(0o600)
        listener.listen(BACKLOG)
        ledger = Ledger(cap_bytes=capacity.cap_bytes, cpus=capacity.cpus)
        try:
            server = Server(listener, ledger, headroom=headroom, succeeds=succeeds)
            server.serve(over.is_set)
        finally:
            (folder / "socket").unlink(missing_ok=True)


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Yield a name of the directory's socket that is short enough for an address.

    Its path may not be: an address holds 107 bytes. Source: unix(7).
    """
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/socket"
    finally:
        os.close(handle)


def _descriptors() -> int:
    """Return how many files this process may open, once it has asked for it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)


def _raise_descriptors() -> None:
    """Ask for as many open files as connections may need; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _descriptors():
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_descriptors(), hard))
