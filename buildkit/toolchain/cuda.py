"""Which CUDA toolkit a build uses: one of the machine's, or one assembled from NVIDIA's wheels.

What enters: the recipe's range, the GPU target, the environment. What leaves: a
:class:`CudaChoice`, from probes alone; :mod:`buildkit.toolchain.toolkit` makes the toolkit root of
it. The first toolkit that fits wins, in this order: ``CUDA_HOME``, ``CUDA_PATH``, nvcc on PATH,
``/usr/local/cuda``, wheels.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.arch import FIRST_CUDA
from buildkit.digest import digest_file, digest_value
from buildkit.environ import base_environment
from buildkit.errors import ArchError, ToolchainError
from buildkit.paths import data_root
from buildkit.toolchain.lock import read_lock
from buildkit.toolchain.memo import remembered
from buildkit.toolchain.ranges import is_in_range
from buildkit.values import ToolIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from buildkit.arch import GpuArch
    from buildkit.run import Runner
    from buildkit.values import EnvLock, PythonIdentity

__all__ = ["WHEELS", "CudaChoice", "accepts", "select_cuda", "wheels_lock"]

#: What a toolkit from NVIDIA's wheels consists of: compiler, headers, runtime. CUDA 13.0 is the
#: first whose wheels hold nvcc itself and share one directory, and the one that torch 2.14 is
#: built with. Source: contents of the wheels named here and of nvidia-cuda-nvcc-cu12.
WHEELS = (
    "nvidia-cuda-cccl==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-cuda-culibos==13.0.*",
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-cuda-profiler-api==13.0.*",
    "nvidia-cuda-runtime==13.0.*",
    "nvidia-nvtx==13.0.*",
    "nvidia-nvvm==13.0.*",
)

_RELEASE = re.compile(r"release [\d.]+, V(\d+(?:\.\d+)+)")
_TOP = re.compile(r"^#\$ TOP=(.+?)\s*$", re.MULTILINE)
_GCC_LIMIT = re.compile(r"#\s*if\s+__GNUC__\s*>\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaChoice:
    """A toolkit that fits, not yet made ready."""

    nvcc: ToolIdentity
    root: Path | None
    """Root of a toolkit of this machine, or None for NVIDIA's wheels."""
    lock: EnvLock | None
    """Lock of NVIDIA's wheels, or None for a toolkit of this machine."""
    newest_gcc: int | None
    """Newest major version of GCC that its headers accept, if known."""


def select_cuda(
    allowed: str,
    arch: GpuArch,
    python: PythonIdentity,
    *,
    runner: Runner,
    environment: Mapping[str, str],
    memo: Path,
) -> CudaChoice:
    """Return the first toolkit that fits; fetches nothing.

    :param allowed: PEP 440 range of the recipe.
    :raises ArchError: if toolkits of the range are there but none can build the target.
    :raises ToolchainError: if there is no toolkit of the range.
    """
    seen = []
    too_old = []
    for root in _roots(runner, environment, memo):
        found = _probe(root, runner, environment, memo)
        if not is_in_range(found.version, allowed):
            seen.append(f"{found.version} at {root}")
        elif not accepts(found.path, arch, runner=runner, environment=environment, memo=memo):
            too_old.append(f"{found.version} at {root}")
        else:
            return CudaChoice(
                nvcc=found, root=root, lock=None, newest_gcc=_newest_gcc(root / "include")
            )
    lock = wheels_lock(python, memo=memo)
    version = lock.versions.get("nvidia-cuda-nvcc", "0")
    if is_in_range(version, allowed) and "linux" in python.platform:
        nvcc = ToolIdentity(
            name="nvcc", version=version, digest=lock.digest, path=Path("bin") / "nvcc"
        )
        # Source: crt/host_config.h of nvidia-cuda-crt 13.0.88, "#if __GNUC__ > 15".
        return CudaChoice(nvcc=nvcc, root=None, lock=lock, newest_gcc=15)
    if too_old:
        raise ArchError(
            f"CUDA {', '.join(too_old)} cannot build {arch.name}, which needs CUDA"
            f" {FIRST_CUDA.get(arch.number + arch.variant, '?')} or later.",
            remedy="Install that one and set CUDA_HOME to it.",
        )
    raise ToolchainError(
        f"CUDA: found {', '.join(seen) or 'none on this machine'} and {version} as NVIDIA's wheels,"
        f" allowed {allowed}.",
        remedy="Install a toolkit of that range and set CUDA_HOME to it.",
    )


