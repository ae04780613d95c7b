"""The story of ``diff``: what differs between two wheels, and why where that is known."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_file
from buildkit.errors import BuildkitError, Location, RequestError
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.cuobjdump import ensure_cuobjdump
from buildkit.toolchain.python import probe_python
from buildkit.wheels.differences import (
    MemberDifference,
    archive_fields,
    pair_members,
    reasons_for,
    text_fields,
)
from buildkit.wheels.elf import has_gpu_code, is_elf
from buildkit.wheels.libraries import (
    LibraryDifference,
    compare_kernels,
    compare_libraries,
    read_kernels,
)

if TYPE_CHECKING:
    from buildkit.digest import Digest
    from buildkit.kit import Kit

__all__ = ["Comparison", "compare_wheels"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two wheels have in common, and what not."""

    digests: tuple[Digest, Digest]
    differences: tuple[MemberDifference, ...]
    has_other_order: bool
    """Whether the same files stand in another order."""
    reasons: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether they are the same, byte by byte."""
        return self.digests[0] == self.digests[1]


def compare_wheels(a: Path, b: Path, kit: Kit) -> Comparison:
    """Return in what two wheels differ.

    :raises RequestError: if one of them cannot be read.
    """
    try:
        digests = (digest_file(a), digest_file(b))
        if digests[0] == digests[1]:
            _open(a).close()
            return Comparison(digests=digests, differences=(), has_other_order=False, reasons=())
        with _open(a) as one, _open(b) as other:
            differences = tuple(_Comparer(one, other, kit).differences())
            names = [[info.filename for info in wheel.infolist()] for wheel in (one, other)]
            has_other_order = names[0] != names[1] and sorted(names[0]) == sorted(names[1])
    except OSError as error:
        raise RequestError(
            f"{error.filename or 'A wheel'} cannot be read: {error.strerror or error}.",
            where=Location(file="command line"),
            remedy="Give the paths of two .whl files.",
        ) from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise RequestError(
            f"One of {a.name} and {b.name} is damaged: {error}.",
            where=Location(file="command line"),
            remedy="Build or fetch it again.",
        ) from error
    return Comparison(
        digests=digests,
        differences=differences,
        has_other_order=has_other_order,
        reasons=reasons_for(differences),
    )


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise RequestError(
            f"{path.name} is no wheel: {error}.",
            where=Location(file=str(path)),
            remedy="Give the paths of two .whl files.",
        ) from error


class _Comparer:
    """Compares two open wheels, one pair of files after the other."""

    def __init__(self, a: zipfile.ZipFile, b: zipfile.ZipFile, kit: Kit) -> None:
        self._a = a
        self._b = b
        self._kit = kit
        self._cuobjdump: Path | None = None
        self._is_told = False

    def differences(self) -> list[MemberDifference]:
        """Return one difference per file that is not the same in both."""
        found = []
        for name, (left, right) in pair_members(self._a, self._b).items():
            if right is None:
                found.append(MemberDifference(name=name, change="removed"))
            elif left is None:
                found.append(MemberDifference(name=name, change="added"))
            elif (difference := self._pair(name, left, right)) is not None:
                found.append(difference)
        return found

    def _pair(
        self, name: str, left: zipfile.ZipInfo, right: zipfile.ZipInfo
    ) -> MemberDifference | None:
        fields = archive_fields(left, right)
        library = None
        if left.CRC != right.CRC or left.file_size != right.file_size:
            with self._a.open(left) as one, self._b.open(right) as other:
                are_libraries = is_elf(one.read(4)) and is_elf(other.read(4))
            if are_libraries:
                library = self._library(left, right)
            elif ".dist-info/" in name:
                fields += text_fields(name, self._a.read(left), self._b.read(right))
        elif not fields:
            return None
        return MemberDifference(name=name, change="changed", fields=fields, library=library)

    def _library(self, left: zipfile.ZipInfo, right: zipfile.ZipInfo) -> LibraryDifference:
        with ExitStack() as stack:
            files = []
            for wheel, member in ((self._a, left), (self._b, right)):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="buildkit-"))
                place = Path(folder) / "library.so"
                with wheel.open(member) as stream, place.open("wb") as copy:
                    shutil.copyfileobj(stream, copy, 1 << 20)
                files.append(place)
            found = compare_libraries(*files)
            if any(".nv_fatbin" in section for section in found.sections):
                kernels = self._kernels(*files)
                found = replace(found, kernels=kernels)
            return found

    def _kernels(self, a: Path, b: Path) -> tuple[str, ...]:
        cuobjdump = self._tool()
        if cuobjdump is None:
            return ()
        tables = []
        for library in (a, b):
            folder = library.with_name("cubins")
            folder.mkdir()
            with library.open("rb") as file:
                holds_any = has_gpu_code(file)
            tables.append(
                read_kernels(library, folder, cuobjdump, self._kit.runner, self._kit.environment)
                if holds_any
                else {}
            )
        return compare_kernels(*tables)

    def _tool(self) -> Path | None:
        """Return cuobjdump; without it everything else is compared all the same."""
        if self._cuobjdump is None and not self._is_told:
            kit = self._kit
            try:
                python = probe_python(
                    None, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo
                )
                supply = kit.supply(read_index_settings(kit.environment), is_offline=False)
                self._cuobjdump = ensure_cuobjdump(python, supply)
            except BuildkitError as error:
                self._is_told = True
                kit.events.warning(f"Kernels are not compared: {error.what}")
        return self._cuobjdump
