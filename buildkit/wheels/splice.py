"""An archive that is written from ranges of another one and from a few new members.

Copied members keep their bytes as compressed; headers are written anew, without the data
descriptors and extra fields of whoever wrote the first archive. New members are stored and not
deflated, since zlib and its successors compress the same text to different bytes. So the result
depends on nothing but what enters. Written in one go from front to back.
Source: PKWARE APPNOTE 6.3.10, 4.3.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING

from buildkit.wheels.members import STORED, Member

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["Splicer"]

_BLOCK_BYTES = 1 << 18

#: From where on a value stands in a zip64 record. Source: APPNOTE 4.4.1.4.
LIMIT32, LIMIT16 = 0xFFFFFFFF, 0xFFFF

#: What its own field holds then.
_ELSEWHERE32, _ELSEWHERE16 = 0xFFFFFFFF, 0xFFFF

_UTF8 = 0x800

#: The first moment that a zip archive can hold. Source: APPNOTE 4.4.6.
_TIME = (1980, 1, 1, 0, 0, 0)

_UNIX = 3


class Splicer:
    """Writes an archive; :meth:`finish` must come last."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source = source
        self._target = target
        self._at = 0
        self._directory: list[bytes] = []

    def copy(self, member: Member, name: str) -> None:
        """Copy a member of the source, as it is compressed there, under a name."""
        self._begin(member, name)
        size = member.compressed_bytes
        done = self._copy_in_kernel(member.start, size) if size > _BLOCK_BYTES else 0
        self._source.seek(member.start + done)
        while done < size:
            block = self._source.read(min(size - done, _BLOCK_BYTES))
            if not block:
                raise OSError(f"the source ends within {member.name}")
            self._target.write(block)
            done += len(block)
        self._at += size

    def _copy_in_kernel(self, start: int, size: int) -> int:
        """Copy a range without bringing it here; returns how much of it was copied.

        Takes a third of the time of reading and writing. Source: benchmarks/patched_wheel.py.
        """
        done = 0
        try:
            source, target = self._source.fileno(), self._target.fileno()
            self._target.flush()
            while done < size:
                count = os.copy_file_range(source, target, size - done, start + done)
                if count == 0:
                    break
                done += count
        except OSError:
            pass  # no real files, or a file system that cannot; a full disk shows itself again
        if done:
            self._target.seek(0, os.SEEK_END)
        return done

    def add(self, name: str, data: bytes, *, like: Member | None, is_program: bool) -> None:
        """Store a new member.

        :param like: The member that it takes the place of, whose time it keeps.
        """
        member = Member(
            name=name,
            start=0,
            compressed_bytes=len(data),
            size_bytes=len(data),
            crc=zlib.crc32(data),
            method=STORED,
            time=_TIME if like is None else like.time,
            system=_UNIX,
            attributes=(0o100755 if is_program else 0o100644) << 16,
        )
        self._begin(member, name)
        self._write(data)

    def finish(self) -> None:
        """Write the directory."""
        start = self._at
        for row in self._directory:
            self._write(row)
        count, size = len(self._directory), self._at - start
        if count >= LIMIT16 or size >= LIMIT32 or start >= LIMIT32:
            record = self._at
            rest = (45, 45, 0, 0, count, count, size, start)
            self._write(struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, *rest))
            self._write(struct.pack("<4sIQI", b"PK\x06\x07", 0, record, 1))
        shown = _ELSEWHERE16 if count >= LIMIT16 else count
        ends = (0, 0, shown, shown, _field32(size), _field32(start), 0)
        self._write(struct.pack("<4s4H2IH", b"PK\x05\x06", *ends))

    def _begin(self, member: Member, name: str) -> None:
        """Write a member's own header and note its row of the directory."""
        encoded = name.encode()
        flags = 0 if name.isascii() else _UTF8
        sizes = [member.size_bytes, member.compressed_bytes]
        is_large = max(sizes) >= LIMIT32
        # Source: APPNOTE 4.5.3: a local header has both sizes, a row only what did not fit.
        extra = struct.pack("<2H2Q", 1, 16, *sizes) if is_large else b""
        wide = [*sizes] if is_large else []
        wide += [self._at] if self._at >= LIMIT32 else []
        row_extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        shown = [_ELSEWHERE32] * 2 if is_large else [member.compressed_bytes, member.size_bytes]
        common = (flags, member.method, *_dos_time(member.time), member.crc, *shown, len(encoded))
        self._directory.append(
            struct.pack(
                "<4s2B5H3I5H2I",
                b"PK\x01\x02",
                45 if wide else 20,
                member.system,
                45 if wide else 20,
                *common,
                len(row_extra),
                0,
                0,
                0,
                member.attributes,
                _field32(self._at),
            )
            + encoded
            + row_extra
        )
        version = 45 if is_large else 20
        self._write(struct.pack("<4s5H3I2H", b"PK\x03\x04", version, *common, len(extra)))
        self._write(encoded + extra)

    def _write(self, data: bytes) -> None:
        self._target.write(data)
        self._at += len(data)


def _field32(value: int) -> int:
    return _ELSEWHERE32 if value >= LIMIT32 else value


def _dos_time(moment: tuple[int, int, int, int, int, int]) -> tuple[int, int]:
    """Return time and date as zip writes them. Source: APPNOTE 4.4.6."""
    year, month, day, hour, minute, second = moment
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
