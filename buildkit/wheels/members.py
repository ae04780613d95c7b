"""Members of a zip archive as ranges of its file, so that they can be copied without a look inside.

What enters: an open archive. What leaves: one :class:`Member` each, whose bytes are known to lie
where it says: the two headers of a member agree, ranges do not overlap, names are safe. An archive
that two programs could read differently is refused. Source: PKWARE APPNOTE 6.3.10, 4.3 and 4.4.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from buildkit.wheels.read import broken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["DEFLATED", "STORED", "Member", "read_contents", "read_members"]

STORED, DEFLATED = 0, 8
"""The compression methods that installers know. Source: PyPA binary distribution format."""

#: Largest member that is taken into memory.
LARGEST_BYTES = 64 << 20

_LOCAL = struct.Struct("<4s5H3I2H")

_UTF8 = 0x800

#: Bits of members that are encrypted, patched, or hide their headers. Source: APPNOTE 4.4.4.
_OBSCURE = 0x1 | 0x20 | 0x40 | 0x2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of an archive."""

    name: str
    start: int
    """Where its bytes, as compressed, begin in the archive."""
    compressed_bytes: int
    size_bytes: int
    crc: int
    method: int
    time: tuple[int, int, int, int, int, int]
    system: int
    attributes: int
    """As in the central directory; the upper half is a Unix mode."""


def read_members(file: BinaryIO, name: str) -> tuple[Member, ...]:
    """Return the files of an archive in the order in which they lie there; directories count not.

    :param name: What messages call the archive.
    :raises VerifyError: if it is no archive, or not a sound one; every issue is named.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
            end = archive.start_dir
            issues = [*_name_issues(infos)]
            if issues:
                raise broken(name, issues)
            members = []
            for number, info in enumerate(infos):
                follower = infos[number + 1].header_offset if number + 1 < len(infos) else end
                start, found = _locate(file, info, follower)
                issues += found
                if not info.is_dir():
                    members.append(_member(info, start))
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError) as error:
        raise broken(name, [f"it cannot be read: {error}"]) from error
    if issues:
        raise broken(name, issues)
    return tuple(members)


def read_contents(file: BinaryIO, member: Member, archive: str) -> bytes:
    """Return what a member holds, checked against its checksum.

    :raises VerifyError: if it differs, or is too large to be a text that anyone patches.
    """
    size = max(member.size_bytes, member.compressed_bytes)
    if size > LARGEST_BYTES:
        told = f"{member.name} has {size} bytes, allowed {LARGEST_BYTES} for a text"
        raise broken(archive, [told])
    file.seek(member.start)
    data = file.read(member.compressed_bytes)
    if member.method == DEFLATED:
        engine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One more byte than is allowed: enough to see that there is too much.
            data = engine.decompress(data, member.size_bytes + 1)
        except zlib.error as error:
            raise broken(archive, [f"{member.name} cannot be unpacked: {error}"]) from error
    if len(data) != member.size_bytes or zlib.crc32(data) != member.crc:
        raise broken(archive, [f"{member.name} is not what its checksum says"])
    return data


def _name_issues(infos: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    seen: set[str] = set()
    for info in infos:
        name = info.orig_filename
        if name in seen:
            yield f"it holds {name!r} twice"
        seen.add(name)
        parts = name.removesuffix("/").split("/")
        if "\\" in name or ":" in parts[0] or any(part in ("", ".", "..") for part in parts):
            yield f"{name!r} leads out of it"
        elif any(ord(char) < 32 or ord(char) == 127 for char in name):
            yield f"{name!r} holds control characters"
        elif info.filename != name:
            yield f"{name!r} reads as {info.filename!r} elsewhere"


def _locate(file: BinaryIO, info: zipfile.ZipInfo, follower: int) -> tuple[int, list[str]]:
    """Return where a member's bytes begin, and in what its two headers differ."""
    name = info.orig_filename
    if info.header_offset < 0:
        return 0, [f"{name!r} does not lie where the directory says"]
    file.seek(info.header_offset)
    header = file.read(_LOCAL.size)
    mark, _, flags, method, _, _, _, _, _, name_size, extra_size = _LOCAL.unpack(header)
    if mark != b"PK\x03\x04":
        return 0, [f"{name!r} does not lie where the directory says"]
    local_name = file.read(name_size)
    start = info.header_offset + _LOCAL.size + name_size + extra_size
    issues = []
    if local_name != name.encode("utf-8" if info.flag_bits & _UTF8 else "cp437"):
        issues.append(f"{name!r} has another name in its own header")
    if method != info.compress_type or method not in (STORED, DEFLATED):
        issues.append(f"{name!r} is compressed by method {method}, allowed 0 and 8")
    if (flags | info.flag_bits) & _OBSCURE:
        issues.append(f"{name!r} is encrypted")
    if start + info.compress_size > follower:
        issues.append(f"{name!r} overlaps what follows it")
    if method == STORED and info.compress_size != info.file_size:
        issues.append(f"{name!r} states two sizes")
    return start, issues


def _member(info: zipfile.ZipInfo, start: int) -> Member:
    return Member(
        name=info.orig_filename,
        start=start,
        compressed_bytes=info.compress_size,
        size_bytes=info.file_size,
        crc=info.CRC,
        method=info.compress_type,
        time=info.date_time,
        system=info.create_system,
        attributes=info.external_attr,
    )
