"""CPU time of compiling a torch extension for upstream's own list of targets and for one.

Takes the nvcc calls of a finished `buildkit make` out of its build directory and runs each twice
in turn: as upstream wrote it, and as bk-launch rewrote it. Objects go to a temporary directory.

    buildkit make causal-conv1d --arch sm120
    python benchmarks/arch_list.py causal-conv1d
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from buildkit.environ import process_environment
from buildkit.launcher import binary
from buildkit.paths import Slot, paths_from


def slot_of(recipe: str) -> Slot:
    """Return the newest slot of a recipe that was built with ninja."""
    builds = paths_from(process_environment()).builds
    found = [path for path in builds.glob(f"{recipe}-*") if list(path.glob("build/**/build.ninja"))]
    if not found:
        sys.exit(f"No build of {recipe} lies in {builds}; make it first.")
    return Slot(max(found, key=lambda path: path.stat().st_mtime))


def calls(slot: Slot) -> list[list[str]]:
    """Return the nvcc calls of the build, without nvcc, output and dependency file."""
    (folder,) = [file.parent for file in slot.build.glob("**/build.ninja")]
    ninja = ["ninja", "-C", str(folder), "-t", "compdb"]
    rows = json.loads(subprocess.run(ninja, capture_output=True, check=True).stdout)
    found = []
    for row in rows:
        program, *args = shlex.split(row["command"])
        if program.endswith("/nvcc"):
            for flag in ("-o", "-MF", "--output-file"):
                while flag in args:
                    at = args.index(flag)
                    del args[at : at + 2]
            found.append([arg for arg in args if arg not in ("-MD", "-MMD")])
    return found


def rewritten(args: list[str], env: dict[str, str]) -> list[str]:
    """Return what bk-launch makes of a call."""
    explain = [str(binary("bk-launch")), "--explain", "--", "nvcc", *args]
    lines = subprocess.run(explain, env=env, capture_output=True, text=True, check=True).stdout
    return [line[2:] for line in lines.splitlines() if line.startswith("+ ")]


def cpu_seconds(argv: list[str], env: dict[str, str]) -> float:
    """Run a call and return the CPU time of its whole tree."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    slot = slot_of(sys.argv[1] if len(sys.argv) > 1 else "causal-conv1d")
    config = slot.launch_config
    tools = dict(
        line.split(" ", 1)[1].split("\t")
        for line in config.read_text().splitlines()
        if line.startswith("tool ")
    )
    env = {"PATH": os.environ["PATH"], "HOME": "/", "BK_LAUNCH_CONFIG": str(config)}
    total = {"upstream": 0.0, "pinned": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        end = ["-ccbin", tools["g++"], "-o", str(Path(folder) / "x.o")]
        for args in calls(slot):
            plain = [arg for arg in args if "shims/" not in arg and arg != "-ccbin"]
            for name, chosen in (("upstream", plain), ("pinned", rewritten(plain, env))):
                spent = cpu_seconds([tools["nvcc"], *chosen, *end], env)
                total[name] += spent
                source = next(arg for arg in chosen if arg.endswith(".cu"))
                print(f"{Path(source).name:32} {name:8} {spent:7.1f} s of CPU", flush=True)
    print(f"upstream's list {total['upstream']:.1f} s, one target {total['pinned']:.1f} s of CPU")
    print(f"ratio {total['upstream'] / total['pinned']:.2f}")


if __name__ == "__main__":
    main()
