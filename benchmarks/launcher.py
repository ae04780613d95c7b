"""What bk-launch costs per compiler call: the median over calls of a program that does nothing.

Runs the bare program and the launched one in turn, so that the machine's noise meets both:

    python benchmarks/launcher.py [CALLS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from buildkit.arch import parse_arch
from buildkit.launcher import binary, render_config
from buildkit.values import FlagRule

#: What a call of torch's extensions looks like, in number and length of arguments.
ARGUMENTS = [
    *("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_120,code=sm_120"),
    *(f"-I/usr/include/some/longer/directory/number/{number}" for number in range(60)),
    *("-std=c++17", "--threads", "4", "-c", "source.cu", "-o", "source.o"),
]


def seconds(argv: list[str], env: dict[str, str]) -> float:
    """Run one call."""
    start = time.perf_counter()
    subprocess.run(argv, env=env, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "launch.conf"
        rules = (
            FlagRule(old="--threads=*", new="--threads=1", language="cuda"),
            FlagRule(old="-std=c++17", new="-std=c++20", language="any"),
        )
        nothing = Path(folder) / "nvcc"
        nothing.symlink_to("/bin/true")
        config.write_text(
            render_config(
                target=parse_arch("sm120"),
                without_code="keep",
                rules=rules,
                tools={},
                records=Path(folder) / "records.jsonl",
            )
        )
        env = {"PATH": os.environ["PATH"], "BK_LAUNCH_CONFIG": str(config)}
        bare, launched = [], []
        for _ in range(calls):
            bare.append(seconds([str(nothing), *ARGUMENTS], env))
            launched.append(seconds([str(binary("bk-launch")), str(nothing), *ARGUMENTS], env))
    cost = median(launched) - median(bare)
    print(f"bare     {median(bare) * 1e3:.2f} ms, median of {calls}")
    print(f"launched {median(launched) * 1e3:.2f} ms, median of {calls}")
    print(f"cost     {cost * 1e3:.2f} ms per call")


if __name__ == "__main__":
    main()