def wheels_lock(python: PythonIdentity, *, memo: Path) -> EnvLock:
    """Return the lock of the toolkit that ships with the kit."""
    file = data_root() / "recipes" / "cuda" / "13.0.lock"
    return read_lock(file, WHEELS, python, name="cuda", memo=memo)


def accepts(
    nvcc: Path, arch: GpuArch, *, runner: Runner, environment: Mapping[str, str], memo: Path
) -> bool:
    """Tell whether an nvcc can build a target, by a dry run: its list lacks variants."""

    def ask() -> dict[str, str]:
        done = runner.capture(
            [nvcc, "--dryrun", "-c", "-x", "cu", "/dev/null", "-o", "/dev/null", arch.gencode],
            env=base_environment(environment),
            timeout_seconds=60,
        )
        return {"accepted": "yes" if done.status == 0 else "no"}

    return remembered(memo, f"nvcc-{arch.name}", nvcc, ask)["accepted"] == "yes"


def _roots(runner: Runner, environment: Mapping[str, str], memo: Path) -> Iterator[Path]:
    """Yield the toolkit roots of this machine, likeliest first, each once."""
    seen = set()
    for root in _named_roots(runner, environment, memo):
        if (root / "bin" / "nvcc").is_file() and root.resolve() not in seen:
            seen.add(root.resolve())
            yield root


def _named_roots(runner: Runner, environment: Mapping[str, str], memo: Path) -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environment.get(name):
            yield Path(environment[name]).absolute()
    on_path = shutil.which("nvcc", path=environment.get("PATH", ""))
    if on_path is not None:
        yield _root_of(Path(on_path), runner, environment, memo)
    yield Path("/usr/local/cuda")


def _root_of(nvcc: Path, runner: Runner, environment: Mapping[str, str], memo: Path) -> Path:
    """Return the toolkit of an nvcc, which may be a link or a script elsewhere: it tells itself."""
    beside = nvcc.resolve().parent.parent
    if (beside / "include" / "cuda_runtime.h").is_file():
        return beside

    def ask() -> dict[str, str]:
        done = runner.capture(
            [nvcc, "--dryrun", "-E", "-x", "cu", "/dev/null"],
            env=base_environment(environment),
            timeout_seconds=60,
        )
        top = _TOP.search(done.stderr)
        return {"root": str(Path(top[1]).resolve() if top else beside)}

    return Path(remembered(memo, "nvcc-root", nvcc, ask)["root"])


def _probe(root: Path, runner: Runner, environment: Mapping[str, str], memo: Path) -> ToolIdentity:
    nvcc = root / "bin" / "nvcc"

    def ask() -> dict[str, str]:
        done = runner.capture(
            [nvcc, "--version"], env=base_environment(environment), timeout_seconds=60
        )
        release = _RELEASE.search(done.stdout)
        return {"version": release[1] if release else "0", "digest": digest_file(nvcc.resolve())}

    answer = remembered(memo, "nvcc", nvcc, ask)
    # The driver compiles nothing itself, and people do put a newer ptxas beside an older one.
    parts = [_part(root / name, memo) for name in ("nvvm/bin/cicc", "bin/ptxas")]
    digest = digest_value([answer["digest"], *parts])
    return ToolIdentity(name="nvcc", version=answer["version"], digest=digest, path=nvcc)


def _part(program: Path, memo: Path) -> str:
    """Return the digest of a program that nvcc calls; empty if it lies elsewhere."""
    if not program.is_file():
        return ""
    question = f"nvcc-{program.name}"
    return remembered(memo, question, program, lambda: {"digest": digest_file(program.resolve())})[
        "digest"
    ]


def _newest_gcc(include: Path) -> int | None:
    """Read the limit that CUDA's own header enforces. Source: crt/host_config.h."""
    try:
        text = (include / "crt" / "host_config.h").read_text(errors="replace")
    except OSError:
        return None
    limits = [int(number) for number in _GCC_LIMIT.findall(text)]
    return max(limits, default=None)
