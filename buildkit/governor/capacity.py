"""Capacity: how much memory and how many CPUs a build may use here, and who says so.

What enters: the machine's ``/proc`` and cgroup files, and the user's wishes. What leaves: a
:class:`Capacity`, which does not change during a build, and the live headroom, which does. Inside
a container the host's figures are wrong, so the smallest limit over the whole cgroup ancestry
counts.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from buildkit.errors import ToolchainError
from buildkit.governor.cgroup import find_cgroups
from buildkit.sizes import render_number

__all__ = [
    "Capacity",
    "jobs_for",
    "read_capacity",
    "read_headroom",
    "render_capacity",
    "reserve_for",
]

_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a build may use of this machine."""

    memory_bytes: int
    """The smallest limit, or what the user asked for if that is less."""
    memory_source: str
    """Who says so, such as ``cgroup v2 /ci/job memory.max``."""
    reserve_bytes: int
    """Part of it that is left to everything that is not a compiler; 0 if the user set a limit."""
    cpus: int
    """Compiler calls that can make progress at once."""
    cpu_source: str
    """Who says so, such as ``affinity``."""
    free_pids: int | None = None
    """Processes that may still be started; None if nothing limits them."""

    @property
    def cap_bytes(self) -> int:
        """What all running jobs together may use."""
        return self.memory_bytes - self.reserve_bytes


def read_capacity(
    *,
    root: Path = Path("/"),
    affinity: int | None = None,
    requested_memory: int | None = None,
    requested_jobs: int | None = None,
) -> Capacity:
    """Return what a build may use of the machine whose files lie under ``root``.

    :param affinity: CPUs that this process may run on; None asks the kernel. A cpuset needs no
        look of its own, as the kernel keeps every affinity inside it (cpuset(7)).
    :param requested_memory: Bytes that the user allows. More than the machine has is no promise
        that it can keep, so the machine's limit then stays.
    :param requested_jobs: Most jobs that the user allows.
    :raises ToolchainError: if nothing tells how much memory there is.
    """
    limits = [] if requested_memory is None else [(requested_memory, "--memory")]
    if (total := _meminfo(root, "MemTotal")) is not None:
        limits.append((total, "MemTotal"))
    for group in find_cgroups(root, "memory"):
        limits += group.memory_limits()
    if not limits:
        raise ToolchainError(
            f"Memory of this machine in {root / 'proc/meminfo'}: found no MemTotal.",
            remedy="Give --memory.",
        )
    memory, memory_source = min(limits, key=lambda limit: limit[0])
    if affinity is None:
        affinity = len(os.sched_getaffinity(0))
    cpus, cpu_source = _cpus(root, affinity, requested_jobs)
    free = [group.free_pids() for group in find_cgroups(root, "pids")]
    return Capacity(
        memory_bytes=memory,
        memory_source=memory_source,
        reserve_bytes=0 if memory_source == "--memory" else reserve_for(memory),
        cpus=cpus,
        cpu_source=cpu_source,
        free_pids=min((count for count in free if count is not None), default=None),
    )


def read_headroom(*, root: Path = Path("/")) -> int:
    """Return the bytes that can be taken right now before any limit is met.

    Memory that others hold is counted; page cache that can go at once is not. A machine that does
    not tell has no headroom.
    """
    rooms = [
        limit - group.memory_in_use()
        for group in find_cgroups(root, "memory")
        for limit, _ in group.memory_limits()
    ]
    rooms.append(_meminfo(root, "MemAvailable") or 0)
    return max(0, min(rooms))


def jobs_for(capacity: Capacity, prior_bytes: int) -> int:
    """Return how many jobs of one expected peak fit at once; the rule without a governor."""
    return max(1, min(capacity.cpus, capacity.cap_bytes // prior_bytes))


def render_capacity(capacity: Capacity) -> str:
    """Return the capacity and where it comes from, in one line.

    >>> render_capacity(Capacity(memory_bytes=16 << 30, memory_source="MemTotal",
    ...     reserve_bytes=3 << 29, cpus=8, cpu_source="affinity"))
    '14.5 GiB (MemTotal 16.0 GiB, less 1.5 GiB in reserve), 8 CPUs (affinity)'
    """
    memory = f"{capacity.memory_source} {capacity.memory_bytes / _GIB:.1f} GiB"
    if capacity.reserve_bytes:
        memory += f", less {capacity.reserve_bytes / _GIB:.1f} GiB in reserve"
    return (
        f"{capacity.cap_bytes / _GIB:.1f} GiB ({memory}),"
        f" {render_number(capacity.cpus, 'CPU')} ({capacity.cpu_source})"
    )


def reserve_for(memory_bytes: int) -> int:
    """Return what to leave to Python, the build tool and the kernel: 1.5 GB or 5 %, at most half.

    Source: our own choice.
    """
    return min(max(1_500_000_000, memory_bytes // 20), memory_bytes // 2)


def _cpus(root: Path, affinity: int, requested_jobs: int | None) -> tuple[int, str]:
    """Return the smallest number of CPUs, and who says so.

    A quota is rounded up: half a CPU that lies idle costs more than one job throttled now and then.
    """
    if requested_jobs is not None:
        return requested_jobs, "--jobs"
    counts = [(affinity, "affinity")]
    for group in find_cgroups(root, "cpu"):
        if (quota := group.cpu_quota()) is not None:
            counts.append((max(1, math.ceil(quota[0])), quota[1]))
    return min(counts, key=lambda count: count[0])


def _meminfo(root: Path, key: str) -> int | None:
    """Return one figure of ``/proc/meminfo`` in bytes. Source: proc(5); its "kB" are 1024 bytes."""
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        figure = value.split()
        if name == key and figure and figure[0].isdecimal():
            return int(figure[0]) * 1024
    return None
