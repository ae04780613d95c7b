"""The wheels of an index: of the cache, or of directories.

What enters: entries or directories. What leaves: one :class:`IndexedWheel` per file name, with what
an index says of it. A wheel whose name and METADATA disagree is refused, since installers refuse it
too.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, Protocol

from buildkit.cache.store import list_entries, look_up
from buildkit.digest import Digest, digest_bytes, digest_file
from buildkit.errors import JobError, Location, RequestError, VerifyError
from buildkit.holds import Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from buildkit.cache.store import StoredEntry
    from buildkit.kit import Kit
    from buildkit.paths import Paths

__all__ = [
    "CacheStock",
    "FolderStock",
    "IndexedWheel",
    "Stock",
    "by_project",
    "cached_wheels",
    "folder_wheels",
    "read_indexed",
    "unique",
]

#: Largest METADATA that is read; that of torch has 40 KiB.
MAX_METADATA_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedWheel:
    """A wheel as an index shows it."""

    path: Path
    project: str
    """Normalised name."""
    version: str
    sha256: Digest
    size_bytes: int
    requires_python: str
    metadata: bytes
    """Its METADATA, which installers read instead of the wheel. Source: PEP 658."""
    since: float
    """When it came, in seconds since the epoch; of two with one name the later counts."""

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return self.path.name

    @property
    def metadata_sha256(self) -> Digest:
        """Digest of the METADATA."""
        return digest_bytes(self.metadata)


def read_indexed(path: Path, *, sha256: Digest | None = None) -> IndexedWheel:
    """Return a wheel as an index shows it.

    :param sha256: Its digest, if that is known.
    :raises VerifyError: if it is no wheel, or its name says something else than its METADATA.
    """
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
    from packaging.version import InvalidVersion, Version

    try:
        project, version, _, _ = parse_wheel_filename(path.name)
        metadata = _metadata(path)
        headers = BytesHeaderParser().parsebytes(metadata)
        stated = Version(str(headers["Version"]))
        stat = path.stat()
        digest = sha256 or digest_file(path)
    except (InvalidWheelFilename, InvalidVersion, ValueError, NotImplementedError) as error:
        raise _unfit(path, str(error)) from error
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise _unfit(path, f"it cannot be read: {error}") from error
    if canonicalize_name(str(headers["Name"])) != project or stated != version:
        raise _unfit(path, f"METADATA says {headers['Name']} {headers['Version']}")
    return IndexedWheel(
        path=path,
        project=str(project),
        version=str(version),
        sha256=digest,
        size_bytes=stat.st_size,
        requires_python=" ".join(str(headers["Requires-Python"] or "").split()),
        metadata=metadata,
        since=stat.st_mtime,
    )


def cached_wheels(entries: Sequence[StoredEntry], kit: Kit) -> tuple[IndexedWheel, ...]:
    """Return wheels of the cache after comparing their digests; they are held from now on.

    What is damaged or gone is told and left out.
    """
    kit.holds.hold(kit.paths.wheels)
    found = []
    for entry in entries:
        note = entry.note
        if look_up(kit.paths, note.recipe, note.key) is None:
            kit.events.warning(f"{note.wheel} is damaged or gone, and is left out.")
        else:
            found.append(read_indexed(entry.wheel, sha256=note.sha256))
    return unique(found, kit.events.warning)


def folder_wheels(folders: Sequence[Path]) -> tuple[IndexedWheel, ...]:
    """Return the wheels of directories.

    :raises RequestError: if one is no directory, or there is no wheel.
    :raises VerifyError: if wheels are not sound; all of them are named.
    """
    found, issues = [], []
    for folder in folders:
        require_folder(folder)
        for path in _wheels_in(folder):
            try:
                found.append(read_indexed(path))
            except VerifyError as error:
                issues.append(error.what)
    if issues:
        raise VerifyError(
            "\n".join(issues), remedy="Build or fetch them again, or move them elsewhere."
        )
    if not found:
        raise RequestError(
            f"Found no wheel in {', '.join(map(str, folders))}.",
            where=Location(file="command line", key="--wheels"),
            remedy="Give a directory with .whl files.",
        )
    return unique(found, _refuse_double)


def require_folder(folder: Path) -> None:
    """Refuse what is no directory.

    :raises RequestError: naming it.
    """
    if not folder.is_dir():
        raise RequestError(
            f"Found {str(folder)!r}, allowed a directory of wheels.",
            where=Location(file="command line"),
            remedy="Make it, or correct the path.",
        )


def unique(wheels: Sequence[IndexedWheel], told: Callable[[str], None]) -> tuple[IndexedWheel, ...]:
    """Return one wheel per file name, the latest; an index cannot hold two.

    :param told: Called with a sentence when two of one name differ.
    """
    found: dict[str, IndexedWheel] = {}
    for wheel in sorted(wheels, key=lambda wheel: (wheel.since, wheel.sha256)):
        known = found.get(wheel.filename)
        if known is not None and known.sha256 != wheel.sha256:
            told(
                f"Two different wheels are named {wheel.filename}: {known.path.parent} and"
                f" {wheel.path.parent}; the later one is taken."
            )
        if known is None or known.sha256 != wheel.sha256:
            found[wheel.filename] = wheel
    return tuple(sorted(found.values(), key=lambda wheel: (wheel.project, wheel.filename)))


def by_project(wheels: Sequence[IndexedWheel]) -> dict[str, list[IndexedWheel]]:
    """Return wheels by normalised name of their project, both sorted."""
    found: dict[str, list[IndexedWheel]] = {}
    for wheel in sorted(wheels, key=lambda wheel: (wheel.project, wheel.filename)):
        found.setdefault(wheel.project, []).append(wheel)
    return found


class Stock(Protocol):
    """Where a server takes its wheels from."""

    def wheels(self) -> tuple[IndexedWheel, ...]:
        """Return what there is now."""

    def note_use(self, wheel: IndexedWheel) -> None:
        """Note that somebody fetched a wheel."""


class CacheStock:
    """The wheels of the cache at the moment, for a server that stays."""

    def __init__(self, paths: Paths, told: Callable[[str], None]) -> None:
        self._paths = paths
        self._memory = _Memory(told)

    def wheels(self) -> tuple[IndexedWheel, ...]:
        """Return what there is now."""
        entries = list_entries(self._paths)
        return self._memory.wheels([(entry.wheel, entry.note.sha256) for entry in entries])

    def note_use(self, wheel: IndexedWheel) -> None:
        """Count it as a use of the entry."""
        uses = Holds()
        uses.hold(wheel.path.parent)
        uses.release()


class FolderStock:
    """The wheels of a directory at the moment, for a server that stays."""

    def __init__(self, folder: Path, told: Callable[[str], None]) -> None:
        self._folder = folder
        self._memory = _Memory(told)

    def wheels(self) -> tuple[IndexedWheel, ...]:
        """Return what there is now."""
        return self._memory.wheels([(path, None) for path in _wheels_in(self._folder)])

    def note_use(self, wheel: IndexedWheel) -> None:
        """Do nothing: the directory is somebody's own."""


