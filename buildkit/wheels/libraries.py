"""In what two libraries differ: their sections, their kernels, the names of places in them.

What enters: two ELF files. What leaves: one :class:`LibraryDifference`. Kernels are compared by
their machine code, which cuobjdump takes out of the library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from buildkit.digest import digest_bytes
from buildkit.environ import base_environment
from buildkit.errors import VerifyError
from buildkit.wheels.elf import read_sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from buildkit.run import Runner
    from buildkit.wheels.elf import Section

__all__ = [
    "LibraryDifference",
    "compare_kernels",
    "compare_libraries",
    "module_free",
    "read_kernels",
]

#: As much of a section as is searched for names, or digested, at once.
SEARCHED_BYTES = 64 << 20

_TEXT = re.compile(rb"[\x20-\x7e]{5,}")

#: A directory and a name in it, nvcc's temporary names, and its names of internal symbols.
_PLACE = re.compile(r"(?:/[\w.+@ -]+){2,}|tmpxft_\w+[\w.-]*|\w*(?:_INTERNAL_|_GLOBAL__N__)\w+")

#: What nvcc puts into names of internal symbols: a digest of the source's absolute path, its name,
#: and a symbol or digest of its contents. Source: module ids as cudafe++ of CUDA 13.0 writes them.
_MODULE = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(_\d+_)")

_CUBIN = re.compile(r"\.(sm_\w+)\.cubin$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryDifference:
    """In what two libraries differ; empty where they do not."""

    sections: tuple[str, ...]
    """Such as ``.text: changed`` or ``.symtab: only in A``."""
    kernels: tuple[str, ...]
    """Such as ``sm_120 Saxpy: changed``."""
    only_in_a: tuple[str, ...]
    """Paths, temporary names and internal symbols in sections that differ."""
    only_in_b: tuple[str, ...]


def compare_libraries(a: Path, b: Path) -> LibraryDifference:
    """Return in what two ELF files differ, kernels left aside."""
    one, other = _sections(a), _sections(b)
    sections = tuple(_changes(one.digests, other.digests))
    differing = {name for name in one.digests if one.digests[name] != other.digests.get(name)}
    differing |= other.digests.keys() - one.digests.keys()
    places_a, places_b = _places(a, one, differing), _places(b, other, differing)
    return LibraryDifference(
        sections=sections,
        kernels=(),
        only_in_a=tuple(sorted(places_a - places_b)),
        only_in_b=tuple(sorted(places_b - places_a)),
    )


def read_kernels(
    library: Path, folder: Path, cuobjdump: Path, runner: Runner, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return a digest of the machine code of each kernel, by target and name.

    :param folder: An empty directory for what is taken out of the library.
    :raises VerifyError: if the library cannot be read.
    """
    done = runner.capture(
        [cuobjdump, "--extract-elf", "all", library], env=base_environment(environment), cwd=folder
    )
    if done.status != 0 and "does not contain device code" not in done.stdout + done.stderr:
        raise VerifyError(
            f"cuobjdump cannot read {library.name}: {' '.join(done.stderr.split())[-300:]}.",
            remedy="The library is damaged, or newer than this cuobjdump.",
        )
    codes: dict[str, list[str]] = {}
    for cubin in sorted(folder.glob("*.cubin")):
        target = _CUBIN.search(cubin.name)
        with cubin.open("rb") as file:
            for section in list(read_sections(file)):
                if section.name.startswith(".text.") and target is not None:
                    file.seek(section.offset)
                    digest = digest_bytes(file.read(section.size_bytes))
                    name = f"{target[1]} {module_free(section.name.removeprefix('.text.'))}"
                    codes.setdefault(name, []).append(digest)
    # Internal kernels of several units may share a name.
    return {name: " ".join(sorted(digests)) for name, digests in codes.items()}


def compare_kernels(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line per kernel that differs."""
    return tuple(_changes(a, b))


def module_free(name: str) -> str:
    """Return a symbol's name without the digest of its source's path.

    >>> module_free("_ZN38_INTERNAL_3cb8c1e8_8_saxpy_cu_8756b82c4demo1kE")
    '_ZN38_INTERNAL_*_8_saxpy_cu_8756b82c4demo1kE'
    """
    return _MODULE.sub(r"\1*\2", name)


@dataclass(frozen=True, slots=True)
class _Sections:
    digests: dict[str, str]
    places: dict[str, tuple[int, int]]


def _sections(library: Path) -> _Sections:
    digests: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    with library.open("rb") as file:
        for section in list(read_sections(file)):
            if not section.name:
                continue
            name = section.name
            while name in digests:  # an object may have several sections of one name
                name += "'"
            digests[name] = _digest(file, section)
            places[name] = (section.offset, section.size_bytes)
    return _Sections(digests, places)


def _digest(file: BinaryIO, section: Section) -> str:
    """Return a digest of a section, which may be larger than what memory has room for."""
    file.seek(section.offset)
    end = section.offset + section.size_bytes
    parts = []
    while block := file.read(min(SEARCHED_BYTES, end - file.tell())):
        parts.append(digest_bytes(block))
    return "".join(parts) if len(parts) == 1 else digest_bytes("".join(parts).encode())


def _changes(a: Mapping[str, str], b: Mapping[str, str]) -> Iterable[str]:
    for name in dict.fromkeys([*a, *b]):
        if name not in b:
            yield f"{name}: only in A"
        elif name not in a:
            yield f"{name}: only in B"
        elif a[name] != b[name]:
            yield f"{name}: changed"


def _places(library: Path, sections: _Sections, names: set[str]) -> set[str]:
    """Return what looks like the name of a place in some sections of a library."""
    found: set[str] = set()
    with library.open("rb") as file:
        for name in names & sections.places.keys():
            offset, size = sections.places[name]
            file.seek(offset)
            for text in _TEXT.findall(file.read(min(size, SEARCHED_BYTES))):
                found.update(_PLACE.findall(text.decode("ascii")))
    return found
