"""An archive that is written from ranges of another one and from a few new members.

Copied members keep their bytes as compressed; headers are written anew, without the data
descriptors and extra fields of whoever wrote the first archive. New members are stored and not
deflated, since zlib and its successors compress the same text to different bytes. So the result
depends on nothing but what enters. Written in one go from front to back; its digest falls out.
Source: PKWARE APPNOTE 6.3.10, 4.3.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, BinaryIO

from buildkit.digest import RunningDigest
from buildkit.wheels.members import STORED, Member

if TYPE_CHECKING:
    from buildkit.digest import Digest

__all__ = ["Splicer"]

_BLOCK_BYTES = 1 << 20

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
        self._digest = RunningDigest()
        self._at = 0
        self._directory: list[bytes] = []

    def copy(self, member: Member, name: str) -> None:
        """Copy a member of the source, as it is compressed there, under a name."""
        self._begin(member, name)
        self._source.seek(member.start)
        left = member.compressed_bytes
        while left:
            block = self._source.read(min(left, _BLOCK_BYTES))
            if not block:
                raise OSError(f"the source ends within {member.name}")
            self._write(block)
            left -= len(block)

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

    def finish(self) -> Digest:
        """Write the directory and return the digest of the whole."""
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
        return self._digest.finish()

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
        self._digest.update(data)
        self._at += len(data)


def _field32(value: int) -> int:
    return _ELSEWHERE32 if value >= LIMIT32 else value


def _dos_time(moment: tuple[int, int, int, int, int, int]) -> tuple[int, int]:
    """Return time and date as zip writes them. Source: APPNOTE 4.4.6."""
    year, month, day, hour, minute, second = moment
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
