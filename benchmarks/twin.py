"""Units, CPU time, memory and size: sgl-kernel's way of building, and the recipe's for sm120.

Both build the twin of sgl-kernel in tests/projects/twin. Upstream's way is its own CMake with all
its GPU targets, both variants and 32 threads, one compiler call at a time, as the calls take enough
memory; libnuma is an empty stub, and the files that it would install are packed into a zip archive.

    python -m benchmarks.twin DIR
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from buildkit.launcher import read_records
from tests.sgl_kernel.twin import HANDED, MAKE, Twin, plain, read_recipe, serve, write_recipe
from tests.world import World


class Peak:
    """The most memory that the tree of a process holds; looks ten times a second."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.bytes = max(self.bytes, _held(self._pid))

    def stop(self) -> int:
        """Return it."""
        self._over.set()
        self._thread.join()
        return self.bytes


def _held(pid: int) -> int:
    """Return the resident memory of a process and of all below it. Source: proc(5)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # Each thread has its own: nvcc starts what it runs side by side from several.
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        children = [child for thread in threads for child in thread.read_text().split()]
    except OSError:
        return 0
    return pages * resource.getpagesize() + sum(_held(int(child)) for child in children)


def upstream(twin: Twin, root: Path) -> tuple[int, float, int, int]:
    """Build upstream's way; return units, CPU seconds, peak bytes and bytes of the archive."""
    numa = root / "numa"
    (numa / "include").mkdir(parents=True)
    declared = 'extern "C" { int numa_available(); int numa_max_node(); }\n'
    (numa / "include" / "numa.h").write_text(declared)
    source = "int numa_available() { return -1; } int numa_max_node() { return 0; }"
    (numa / "lib").mkdir()
    stub = ["gcc", "-shared", "-fPIC", "-xc", "-", "-o", numa / "lib" / "libnuma.so"]
    subprocess.run(stub, input=source, text=True, check=True)
    cmake = twin.cmake(root / "work")
    own = f"{HANDED}|CMAKE_PROJECT_INCLUDE|SGL_KERNEL_.*|ENABLE_.*"
    found = cmake.configure(without=own, NUMA_ROOT_DIR=numa)
    if found.status != 0:
        sys.exit(found.errors)
    units = len(found.commands())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [cmake.program, "--build", cmake.build, "-j", "1"]
    building = subprocess.Popen(command, env=plain(), stdout=subprocess.DEVNULL)
    peak = Peak(building.pid)
    status = building.wait()
    held = peak.stop()
    if status != 0:
        sys.exit(f"Upstream's way ended with status {status}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cmake.run("--install", cmake.build)
    archive = shutil.make_archive(str(root / "upstream"), "zip", cmake.build / "out")
    return units, cpu, held, Path(archive).stat().st_size


def main() -> None:
    """Measure and print."""
    root = Path(sys.argv[1]).absolute()
    root.mkdir()
    world = World(root, root / "cache")
    world.cache.mkdir()
    with serve(root / "server") as served:
        write_recipe(read_recipe(), served, world)
        for args in (("pin", "sgl-kernel"), (*MAKE, "--jobs", "1", "--json")):
            made = world.run(*args)
            if made.returncode != 0:
                sys.exit(made.stderr)
        records = [one for one in read_records(world.slot / "records.jsonl") if one.source]
        wheel = root / json.loads(made.stdout)["wheel"]
        rows = {
            "upstream's way": upstream(Twin(served, world, made), root),
            "the recipe, sm120": (
                len(records),
                sum(one.cpu_seconds for one in records),
                max(one.peak_bytes for one in records),
                wheel.stat().st_size,
            ),
        }
    for name, (units, cpu, held, size) in rows.items():
        gib = held / (1 << 30)
        print(f"{name:18} {units:3} units {cpu:7.1f} s of CPU {gib:5.1f} GiB {size:8} bytes")
    (_, before, _, large), (_, after, _, small) = rows.values()
    print(f"{before / after:.1f} times the CPU time, {large / small:.1f} times the bytes")


if __name__ == "__main__":
    main()
