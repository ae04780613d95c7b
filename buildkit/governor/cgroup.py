"""Control groups: which of them hold this process, and what they allow it.

What enters: the root of a file system with ``/proc`` and the cgroup mounts, so that tests can give
a tree of their own. What leaves: limits and usage as plain numbers. Reads only; both versions and
the hybrid of the two are the same walk, from the process's own directory up to the mount point.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cgroup", "find_cgroups"]


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One directory of a hierarchy. A file that it lacks, or that says "max", limits nothing.

    Source: Linux ``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/*.rst``.
    """

    version: Literal[1, 2]
    directory: Path
    name: str
    """Path below the mount point, ``/`` for the mount point itself."""

    def memory_limits(self) -> Iterator[tuple[int, str]]:
        """Yield each limit in bytes, and the file that says so.

        ``memory.high`` counts: a process above it is throttled until it hardly moves. The soft
        limit of version 1 does not: it only tells whom to reclaim from first. In version 1 the
        kernel also tells the smallest limit of all ancestors, those outside of our view too.
        """
        names = ("memory.max", "memory.high") if self.version == 2 else ("memory.limit_in_bytes",)
        for name in names:
            if (limit := self._number(name)) is not None:
                yield limit, self._label(name)
        if self.version == 1 and (limit := self._stat("hierarchical_memory_limit")) is not None:
            yield limit, self._label("memory.stat hierarchical_memory_limit")

    def memory_in_use(self) -> int:
        """Return the bytes charged, less page cache that can go at once."""
        if self.version == 2:
            current, inactive = self._number("memory.current"), self._stat("inactive_file")
        else:
            current = self._number("memory.usage_in_bytes")
            inactive = self._stat("total_inactive_file")
        return max(0, (current or 0) - (inactive or 0))

    def cpu_quota(self) -> tuple[float, str] | None:
        """Return how many CPUs' worth of time it may use, and the file that says so."""
        if self.version == 2:
            name = "cpu.max"
            quota, _, period = self._text(name).partition(" ")
        else:
            name = "cpu.cfs_quota_us"
            quota, period = self._text(name), self._text("cpu.cfs_period_us")
        if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
            return None
        return int(quota) / int(period), self._label(name)

    def counts_children(self) -> bool:
        """Tell whether its memory limit also holds for the groups below it."""
        return self.version == 2 or self._text("memory.use_hierarchy") == "1"

    def oom_kills(self) -> int:
        """Return how many of its processes the kernel has killed for memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return self._figure(name, "oom_kill") or 0

    def free_pids(self) -> int | None:
        """Return how many more processes and threads it may hold."""
        limit = self._number("pids.max")
        return None if limit is None else max(0, limit - (self._number("pids.current") or 0))

    def _label(self, name: str) -> str:
        return f"cgroup v{self.version} {self.name} {name}"

    def _text(self, name: str) -> str:
        try:
            return (self.directory / name).read_text().strip()
        except OSError:
            return ""

    def _number(self, name: str) -> int | None:
        text = self._text(name)
        return int(text) if text.isdecimal() else None

    def _stat(self, key: str) -> int | None:
        return self._figure("memory.stat", key)

    def _figure(self, file: str, key: str) -> int | None:
        for line in self._text(file).splitlines():
            name, _, value = line.partition(" ")
            if name == key and value.isdecimal():
                return int(value)
        return None


def find_cgroups(root: Path, controller: str) -> tuple[Cgroup, ...]:
    """Return the groups that hold this process, each before its parent.

    :param controller: Name in version 1, such as ``memory``. The unified hierarchy of version 2 is
        walked besides: in a hybrid setup only one of the two has the controller's files.
    """
    own = _own_paths(root)
    found: list[Cgroup] = []
    for version, names in _MOUNT_KINDS:
        path = own.get(controller if version == 1 else "")
        mounts = [
            (mount_root, point)
            for kind, mount_root, point, options in _mounts(root)
            if kind == names and (version == 2 or controller in options)
        ]
        if path is None or not mounts:
            continue
        relative, point = _locate(path, mounts)
        found += _ancestry(version, root / point.relative_to("/"), relative)
    return tuple(found)


_MOUNT_KINDS: tuple[tuple[Literal[1, 2], str], ...] = ((1, "cgroup"), (2, "cgroup2"))


def _own_paths(root: Path) -> dict[str, PurePosixPath]:
    """Return the process's path in each hierarchy by controller; "" is the unified one.

    Source: cgroups(7), "/proc/pid/cgroup".
    """
    paths = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = PurePosixPath(path)
    return paths


def _mounts(root: Path) -> Iterator[tuple[str, PurePosixPath, PurePosixPath, list[str]]]:
    r"""Yield type, root, mount point and super options of each mount.

    Source: proc(5), "/proc/pid/mountinfo"; blanks in names are written as ``\040``.
    """
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, ends = before.split(), after.split()
        if len(fields) < 5 or len(ends) < 3:
            continue
        place, point = (PurePosixPath(name.replace("\\040", " ")) for name in fields[3:5])
        yield ends[0], place, point, ends[2].split(",")


def _locate(
    path: PurePosixPath, mounts: list[tuple[PurePosixPath, PurePosixPath]]
) -> tuple[PurePosixPath, PurePosixPath]:
    """Return where below which mount point a path lies; the last mount hides the ones before.

    In a container whose mount shows another part of the hierarchy the path lies under none (it
    may even begin with ``/..``): what the mount point shows is then the best that is known.
    """
    for mount_root, point in reversed(mounts):
        if path.is_relative_to(mount_root) and ".." not in path.parts:
            return path.relative_to(mount_root), point
    return PurePosixPath(), mounts[-1][1]


def _ancestry(version: Literal[1, 2], top: Path, relative: PurePosixPath) -> Iterator[Cgroup]:
    for below in (relative, *relative.parents):
        directory = top / below
        if directory.is_dir():
            yield Cgroup(version, directory, f"/{below}" if below.parts else "/")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
