"""The hard cap: a control group of its own for the build, in which the kernel keeps to the cap.

What enters: a cap and the user's wish. What leaves: while the block runs, a group that a process
enters by writing to one file. It stands behind the governor: what the governor did not foresee then
costs one compiler call and never the machine. The group lies below our own, so that no limit that
holds us is left. In version 2 a group that holds processes may not limit groups below it: where it
holds nobody but us, we step down into a group of our own meanwhile.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from buildkit.errors import Location, RequestError
from buildkit.governor.cgroup import Cgroup, find_cgroups

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HardCap", "HardCapWish", "hard_cap"]

HardCapWish = Literal["auto", "on", "off"]

#: Name of the groups that we make, before a number.
PREFIX = "buildkit-"

#: Seconds within which the killed processes of a group are expected to have ended.
PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HardCap:
    """Whether a group limits the build."""

    description: str
    """Which group, or why there is none."""
    group: Cgroup | None = None

    @property
    def entrance(self) -> Path | None:
        """The file that a process writes 0 to, to enter the group."""
        return None if self.group is None else self.group.directory / "cgroup.procs"

    def headroom(self) -> int | None:
        """Return the bytes that can be taken before the kernel kills; None without a group."""
        if self.group is None:
            return None
        limits = [limit for limit, _ in self.group.memory_limits()]
        return max(0, min(limits) - self.group.memory_in_use()) if limits else None

    def kills(self) -> int:
        """Return how many processes the kernel has killed in the group."""
        return 0 if self.group is None else self.group.oom_kills()


@contextmanager
def hard_cap(cap_bytes: int, wish: HardCapWish, *, root: Path = Path("/")) -> Iterator[HardCap]:
    """Make a group that holds no more than the cap, and remove it after the block.

    :param root: Of the file system with ``/proc`` and the cgroup mounts.
    :raises RequestError: if the user insists and no group can be made.
    """
    if wish == "off":
        yield HardCap(description="off")
        return
    with ExitStack() as after:
        made = _make(cap_bytes, root, after)
        if isinstance(made, str):
            if wish == "on":
                raise RequestError(
                    f"No control group can be made for the build: {made}.",
                    where=Location(file="command line", key="--hard-cap"),
                    remedy="Leave the flag away: the governor keeps to the cap without one. Or"
                    " start it as `systemd-run --user --scope -p Delegate=yes buildkit make ...`.",
                )
            yield HardCap(description=f"none: {made}")
            return
        after.callback(_remove, made.directory)
        yield HardCap(description=f"cgroup v{made.version} {made.name}", group=made)


def _make(cap_bytes: int, root: Path, after: ExitStack) -> Cgroup | str:
    """Return the group, or why there is none.

    :param after: Takes what undoes the changes around the group.
    """
    groups = find_cgroups(root, "memory")
    # Version 1 comes first where it has the controller; in a hybrid setup version 2 has none then.
    for parent in groups:
        if (parent.directory / "memory.limit_in_bytes").is_file() or parent.version == 2:
            break
    else:
        return "this process is in no memory group"
    reason = _refusal(parent, after)
    if reason is not None:
        return reason
    _sweep(parent.directory)
    try:
        directory = _new_directory(parent.directory)
    except OSError as error:
        return f"{parent.directory}: {error.strerror}"
    group = Cgroup(parent.version, directory, f"{parent.name.rstrip('/')}/{directory.name}")
    try:
        _limit(group, cap_bytes)
    except OSError as error:
        _remove(directory)
        return f"{directory}: {error.strerror}"
    return group


def _new_directory(parent: Path) -> Path:
    """Make a group that nobody else uses.

    :raises OSError: if none can be made.
    """
    for number in count():
        directory = parent / f"{PREFIX}{os.getpid()}-{number}"
        with suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise AssertionError  # there is always a next number


def _refusal(parent: Cgroup, after: ExitStack) -> str | None:
    """Return why a group below this one would not limit what we want, or would leave limits.

    Source: Linux ``Documentation/admin-guide/cgroup-v2.rst``, "No Internal Process Constraint";
    ``cgroup-v1/memory.rst``, "Hierarchy support".
    """
    if parent.version == 1:
        return None if parent.counts_children() else f"{parent.name} does not count its children"
    control = parent.directory / "cgroup.subtree_control"
    try:
        if "memory" in control.read_text().split():
            return None
        _delegate(parent.directory, after)
    except OSError as error:
        return (
            f"{parent.name} does not delegate memory and cannot be told to ({error.strerror});"
            " a group that holds other processes may not"
        )
    return None


def _delegate(parent: Path, after: ExitStack) -> None:
    """Let the groups below this one limit memory, from a group of our own if nobody else is here.

    :raises OSError: if the kernel does not let us.
    """
    control = parent / "cgroup.subtree_control"
    try:
        control.write_text("+memory")
    except OSError as error:
        holds = (parent / "cgroup.procs").read_text().split()
        if error.errno != errno.EBUSY or holds != [str(os.getpid())]:
            raise
        leaf = _new_directory(parent)
        after.callback(_step_up, leaf)
        (leaf / "cgroup.procs").write_text(holds[0])
        control.write_text("+memory")


def _step_up(leaf: Path) -> None:
    """Go back to where we were, so that the next cap finds what this one has found."""
    with suppress(OSError):
        (leaf.parent / "cgroup.subtree_control").write_text("-memory")
        (leaf.parent / "cgroup.procs").write_text(str(os.getpid()))
        leaf.rmdir()  # what we have started may still be in it: a later make sweeps it away


def _limit(group: Cgroup, cap_bytes: int) -> None:
    """Set the limit, and that it is not met by swapping.

    :raises OSError: if the limit itself cannot be set.
    """
    names = (
        ("memory.max", "memory.swap.max", "0")
        if group.version == 2
        else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", str(cap_bytes))
    )
    (group.directory / names[0]).write_text(str(cap_bytes))
    with suppress(OSError):  # a kernel without swap accounting has no such file
        (group.directory / names[1]).write_text(names[2])


def _remove(directory: Path) -> None:
    """Remove a group; what still runs in it is killed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return  # a later make sweeps it away
            with suppress(OSError, ValueError):
                for pid in map(int, (directory / "cgroup.procs").read_text().split()):
                    if pid > 0:  # 0 is a process that our namespace does not see
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        else:
            return


def _sweep(parent: Path) -> None:
    """Remove groups that a killed make left; that of another may be empty just now."""
    for directory in parent.glob(f"{PREFIX}*-*"):
        maker = directory.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", maker).exists():
            with suppress(OSError):
                directory.rmdir()
