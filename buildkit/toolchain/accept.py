"""What the torch and the CMake of a build environment accept: asked of them, never assumed.

Torch is read from its files, since importing it takes seconds; CMake runs its own check.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.errors import ArchError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.arch import GpuArch
    from buildkit.events import Events
    from buildkit.run import Runner

__all__ = ["check_cmake", "check_torch"]

#: Runs the check that CMake itself applies to CMAKE_CUDA_ARCHITECTURES. Source: CMake's
#: Modules/Internal/CMakeCUDAArchitecturesValidate.cmake; older ones check later, in a build.
_CMAKE_CHECK = """\
set(check "${CMAKE_ROOT}/Modules/Internal/CMakeCUDAArchitecturesValidate.cmake")
if(EXISTS "${check}")
  include("${check}")
  cmake_cuda_architectures_validate(CUDA)
endif()
"""

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


def check_cmake(
    environment: Path, code: GpuArch, *, runner: Runner, variables: Mapping[str, str]
) -> None:
    """Refuse a CMake that does not know the target's variant; plain numbers pass with any.

    :param environment: Root of the build environment; without CMake there is nothing to check.
    :param variables: The whole environment of the call.
    :raises ArchError: if CMake refuses it.
    """
    program = environment / "bin" / "cmake"
    if not code.variant or not program.exists():
        return
    with tempfile.TemporaryDirectory(prefix="buildkit-") as folder:
        script = Path(folder) / "check.cmake"
        script.write_text(_CMAKE_CHECK)
        define = f"-DCMAKE_CUDA_ARCHITECTURES={code.cmake}"
        done = runner.capture([program, define, "-P", script], env=variables, timeout_seconds=60)
    if done.status != 0:
        raise ArchError(
            f"The locked CMake does not know {code.name} ({code.cmake}).",
            remedy="Lock a newer CMake: widen build.requires and run `buildkit pin --upgrade`.",
        )
