"""Capacity on fixture trees of every kind of machine, and on the machine at hand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from buildkit.errors import ToolchainError
from buildkit.governor.capacity import Capacity, jobs_for, read_capacity, read_headroom

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
UNLIMITED_V1 = "9223372036854771712"

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
V1_MEMORY_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V1_CPU_MOUNT = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"


@pytest.fixture
def machine(tmp_path):
    """Writes a machine's files: 64 GiB, 48 GiB available."""

    def write(cgroup: str, mounts: list[str], files: dict[str, str] | None = None) -> Path:
        everything = {
            "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {48 << 20} kB\n",
            "proc/self/cgroup": cgroup,
            "proc/self/mountinfo": "\n".join(mounts) + "\n",
        } | {f"sys/fs/cgroup/{name}": text for name, text in (files or {}).items()}
        for name, text in everything.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write


def capacity_of(root: Path, **wishes: int) -> Capacity:
    return read_capacity(root=root, affinity=16, **wishes)


def test_no_cgroup_leaves_memtotal(machine):
    found = capacity_of(machine("", []))
    assert (found.memory_bytes, found.memory_source) == (64 * GIB, "MemTotal")
    assert found.reserve_bytes == 64 * GIB // 20
    assert found.cap_bytes == found.memory_bytes - found.reserve_bytes
    assert (found.cpus, found.cpu_source, found.free_pids) == (16, "affinity", None)


def test_v2_smallest_ancestor_counts(machine):
    root = machine(
        "0::/ci/job/step\n",
        [V2_MOUNT],
        {
            "ci/memory.max": f"{32 * GIB}\n",
            "ci/job/memory.max": f"{8 * GIB}\n",
            "ci/job/step/memory.max": "max\n",
            "ci/job/step/memory.high": "max\n",
        },
    )
    found = capacity_of(root)
    assert (found.memory_bytes, found.memory_source) == (8 * GIB, "cgroup v2 /ci/job memory.max")
    assert found.reserve_bytes == 1_500_000_000


def test_v2_memory_high_counts(machine):
    root = machine("0::/a\n", [V2_MOUNT], {"a/memory.max": "max", "a/memory.high": f"{4 * GIB}"})
    assert capacity_of(root).memory_source == "cgroup v2 /a memory.high"


def test_v1_huge_number_is_no_limit(machine):
    root = machine(
        "4:memory:/a\n", [V1_MEMORY_MOUNT], {"memory/a/memory.limit_in_bytes": UNLIMITED_V1}
    )
    assert capacity_of(root).memory_source == "MemTotal"


def test_v1_ancestor_and_its_name(machine):
    root = machine(
        "4:memory:/a/b\n3:cpu,cpuacct:/a\n",
        [V1_MEMORY_MOUNT, V1_CPU_MOUNT],
        {
            "memory/a/memory.limit_in_bytes": f"{12 * GIB}\n",
            "memory/a/b/memory.limit_in_bytes": UNLIMITED_V1,
            "cpu,cpuacct/a/cpu.cfs_quota_us": "250000\n",
            "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        },
    )
    found = capacity_of(root)
    assert found.memory_source == "cgroup v1 /a memory.limit_in_bytes"
    assert (found.cpus, found.cpu_source) == (3, "cgroup v1 /a cpu.cfs_quota_us")


def test_v1_limit_of_an_invisible_ancestor(machine):
    """In a cgroup namespace the limits above its root are seen only in memory.stat."""
    root = machine(
        "4:memory:/\n",
        [V1_MEMORY_MOUNT],
        {
            "memory/memory.limit_in_bytes": UNLIMITED_V1,
            "memory/memory.stat": f"cache 1\nhierarchical_memory_limit {6 * GIB}\n",
        },
    )
    assert capacity_of(root).memory_bytes == 6 * GIB


def test_hybrid_takes_memory_from_v1(machine):
    root = machine(
        "4:memory:/box\n0::/box\n",
        [V1_MEMORY_MOUNT, "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"],
        {
            "memory/box/memory.limit_in_bytes": f"{10 * GIB}",
            "unified/box/cgroup.controllers": "",
        },
    )
    assert capacity_of(root).memory_bytes == 10 * GIB


@pytest.mark.parametrize("path", ["/", "/../sibling", "/docker/0123/gone"])
def test_path_outside_of_the_mount_falls_back_to_the_mount_point(machine, path):
    root = machine(f"0::{path}\n", [V2_MOUNT], {"memory.max": f"{5 * GIB}"})
    found = capacity_of(root)
    assert (found.memory_bytes, found.memory_source) == (5 * GIB, "cgroup v2 / memory.max")


def test_bind_mounted_group_of_a_container_without_namespace(machine):
    """Docker on v1: the mount shows only the container's own group, the path is the host's."""
    mount = "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
    root = machine(
        "4:memory:/docker/0123\n", [mount], {"memory/memory.limit_in_bytes": f"{7 * GIB}"}
    )
    assert capacity_of(root).memory_bytes == 7 * GIB


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000", 16), ("400000 100000", 4), ("50000 100000", 1), ("junk", 16)]
)
def test_v2_cpu_quota(machine, text, cpus):
    assert capacity_of(machine("0::/a\n", [V2_MOUNT], {"a/cpu.max": text})).cpus == cpus


