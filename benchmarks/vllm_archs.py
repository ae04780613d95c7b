"""vLLM for upstream's list of targets and for one: units, machine code, CPU time, object size.

Configures vLLM's CMake project twice, with the list of upstream's Dockerfile (without 7.0, which
CUDA 13 no longer has) and with the one target of the recipe, counts what nvcc is asked for, and
compiles some units both ways: upstream's call as CMake wrote it, the other through bk-launch.
Counted are the libraries that the recipe builds, so without FlashMLA, FlashAttention and QuTLASS.
It runs where the source and the environment of the recipe are at hand:

    buildkit shell vllm --arch sm120 -c 'python3 /path/to/benchmarks/vllm_archs.py DIR [UNIT ...]'
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

#: ``ARG torch_cuda_arch_list`` of vLLM 0.16.0's docker/Dockerfile, less what CUDA 13 dropped.
UPSTREAM = "7.5 8.0 8.9 9.0 10.0 12.0"

#: Targets of CMake: vLLM's libraries that hold code for capability 12.
LIBRARIES = ("_C", "_moe_C", "cumem_allocator")

#: One of each kind: all targets, all targets and CUB, Marlin as PTX, CUTLASS for the 12.0 family.
UNITS = (
    "csrc/activation_kernels.cu",
    "csrc/layernorm_kernels.cu",
    "csrc/pos_encoding_kernels.cu",
    "csrc/cache_kernels_fused.cu",
    "csrc/quantization/fp4/nvfp4_quant_kernels.cu",
    "csrc/moe/topk_softmax_kernels.cu",
)


@dataclass(frozen=True)
class Call:
    """One compiler call."""

    argv: tuple[str, ...]
    """From the compiler on, or from bk-launch on."""

    @property
    def images(self) -> int:
        """Return how many cubins and PTX texts nvcc is asked for."""
        return sum(text.count("sm_") + text.count("compute_") - 1 for text in self._gencodes)

    @property
    def _gencodes(self) -> list[str]:
        return re.findall(r"-gencode[ =](\S+)", " ".join(self.argv))


def configure(folder: Path, targets: str, launcher: str | None) -> dict[str, Call]:
    """Return the calls of vLLM's libraries by relative source."""
    source, build = folder / "source", folder / "build"
    # A copy, since Marlin's sources are generated into it for the targets of the list.
    shutil.copytree(Path.cwd(), source, symlinks=True)
    # For capability 9 and 10, and its source is on no index.
    (source / "cmake/external_projects/flashmla.cmake").write_text("")
    defines = shlex.split(os.environ["CMAKE_ARGS"])
    if launcher is None:
        defines = [
            word for word in defines if "LAUNCHER" not in word and "BK_VLLM_DROP" not in word
        ]
    subprocess.run(
        [
            *("cmake", "-G", "Ninja", "-S", source, "-B", build, *defines),
            f"-DVLLM_PYTHON_EXECUTABLE={sys.executable}",
            f"-DVLLM_PYTHON_PATH={':'.join(filter(None, sys.path))}",
            f"-DFETCHCONTENT_BASE_DIR={folder / 'dependencies'}",
        ],
        env={**os.environ, "TORCH_CUDA_ARCH_LIST": targets},
        stdout=(folder / "configure.log").open("w"),
        check=True,
    )
    command = ["ninja", "-C", build, "-t", "compdb"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    calls = {}
    for row in rows:
        owner = re.match(r"CMakeFiles/([^/]+)\.dir/", row["output"])
        if owner and owner[1] in LIBRARIES:
            unit = os.path.relpath(row["file"], source)
            calls[unit] = Call(tuple(shlex.split(row["command"])))
    return calls


def compile_unit(call: Call, folder: Path) -> tuple[float, int]:
    """Run a call; return the CPU seconds of its whole tree and the size of the object in bytes."""
    output = folder / "unit.o"
    argv = list(call.argv)
    argv[argv.index("-o") + 1] = str(output)
    for flag in ("-MF", "-MT"):
        if flag in argv:
            argv[argv.index(flag) + 1] = str(folder / "unit.d")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=folder / "build", check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, output.stat().st_size


def main() -> None:
    """Measure and print."""
    folder = Path(sys.argv[1]).absolute()
    ways = {}
    for name, targets in (("upstream", UPSTREAM), ("one", os.environ["TORCH_CUDA_ARCH_LIST"])):
        (folder / name).mkdir(parents=True)
        ways[name] = configure(folder / name, targets, None if name == "upstream" else "bk-launch")
        calls = ways[name].values()
        images = sum(call.images for call in calls)
        print(f"{name}: {targets}: {len(calls)} units, {images} images", flush=True)
    totals = {name: [0.0, 0] for name in ways}
    for unit in sys.argv[2:] or UNITS:
        for name, calls in ways.items():
            seconds, size = compile_unit(calls[unit], folder / name)
            totals[name][0] += seconds
            totals[name][1] += size
            print(f"{unit:48} {name:9} {seconds:8.1f} s of CPU {size:12,} bytes", flush=True)
    (seconds, size), (fewer, smaller) = totals["upstream"], totals["one"]
    print(f"CPU {seconds / fewer:.2f} times less, objects {size / smaller:.2f} times smaller")


if __name__ == "__main__":
    main()
