"""Sections of an ELF file: enough to tell whether a library holds GPU code at all.

Reads headers alone, so that a library of a gigabyte without GPU code costs nothing. Source: System
V ABI, "Object Files"; for the names, CUDA's fatbinary_section.h.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["has_gpu_code", "is_elf"]

_GPU_SECTIONS = {b".nv_fatbin", b"__nv_relfatbin", b".nvFatBinSegment"}


def is_elf(start: bytes) -> bool:
    """Tell whether a file that begins so is an ELF file."""
    return start[:4] == b"\x7fELF"


def has_gpu_code(file: BinaryIO) -> bool:
    """Tell whether an ELF file has a section for GPU code."""
    return any(name in _GPU_SECTIONS for name in _section_names(file))


def _section_names(file: BinaryIO) -> Iterator[bytes]:
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
        yield names[row[0] : end]
