"""Sections of an ELF file: enough to tell whether a library holds GPU code at all.

Reads headers alone, so that a library of a gigabyte without GPU code costs nothing. Source: System
V ABI, "Object Files"; for the names, CUDA's fatbinary_section.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Section", "has_gpu_code", "is_elf", "read_needed", "read_sections"]

_GPU_SECTIONS = {".nv_fatbin", "__nv_relfatbin", ".nvFatBinSegment"}

_NOBITS = 8

_DT_NEEDED = 1


def is_elf(start: bytes) -> bool:
    """Tell whether a file that begins so is an ELF file."""
    return start[:4] == b"\x7fELF"


@dataclass(frozen=True, slots=True)
class Section:
    """Where one section lies."""

    name: str
    offset: int
    size_bytes: int
    """In the file: 0 for sections that hold nothing there."""


def has_gpu_code(file: BinaryIO) -> bool:
    """Tell whether an ELF file has a section for GPU code."""
    return any(section.name in _GPU_SECTIONS for section in read_sections(file))


def read_needed(file: BinaryIO) -> tuple[str, ...]:
    """Return the libraries that the loader looks for. Source: System V ABI, "Dynamic Section"."""
    found = {section.name: section for section in read_sections(file)}
    if ".dynamic" not in found or ".dynstr" not in found:
        return ()
    file.seek(5)
    order = "<" if file.read(1) == b"\1" else ">"
    blocks = []
    for name in (".dynamic", ".dynstr"):
        file.seek(found[name].offset)
        blocks.append(file.read(found[name].size_bytes))
    table, strings = blocks
    needed = []
    for start in range(0, len(table) - 15, 16):
        tag, value = struct.unpack_from(order + "qQ", table, start)
        if tag == _DT_NEEDED:
            needed.append(strings[value : strings.find(b"\0", value)].decode(errors="replace"))
    return tuple(needed)


def read_sections(file: BinaryIO) -> Iterator[Section]:
    """Yield the sections of an ELF file; none where its headers mean nothing."""
    file.seek(0)
    header = file.read(64)
    if len(header) < 64 or header[4] != 2:  # every CUDA platform of today has 64 bits
        return
    order = "<" if header[5] == 1 else ">"
    (offset,) = struct.unpack_from(order + "Q", header, 40)
    size, count, strings = struct.unpack_from(order + "HHH", header, 58)
    if offset == 0 or size < 64:
        return
    file.seek(offset)
    table = file.read(size * count)
    rows = [
        struct.unpack_from(order + "IIQQQQ", table, start)
        for start in range(0, len(table) - size + 1, size)
    ]
    if strings >= len(rows):
        return
    file.seek(rows[strings][4])
    names = file.read(rows[strings][5])
    for row in rows:
        end = names.find(b"\0", row[0])
        name = names[row[0] : end].decode(errors="replace")
        yield Section(name, row[4], 0 if row[1] == _NOBITS else row[5])
