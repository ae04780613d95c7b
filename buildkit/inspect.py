"""The story of ``verify``: which GPUs any wheel serves, by the machine code in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.arch import TARGETS, parse_arch, runs_on
from buildkit.cache import require_cache
from buildkit.errors import ArchError, Location, VerifyError
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.cuobjdump import ensure_cuobjdump
from buildkit.toolchain.python import probe_python
from buildkit.wheels import list_gpu_code, read_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.arch import GpuArch
    from buildkit.kit import Kit
    from buildkit.values import GpuCode

__all__ = ["Inspection", "inspect_wheel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a wheel holds, and for whom."""

    path: Path
    gpu: GpuArch | None
    codes: tuple[GpuCode, ...]
    by_jit: tuple[str, ...]
    """Libraries that run on the GPU only by compiling their PTX."""
    lacking: tuple[str, ...]
    """Libraries with nothing that runs on the GPU."""
    serves: tuple[str, ...]
    """Targets that every library has machine code for."""


def inspect_wheel(path: Path, gpu: GpuArch | None, kit: Kit) -> Inspection:
    """Return what a wheel or a shared library holds.

    :raises VerifyError: if it cannot be read, or is not sound.
    """
    if not path.is_file():
        raise VerifyError(
            f"There is no file {path}.",
            where=Location(file=str(path)),
            remedy="Give the path of a .whl or .so file.",
        )
    if path.suffix == ".whl":
        read_wheel(path)
    require_cache(kit.paths)
    python = probe_python(None, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo)
    supply = kit.supply(read_index_settings(kit.environment), is_offline=False)
    cuobjdump = ensure_cuobjdump(python, supply)
    codes = list_gpu_code(path, cuobjdump=cuobjdump, runner=kit.runner, environment=kit.environment)
    lacking = [] if gpu is None else [code for code in codes if not _has_code(code, gpu)]
    by_jit = [code for code in lacking if gpu is not None and _has_ptx(code, gpu)]
    return Inspection(
        path=path,
        gpu=gpu,
        codes=codes,
        by_jit=tuple(code.library for code in by_jit),
        lacking=tuple(code.library for code in lacking if code not in by_jit),
        serves=tuple(name for name in _devices() if codes and _serve(codes, parse_arch(name))),
    )


def _devices() -> list[str]:
    return [name for name in TARGETS if name[-1].isdigit()]


def _serve(codes: tuple[GpuCode, ...], gpu: GpuArch) -> bool:
    return all(_has_code(code, gpu) for code in codes)


def _has_code(code: GpuCode, gpu: GpuArch) -> bool:
    return any(known is not None and runs_on(known, gpu) for known in map(_parse, code.sass))


def _has_ptx(code: GpuCode, gpu: GpuArch) -> bool:
    """PTX without a variant compiles for any later GPU. Source: CUDA C++ Programming Guide."""
    for text in code.ptx:
        known = _parse(text)
        if known is None:  # older than any target of this kit
            return True
        if known.variant == "" and known <= gpu.device:
            return True
    return False


def _parse(text: str) -> GpuArch | None:
    try:
        return parse_arch(text)
    except ArchError:
        return None
