"""Which GPU code a wheel holds, read out of its libraries with NVIDIA's cuobjdump.

What a build log says is no evidence; what the loader will find is. Each library is taken out of the
wheel by itself, so that a wheel of any size needs the disk of its largest library.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.environ import base_environment
from buildkit.errors import Location, VerifyError
from buildkit.values import GpuCode
from buildkit.wheels.elf import has_gpu_code, is_elf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.run import Runner

__all__ = ["list_gpu_code"]

_CODE = re.compile(
    r"^(ELF|PTX) file\s+\d+:\s+\S*?\.?sm_(\d+[af]?)\.(?:cubin|ptx)\s*$", re.MULTILINE
)


def list_gpu_code(
    path: Path, *, cuobjdump: Path, runner: Runner, environment: Mapping[str, str]
) -> tuple[GpuCode, ...]:
    """Return the GPU code of each library in a wheel, or of one library, that holds any.

    :param path: A wheel, or a shared library.
    :raises VerifyError: if a library cannot be read.
    """

    def read(library: Path, name: str) -> GpuCode:
        return _read(library, name, cuobjdump, runner, environment)

    if path.suffix != ".whl":
        with path.open("rb") as file:
            if not is_elf(file.read(4)):
                raise VerifyError(
                    f"{path.name} is neither a wheel nor a shared library.",
                    where=Location(file=str(path)),
                    remedy="Give the path of a .whl or .so file.",
                )
            found = has_gpu_code(file)
        return (read(path, path.name),) if found else ()
    codes = []
    with zipfile.ZipFile(path) as wheel, tempfile.TemporaryDirectory(prefix="buildkit-") as folder:
        for member in wheel.infolist():
            with wheel.open(member) as stream:
                if not is_elf(stream.read(4)):
                    continue
            place = Path(folder) / "library.so"
            with wheel.open(member) as stream, place.open("wb") as copy:
                shutil.copyfileobj(stream, copy, 1 << 20)
            with place.open("rb") as file:
                if has_gpu_code(file):
                    codes.append(read(place, member.filename))
            place.unlink()
    return tuple(codes)


def _read(
    library: Path, name: str, cuobjdump: Path, runner: Runner, environment: Mapping[str, str]
) -> GpuCode:
    done = runner.capture(
        [cuobjdump, "--list-elf", "--list-ptx", library], env=base_environment(environment)
    )
    told = done.stdout + done.stderr
    if done.status != 0 and "does not contain device code" not in told:
        raise VerifyError(
            f"cuobjdump cannot read {name}: {' '.join(told.split())[-300:]}.",
            where=Location(file=name),
            remedy="The library is damaged, or newer than this cuobjdump; build it again.",
        )
    found = _CODE.findall(done.stdout)
    return GpuCode(
        library=name,
        sass=tuple(sorted({f"sm_{number}" for kind, number in found if kind == "ELF"})),
        ptx=tuple(sorted({f"compute_{number}" for kind, number in found if kind == "PTX"})),
    )