def test_quota_of_an_ancestor_counts(machine):
    root = machine("0::/a/b\n", [V2_MOUNT], {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 1"})
    assert capacity_of(root).cpus == 2


def test_free_pids(machine):
    files = {"a/pids.max": "512", "a/pids.current": "100", "a/b/pids.max": "max"}
    assert capacity_of(machine("0::/a/b\n", [V2_MOUNT], files)).free_pids == 412


def test_request_below_the_limit_is_taken_whole(machine):
    found = capacity_of(machine("", []), requested_memory=12 * GIB, requested_jobs=40)
    assert (found.cap_bytes, found.memory_source) == (12 * GIB, "--memory")
    assert (found.cpus, found.cpu_source) == (40, "--jobs")


def test_request_above_the_limit_changes_nothing(machine):
    root = machine("", [])
    assert capacity_of(root, requested_memory=999 * GIB) == capacity_of(root)


def test_small_machine_keeps_half(machine):
    root = machine("0::/a\n", [V2_MOUNT], {"a/memory.max": f"{GIB}"})
    assert capacity_of(root).cap_bytes == GIB // 2


def test_unknown_memory_names_the_flag(tmp_path):
    with pytest.raises(ToolchainError, match="--memory"):
        capacity_of(tmp_path)
    assert capacity_of(tmp_path, requested_memory=GIB).cap_bytes == GIB


def test_headroom_counts_others_and_not_the_page_cache(machine):
    files = {
        "a/memory.max": f"{32 * GIB}",
        "a/memory.current": f"{20 * GIB}",
        "a/memory.stat": f"anon 1\ninactive_file {5 * GIB}\n",
    }
    assert read_headroom(root=machine("0::/a\n", [V2_MOUNT], files)) == 17 * GIB


def test_headroom_v1_uses_the_totals_of_the_subtree(machine):
    files = {
        "memory/a/memory.limit_in_bytes": f"{32 * GIB}",
        "memory/a/memory.usage_in_bytes": f"{30 * GIB}",
        "memory/a/memory.stat": f"inactive_file 1\ntotal_inactive_file {1 * GIB}\n",
    }
    assert read_headroom(root=machine("4:memory:/a\n", [V1_MEMORY_MOUNT], files)) == 3 * GIB


def test_headroom_is_memavailable_without_limits_and_never_negative(machine):
    assert read_headroom(root=machine("", [])) == 48 * GIB
    files = {"a/memory.max": "1000", "a/memory.current": "5000"}
    assert read_headroom(root=machine("0::/a\n", [V2_MOUNT], files)) == 0


def test_jobs_for_is_at_least_one():
    small = Capacity(
        memory_bytes=4 * GIB, memory_source="x", reserve_bytes=0, cpus=8, cpu_source="x"
    )
    assert [jobs_for(small, peak * GIB) for peak in (1, 2, 6)] == [4, 2, 1]


def test_this_machine():
    found = read_capacity()
    assert 0 < read_headroom() <= found.memory_bytes
    assert 1 <= found.cpus <= len(os.sched_getaffinity(0))
