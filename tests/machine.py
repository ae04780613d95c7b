"""What this machine has and allows, and the marks of tests that cannot do without.

Nothing here asks the kit: a kit that is broken must fail its tests, not skip them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: Names under which a Chromium is installed.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_nvcc() -> str | None:
    """Return nvcc: on PATH, in CUDA_HOME, or where NVIDIA's packages put it."""
    homes = (os.environ.get("CUDA_HOME"), "/usr/local/cuda")
    places = [os.environ.get("PATH"), *(f"{home}/bin" for home in homes if home)]
    return next(filter(None, (shutil.which("nvcc", path=place) for place in places)), None)


def find_browser() -> str | None:
    """Return a Chromium on PATH."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def can_unshare(*flags: str) -> bool:
    """Tell whether util-linux's unshare gets namespaces, by itself or as a root of its own."""
    if shutil.which("unshare") is None:
        return False
    for extra in ((), ("--map-root-user",)):
        command = ["unshare", *extra, *flags, "true"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return True
    return False


def can_limit_memory() -> bool:
    """Tell whether a control group can be made below ours, and be given a limit of memory.

    Source: Linux ``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/memory.rst``.
    """
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        is_old = "memory" in controllers.split(",")
        if not is_old and controllers:
            continue
        mount = Path("/sys/fs/cgroup", *(["memory"] if is_old else []))
        # Within a container the mount point itself may be our group.
        for ours in (mount / name.lstrip("/"), mount):
            if _holds_us(ours):
                return _takes_limit(ours, "memory.limit_in_bytes" if is_old else "memory.max")
    return False


def _holds_us(group: Path) -> bool:
    try:
        return str(os.getpid()) in (group / "cgroup.procs").read_text().split()
    except OSError:
        return False


def _takes_limit(ours: Path, limit: str) -> bool:
    group = ours / f"buildkit-tests-{os.getpid()}"
    try:
        if limit == "memory.max":
            (ours / "cgroup.subtree_control").write_text("+memory")
        elif (ours / "memory.use_hierarchy").read_text().strip() != "1":
            return False
        group.mkdir()
    except OSError:
        return False
    try:
        (group / limit).write_text(str(64 << 20))
    except OSError:
        return False
    else:
        return True
    finally:
        group.rmdir()


def can_make_groups() -> bool:
    """Tell whether groups that limit memory can be made at the root of version 2's hierarchy."""
    mount = Path("/sys/fs/cgroup")
    try:
        controllers = (mount / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return "memory" in controllers and os.access(mount, os.W_OK)


def needs(is_there: object, reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test that is skipped where something is not there."""
    return pytest.mark.skipif(not is_there, reason=reason)


NVCC = find_nvcc()
BROWSER = find_browser()
HAS_NETWORK_NAMESPACE = can_unshare("--net")
HAS_PID_NAMESPACE = can_unshare("--pid", "--mount", "--fork")
IS_ROOT = os.geteuid() == 0

needs_nvcc = needs(NVCC, "no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda")
needs_browser = needs(BROWSER, "no Chromium on PATH")
needs_googletest = needs(
    Path("/usr/include/gtest/gtest.h").exists() and shutil.which("cmake"),
    "no GoogleTest and CMake on this machine",
)
needs_memory_group = needs(can_limit_memory(), "no control group of memory can be made here")
needs_new_group = needs(can_make_groups(), "no control groups of version 2 can be made here")
needs_network_namespace = needs(HAS_NETWORK_NAMESPACE, "no network namespaces here")
needs_pid_namespace = needs(HAS_PID_NAMESPACE, "no process namespaces here")
needs_mounts = needs(IS_ROOT and can_unshare("--mount"), "only root can mount")
needs_unzip = needs(shutil.which("unzip"), "no unzip on PATH")
needs_other_user = needs(
    IS_ROOT and shutil.which("setpriv"), "needs root and setpriv to become another user"
)
needs_no_root = needs(not IS_ROOT, "root may write everywhere")