class _Memory:
    """Reads a wheel once as long as its file stays the same; tells of a bad one once."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self._known: dict[tuple[Path, int, int, int], IndexedWheel | None] = {}
        self._said: set[str] = set()

    def wheels(self, files: Sequence[tuple[Path, Digest | None]]) -> tuple[IndexedWheel, ...]:
        now = {}
        for path, sha256 in files:
            try:
                stat = path.stat()
            except OSError:
                continue  # gone since it was listed
            stamp = (path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
            now[stamp] = self._known[stamp] if stamp in self._known else self._read(path, sha256)
        self._known = now
        return unique([wheel for wheel in now.values() if wheel is not None], self._say)

    def _read(self, path: Path, sha256: Digest | None) -> IndexedWheel | None:
        try:
            return read_indexed(path, sha256=sha256)
        except VerifyError as error:
            self._say(error.what)
            return None

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._told(text)


def _wheels_in(folder: Path) -> Iterator[Path]:
    """Yield the wheels that lie in a directory, or where an index in it keeps its copies."""
    for pattern in ("*.whl", "wheels/*/*.whl"):
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not path.name.startswith("."):
                yield path


def _metadata(path: Path) -> bytes:
    """Return the METADATA of a wheel.

    :raises ValueError: if there is not exactly one, or it is too large.
    """
    with zipfile.ZipFile(path) as wheel:
        found = [
            member
            for member in wheel.infolist()
            if member.filename.endswith(".dist-info/METADATA") and member.filename.count("/") == 1
        ]
        if len(found) != 1:
            raise ValueError(f"it holds {len(found)} METADATA files, allowed 1")
        with wheel.open(found[0]) as stream:
            data = stream.read(MAX_METADATA_BYTES + 1)
    if len(data) > MAX_METADATA_BYTES:
        raise ValueError(f"its METADATA is larger than {MAX_METADATA_BYTES} bytes")
    return data


def _unfit(path: Path, reason: str) -> VerifyError:
    return VerifyError(
        f"{path} does not fit an index: {reason.rstrip('.')}.",
        where=Location(file=str(path)),
        remedy="Build or fetch it again, or move it elsewhere.",
    )


def _refuse_double(told: str) -> None:
    raise JobError(told.replace("; the later one is taken", ""), remedy="Remove one of them.")
