"""CPU time of some of vLLM's CUDA units for upstream's own list of targets and for sm120.

Takes the slot of a `buildkit make vllm`, finished or not. A copy of its source is configured with
the list of upstream's own image, and the named units are compiled in turn, as that build would call
nvcc and as bk-launch rewrites the call of the slot. Objects go to a temporary directory.

    buildkit make vllm --version 0.16.0 --arch sm120
    python benchmarks/vllm_targets.py permute_cols.cu layernorm_kernels.cu
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from arch_list import cpu_seconds, rewritten, slot_of

#: Source: vLLM 0.16.0, docker/Dockerfile, "torch_cuda_arch_list"; less 7.0, which CUDA 13 has not.
UPSTREAM = "7.5 8.0 8.9 9.0 10.0 12.0"

#: What the slot's cache holds of the command that configured it.
GIVEN = (
    *("CMAKE_BUILD_TYPE", "VLLM_TARGET_DEVICE", "VLLM_PYTHON_EXECUTABLE", "NVCC_THREADS"),
    *("CMAKE_CUDA_COMPILER", "CMAKE_CUDA_HOST_COMPILER", "CUDAToolkit_ROOT"),
    *("CUTLASS_DIR", "CUTLASS_INCLUDE_DIR", "CUTLASS_TOOLS_UTIL_INCLUDE_DIR"),
    *("BK_VLLM_KEEP", "BK_VLLM_DROP", "BK_VLLM_ABSENT", "CMAKE_PROJECT_INCLUDE"),
)


def calls(folder: Path) -> dict[str, list[str]]:
    """Return the arguments of each nvcc call of a configured build, by the name of the source."""
    ninja = ["ninja", "-C", str(folder), "-t", "compdb"]
    rows = json.loads(subprocess.run(ninja, capture_output=True, check=True).stdout)
    found = {}
    for row in rows:
        if row["file"].endswith(".cu") and "/nvcc " in row["command"]:
            words = shlex.split(row["command"].partition("/nvcc ")[2])
            for flag in ("-o", "-MF", "-MT"):
                while flag in words:
                    at = words.index(flag)
                    del words[at : at + 2]
            found[Path(row["file"]).name] = [word for word in words if word != "-MD"]
    return found


def configure(slot_build: Path, source: Path, build: Path) -> None:
    """Configure a copy of the source with upstream's list of targets."""
    cache = {
        line.partition(":")[0]: line.partition("=")[2]
        for line in (slot_build / "CMakeCache.txt").read_text().splitlines()
        if "=" in line and not line.startswith(("#", "//"))
    }
    absent, cuda = cache["BK_VLLM_ABSENT"], cache["CUDAToolkit_ROOT"]
    environment = {
        "PATH": f"{cuda}/bin:{os.environ['PATH']}",
        "HOME": "/",
        "TORCH_CUDA_ARCH_LIST": UPSTREAM,
        "CUDA_HOME": cuda,
        "CUDA_PATH": cuda,
        "VLLM_CUTLASS_SRC_DIR": cache["CUTLASS_DIR"],
        "FLASH_MLA_SRC_DIR": absent,
        "QUTLASS_SRC_DIR": f"{absent}/nothing",
        "TRITON_KERNELS_SRC_DIR": f"{absent}/nothing",
        "VLLM_FLASH_ATTN_SRC_DIR": f"{absent}/flash-attention",
    }
    command = [
        *(str(Path(cache["VLLM_PYTHON_EXECUTABLE"]).parent / "cmake"), "-G", "Ninja"),
        *("-S", str(source), "-B", str(build), f"-DFETCHCONTENT_BASE_DIR={build / 'deps'}"),
        *(f"-D{name}={cache[name]}" for name in GIVEN if cache.get(name)),
    ]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure and print."""
    slot = slot_of("vllm")
    names = sys.argv[1:]
    config = slot.launch_config.read_text().splitlines()
    tools = dict(line.split(" ", 1)[1].split("\t") for line in config if line.startswith("tool "))
    os.environ["PATH"] = f"{Path(tools['ninja']).parent}:{os.environ['PATH']}"
    env = {"PATH": os.environ["PATH"], "HOME": "/", "BK_LAUNCH_CONFIG": str(slot.launch_config)}
    (slot_build,) = [file.parent for file in slot.build.glob("*/build.ninja")]
    total = {"upstream": 0.0, "sm120": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        source, build = Path(folder) / "source", Path(folder) / "build"
        shutil.copytree(slot.source, source, symlinks=True)
        configure(slot_build, source, build)
        wide, narrow = calls(build), calls(slot_build)
        for name in names:
            for kind, args in (("upstream", wide[name]), ("sm120", rewritten(narrow[name], env))):
                codes = [arg for arg in args if "code=" in arg]
                spent = cpu_seconds([tools["nvcc"], *args, "-o", f"{folder}/x.o"], env)
                total[kind] += spent
                told = " ".join(code.rpartition("code=")[2] for code in codes)
                print(f"{name:36} {kind:8} {spent:7.1f} s of CPU  {told}", flush=True)
    print(f"upstream's list {total['upstream']:.1f} s, sm120 {total['sm120']:.1f} s of CPU")
    print(f"ratio {total['upstream'] / total['sm120']:.2f}")


if __name__ == "__main__":
    main()
