"""The CUDA toolkit root of a build, assembled at a path that stays the same.

Layers are laid over each other, the first one wins: the machine's toolkit or NVIDIA's wheels, then
the CUDA directories of the build environment, because runtime images carry a compiler but no
``cusparse.h``, which torch's headers ask for, and torch's own dependencies bring it. Files are
links; only the nvcc driver is a copy, since it looks for everything else beside itself. A machine
without a GPU has no libcuda, so a stub to link against is made from the names in ``cuda.h``.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from buildkit.digest import digest_value
from buildkit.environ import base_environment
from buildkit.errors import ArchError, ToolchainError
from buildkit.fs import locked, staged_directory
from buildkit.toolchain.cuda import accepts
from buildkit.toolchain.environment import ensure_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from buildkit.arch import GpuArch
    from buildkit.kit import Supply
    from buildkit.paths import Paths
    from buildkit.run import Runner
    from buildkit.toolchain.cuda import CudaChoice
    from buildkit.values import EnvLock, PythonIdentity, ToolIdentity

__all__ = ["ensure_toolkit", "toolkit_root"]

#: Raised when the layout of an assembled root changes.
_LAYOUT = 1

_DRIVER_CALL = re.compile(r"\bcu[A-Z]\w*\b")
_VERSIONED = re.compile(r"(lib[\w.+-]+?\.so)\.\d[\w.]*")


def toolkit_root(choice: CudaChoice, lock: EnvLock, paths: Paths) -> Path:
    """Return where the toolkit of a build lies, or will lie."""
    base = str(choice.root) if choice.lock is None else choice.lock.digest
    name = digest_value([_LAYOUT, base, choice.nvcc.digest, lock.digest])
    return paths.toolkits / f"cuda-{choice.nvcc.version}-{name[:12]}"


def ensure_toolkit(
    choice: CudaChoice,
    lock: EnvLock,
    build_environment: Path,
    arch: GpuArch,
    gcc: ToolIdentity,
    python: PythonIdentity,
    supply: Supply,
) -> Path:
    """Return the toolkit root of a build, assembled if it does not exist.

    :raises ToolchainError: if it cannot be assembled.
    :raises ArchError: if its nvcc cannot build the target.
    """
    root = toolkit_root(choice, lock, supply.paths)
    supply.holds.hold(root)
    if choice.root is not None:
        layers = [choice.root]
    else:
        if not root.is_dir():
            supply.events.step("cuda", f"{choice.nvcc.version} from NVIDIA's wheels")
        # Also for a toolkit that is there: its files are links into this environment.
        layers = cuda_directories(ensure_environment(choice.lock or lock, python, supply))
    if not root.is_dir():
        with locked(root.with_name(f"{root.name}.lock")), staged_directory(root) as stage:
            _assemble(stage, [*layers, *cuda_directories(build_environment)])
            _make_stub(stage, gcc, supply.runner, supply.environment)
    nvcc = root / "bin" / "nvcc"
    memo = supply.paths.memo
    if not accepts(nvcc, arch, runner=supply.runner, environment=supply.environment, memo=memo):
        raise ArchError(
            f"nvcc {choice.nvcc.version} does not know {arch.name}.",
            remedy="Choose another target, or set CUDA_HOME to a newer toolkit.",
        )
    return root


def cuda_directories(environment: Path) -> list[Path]:
    """Return the directories in which NVIDIA's wheels put their files in an environment.

    CUDA 13 has one, ``nvidia/cu13``; before, each wheel had its own, such as ``nvidia/cublas``.
    """
    found = sorted(environment.glob("lib/python*/site-packages/nvidia/*"))
    return [folder for folder in found if (folder / "include").is_dir()]


def _assemble(stage: Path, layers: Sequence[Path]) -> None:
    """Fill an empty directory with a toolkit; the first layer that has a file wins."""
    for layer in layers:
        for part in ("bin", "include", "nvvm"):
            _lay(layer / part, stage / part)
        for part in ("lib64", "lib"):
            if not (layer / part).is_symlink():
                _lay(layer / part, stage / "lib")
    nvcc = stage / "bin" / "nvcc"
    if not nvcc.exists():
        raise ToolchainError(
            f"CUDA toolkit {layers[0]} holds no bin/nvcc.",
            remedy="Set CUDA_HOME to a complete toolkit, or unset it to use NVIDIA's wheels.",
        )
    real = nvcc.resolve()
    nvcc.unlink()
    shutil.copy2(real, nvcc)
    (stage / "lib64").symlink_to("lib")
    for targets in [target for layer in layers for target in layer.glob("targets/*")]:
        place = stage / "targets" / targets.name
        if not place.exists():
            place.mkdir(parents=True)
            (place / "include").symlink_to("../../include")
            (place / "lib").symlink_to("../../lib")
    for library in sorted((stage / "lib").iterdir()):
        versioned = _VERSIONED.fullmatch(library.name)
        if versioned and not (plain := stage / "lib" / versioned[1]).exists():
            plain.symlink_to(library.name)


def _lay(source: Path, destination: Path) -> None:
    """Link what a layer has and the ones before it lack; directories are merged."""
    if not source.is_dir():
        return
    destination.mkdir(parents=True, exist_ok=True)
    for entry in sorted(source.iterdir()):
        place = destination / entry.name
        if entry.is_dir():
            _lay(entry, place)
        elif not place.is_symlink() and not place.exists():
            place.symlink_to(entry.resolve())


def _make_stub(
    stage: Path, gcc: ToolIdentity, runner: Runner, environment: Mapping[str, str]
) -> None:
    """Make ``lib64/stubs/libcuda.so``: every driver call by name, for the linker alone.

    The directory is on nvcc's own link path and on no run path, so that the stub never loads.
    """
    stub = stage / "lib" / "stubs" / "libcuda.so"
    if stub.exists():
        return
    try:
        header = (stage / "include" / "cuda.h").read_text(errors="replace")
    except OSError:
        return  # a toolkit without the driver's header links nothing against the driver
    names = sorted(set(_DRIVER_CALL.findall(header)))
    stub.parent.mkdir(exist_ok=True)
    source = stage / "stub.c"
    source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in names))
    done = runner.capture(
        [gcc.path, "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o", stub, source],
        env=base_environment(environment),
    )
    source.unlink()
    if done.status != 0:
        raise ToolchainError(
            f"The stub of libcuda cannot be made: {done.stderr.strip()[-300:]}",
            remedy=f"See whether {gcc.path} can link a shared library.",
        )
