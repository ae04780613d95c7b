"""A published wheel is written anew with a few files changed, everything else as it was.

What enters: a wheel, the contents that change, a version label. What leaves: a wheel whose file
name, ``.dist-info`` directory, METADATA, WHEEL and RECORD agree with each other, and its digest.
Members that do not change are copied as they are compressed (:mod:`buildkit.wheels.splice`).
Checked: that RECORD lists what is there, and the digest of each file that is read. Whether the
bytes that are only copied are the right ones, the digest of the whole wheel has to tell.
Source: PyPA binary distribution format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from buildkit.wheels.members import Member, read_contents, read_members
from buildkit.wheels.read import broken
from buildkit.wheels.record import (
    SIGNATURES,
    Row,
    parse_record,
    record_issues,
    render_record,
    row_of,
)
from buildkit.wheels.rewrite import PROVENANCE, local_version
from buildkit.wheels.splice import Splicer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Change", "OpenWheel", "respin_wheel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one file; names are those of the installed package."""

    data: bytes | None
    """None: it goes."""
    is_program: bool | None = None
    """None: as it was."""


class OpenWheel:
    """A wheel whose directory and RECORD are known to agree; files are read on demand.

    :raises VerifyError: if it is not sound.
    """

    def __init__(self, file: BinaryIO, filename: str) -> None:
        self.file = file
        self.filename = filename
        self.members = {member.name: member for member in read_members(file, filename)}
        self.dist_info = _dist_info(self.members, filename)
        try:
            rows = parse_record(self._member("RECORD").decode())
        except ValueError as error:
            raise broken(filename, [f"its RECORD cannot be read: {error}"]) from error
        self.rows = {row.name: row for row in rows}
        sizes = {name: member.size_bytes for name, member in self.members.items()}
        issues = list(record_issues(rows, sizes, self.dist_info))
        if issues:
            raise broken(filename, issues)
        self.metadata = self._checked("METADATA")
        self.wheel = self._checked("WHEEL")
        self.name = _field(self.metadata, "Name", filename)
        self.version = _field(self.metadata, "Version", filename)
        self.tags = _tags(self)
        """Those of the file name."""
        self.stated_tags = {match[1] for match in _values(self.wheel, "Tag")}
        """Those of WHEEL; publishers that rename a wheel leave the old ones there."""

    @property
    def has_provenance(self) -> bool:
        """Whether this kit made the wheel."""
        return f"{self.dist_info}/{PROVENANCE}" in self.members

    @property
    def signatures(self) -> tuple[str, ...]:
        """The members that sign its RECORD, which a new RECORD makes void."""
        names = (f"{self.dist_info}/{name}" for name in SIGNATURES)
        return tuple(name for name in names if name in self.members)

    @property
    def data(self) -> str:
        """Name of its ``.data`` directory, whether there is one or not."""
        return self.dist_info.removesuffix(".dist-info") + ".data"

    def place(self, name: str) -> str | None:
        """Return the member that becomes a file of the installed package, or None."""
        places = (name, f"{self.data}/purelib/{name}", f"{self.data}/platlib/{name}")
        return next((place for place in places if place in self.members), None)

    def read(self, name: str) -> bytes | None:
        """Return a file of the installed package, or None if it has no such file.

        :raises VerifyError: if it is not what RECORD says.
        """
        place = self.place(name)
        return None if place is None else self._recorded(place)

    def _recorded(self, member: str) -> bytes:
        data = read_contents(self.file, self.members[member], self.filename)
        listed = self.rows[member].digest
        if not listed.startswith("sha256="):
            kind = listed.partition("=")[0]
            raise broken(self.filename, [f"RECORD has {kind} for {member}, allowed sha256"])
        if row_of(member, data).digest != listed:
            raise broken(self.filename, [f"{member} is not what RECORD says"])
        return data

    def _member(self, name: str) -> bytes:
        member = self.members.get(f"{self.dist_info}/{name}")
        if member is None:
            raise broken(self.filename, [f"it has no {name}"])
        return read_contents(self.file, member, self.filename)

    def _checked(self, name: str) -> str:
        self._member(name)  # tells if it is missing
        try:
            return self._recorded(f"{self.dist_info}/{name}").decode()
        except UnicodeDecodeError as error:
            raise broken(self.filename, [f"its {name} is no UTF-8 text"]) from error


def respin_wheel(
    wheel: OpenWheel,
    target: BinaryIO,
    changes: Mapping[str, Change],
    *,
    label: str,
    provenance: bytes,
) -> None:
    """Write the wheel with changes into a file that is open for writing.

    :param label: Local version label; empty leaves the version as it is.
    :raises OSError: if the disk is full.
    """
    version = local_version(wheel.version, label)
    writer = _Writer(wheel, target, version)
    changed = {wheel.place(name) or name: change for name, change in changes.items()}
    info = f"{wheel.dist_info}/"
    changed[f"{info}METADATA"] = Change(data=_with_version(wheel.metadata, version).encode())
    text = _with_tags(wheel.wheel, wheel.tags)
    if text != wheel.wheel:
        changed[f"{info}WHEEL"] = Change(data=text.encode())
    dropped = {f"{info}RECORD", *wheel.signatures}
    kept = [name for name in wheel.members if name not in dropped]
    new = sorted(changed.keys() - wheel.members.keys())
    # The .dist-info comes last, as the format recommends.
    for name in sorted([*kept, *new], key=lambda name: name.startswith(info)):
        if name not in changed:
            writer.copy(name)
        else:
            writer.put(name, changed[name])
    writer.put(f"{info}{PROVENANCE}", Change(data=provenance))
    writer.finish()


