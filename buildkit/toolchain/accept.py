"""What the torch of a build environment accepts, read from its files; torch is not imported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from buildkit.errors import ArchError, ToolchainError

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.arch import GpuArch
    from buildkit.events import Events

__all__ = ["check_torch"]

_SUPPORTED = re.compile(r"supported_arches\s*=\s*\[([^\]]*)\]")
_CUDA = re.compile(r"^cuda:[^=]*=\s*'(\d+)\.(\d+)'", re.MULTILINE)


def check_torch(environment: Path, code: GpuArch, nvcc_version: str, events: Events) -> None:
    """Refuse a torch that cannot build the target or was built with another CUDA.

    :param environment: Root of the build environment; without torch there is nothing to check.
    :raises ArchError: if torch's list of targets lacks this one.
    :raises ToolchainError: if the major versions of CUDA differ; a minor difference is a warning.
    """
    folder = next(iter(environment.glob("lib/python*/site-packages/torch")), None)
    if folder is None:
        return
    extension = folder / "utils" / "cpp_extension.py"
    listed = _SUPPORTED.search(extension.read_text()) if extension.is_file() else None
    if listed is not None:
        known = re.findall(r"'([^']+)'", listed[1])
        if code.torch not in known:
            raise ArchError(
                f"The locked torch does not know {code.name}: found {', '.join(known)}.",
                remedy="Lock a newer torch: widen build.requires and run `buildkit pin --upgrade`.",
            )
    version = folder / "version.py"
    built = _CUDA.search(version.read_text()) if version.is_file() else None
    if built is None:
        raise ToolchainError(
            "The locked torch was built without CUDA.",
            remedy="See which torch the index of your pip offers; a build for CPUs is no use.",
        )
    major, minor = nvcc_version.split(".")[:2]
    if built[1] != major:
        raise ToolchainError(
            f"CUDA of nvcc: found {nvcc_version}, allowed {built[1]}.x, as torch was built with.",
            remedy="Set CUDA_HOME to such a toolkit, or lock a torch for this one.",
        )
    if built[2] != minor:
        events.warning(
            f"nvcc is {nvcc_version}, torch was built with CUDA {built[1]}.{built[2]}: minor"
            " versions of one major are compatible."
        )