class _Writer:
    """The new wheel and its RECORD."""

    def __init__(self, wheel: OpenWheel, target: BinaryIO, version: str) -> None:
        self._wheel = wheel
        self._splicer = Splicer(wheel.file, target)
        stem = wheel.dist_info.removesuffix(".dist-info").rpartition("-")[0]
        self._folder = f"{stem}-{version}.dist-info"
        self._renames = {
            f"{wheel.dist_info}/": f"{self._folder}/",
            f"{wheel.data}/": f"{stem}-{version}.data/",
        }
        self._rows: list[Row] = []

    def copy(self, name: str) -> None:
        target = self._renamed(name)
        row = self._wheel.rows[name]
        self._splicer.copy(self._wheel.members[name], target)
        self._rows.append(Row(name=target, digest=row.digest, size=row.size))

    def put(self, name: str, change: Change) -> None:
        if change.data is None:
            return
        like = self._wheel.members.get(name)
        was_program = like is not None and bool((like.attributes >> 16) & 0o100)
        is_program = was_program if change.is_program is None else change.is_program
        target = self._renamed(name)
        self._splicer.add(target, change.data, like=like, is_program=is_program)
        self._rows.append(row_of(target, change.data))

    def finish(self) -> None:
        name = f"{self._folder}/RECORD"
        rows = [*self._rows, Row(name=name, digest="", size="")]
        self._splicer.add(name, render_record(rows), like=None, is_program=False)
        self._splicer.finish()

    def _renamed(self, name: str) -> str:
        for old, new in self._renames.items():
            if name.startswith(old):
                return new + name.removeprefix(old)
        return name


def _dist_info(members: Mapping[str, Member], filename: str) -> str:
    folders = {name.partition("/")[0] for name in members if "/" in name}
    found = sorted(name for name in folders if name.endswith(".dist-info"))
    if len(found) != 1:
        listed = ", ".join(found) or "none"
        raise broken(filename, [f"it must have one .dist-info directory, found {listed}"])
    return found[0]


def _tags(wheel: OpenWheel) -> tuple[str, ...]:
    """Return the tags in the file name, after comparing the rest of it with what is inside."""
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
    from packaging.version import InvalidVersion, Version

    try:
        name, version, _, tags = parse_wheel_filename(wheel.filename)
        stated = Version(wheel.version)
        stem, _, number = wheel.dist_info.removesuffix(".dist-info").rpartition("-")
        in_folder = Version(number)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise broken(wheel.filename, [str(error)]) from error
    issues = []
    if not name == canonicalize_name(wheel.name) == canonicalize_name(stem):
        issues.append(f"its name is {name} in the file name, {wheel.name} in METADATA, {stem} in")
        issues[-1] += " the name of its .dist-info directory"
    if not version == stated == in_folder:
        issues.append(f"its version is {version} in the file name, {stated} in METADATA,")
        issues[-1] += f" {in_folder} in the name of its .dist-info directory"
    format_version = _field(wheel.wheel, "Wheel-Version", wheel.filename)
    if format_version.partition(".")[0] != "1":
        issues.append(f"its format is {format_version}, allowed 1.x")
    if issues:
        raise broken(wheel.filename, issues)
    return tuple(sorted(str(tag) for tag in tags))


def _head(text: str) -> int:
    """Return where the fields of a text end and its free part begins."""
    found = re.search(r"\r?\n\r?\n", text)
    return found.start() if found else len(text)


def _values(text: str, name: str) -> Iterator[re.Match[str]]:
    pattern = re.compile(rf"^{name}:[ \t]*(.*?)[ \t\r]*$", re.MULTILINE | re.IGNORECASE)
    return pattern.finditer(text, 0, _head(text))


def _field(text: str, name: str, filename: str) -> str:
    found = [match[1] for match in _values(text, name)]
    if len(found) != 1 or not found[0]:
        raise broken(filename, [f"the field {name} must stand there once, found {found or 'none'}"])
    return found[0]


def _with_version(text: str, version: str) -> str:
    """Return METADATA with another version and every other byte as it was."""
    (found,) = _values(text, "Version")
    return text[: found.start(1)] + version + text[found.end(1) :]


def _with_tags(text: str, tags: tuple[str, ...]) -> str:
    """Return WHEEL with the tags of the file name, which publishers change without it."""
    found = {match[1] for match in _values(text, "Tag")}
    if found == set(tags):
        return text
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not line.lower().startswith("tag:")]
    place = next((at for at, line in enumerate(lines) if line.lower().startswith("tag:")), 0)
    return "".join([*kept[:place], *(f"Tag: {tag}\n" for tag in tags), *kept[place:]])
