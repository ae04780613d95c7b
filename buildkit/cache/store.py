"""The store of verified wheels, by key.

What enters: a verified wheel and the key fields of its plan. What leaves: a cache entry whose
wheel has just been checked against its digest. One directory per entry, which appears by a rename
and so is whole or absent; a damaged one is set aside and never served.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.cache.note import ENTRY, is_key, note_of, parse_note, render_note
from buildkit.digest import Digest, digest_file
from buildkit.errors import CacheError
from buildkit.fs import clone_file, staged_directory
from buildkit.holds import last_used
from buildkit.values import CacheEntry, KeyField

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from buildkit.cache.note import EntryNote
    from buildkit.holds import Holds
    from buildkit.paths import Paths
    from buildkit.values import Plan, VerifiedWheel

__all__ = [
    "StoredEntry",
    "add_entry",
    "check_entry",
    "entry_folders",
    "list_entries",
    "look_up",
    "nearest_fields",
    "require_access",
    "require_cache",
    "set_aside",
    "store_wheel",
    "stored_entry",
    "stored_fields",
    "unusable",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """A cached wheel as a list shows it; its wheel was not read."""

    note: EntryNote
    folder: Path
    size_bytes: int
    stored_seconds: float
    """When it was stored, since the epoch."""
    used_seconds: float
    """When it was used last, since the epoch."""

    @property
    def wheel(self) -> Path:
        """The wheel's file."""
        return self.folder / self.note.wheel


def look_up(
    paths: Paths, recipe: str, key: Digest, holds: Holds | None = None
) -> CacheEntry | None:
    """Return the entry for a key, or None.

    An entry whose wheel is missing or differs from its digest is set aside, so that the wheel is
    built again.

    :param holds: Of a caller who goes on to use the wheel: it is not collected meanwhile.
    :raises CacheError: if the cache cannot be read, or a damaged entry cannot be moved.
    """
    folder = _folder(paths, recipe, key)
    if not folder.exists():
        return None
    if holds is not None:
        holds.hold(folder)
    try:
        note = check_entry(folder)
    except ValueError:
        set_aside(paths, folder)
        return None
    except FileNotFoundError:
        return None  # set aside or collected while we looked
    except OSError as error:
        raise unusable(paths, error) from error
    return _entry(folder, note)


def check_entry(folder: Path) -> EntryNote:
    """Return the note of an entry whose wheel has the digest that it says.

    :raises ValueError: with the reason, if the entry is damaged.
    :raises OSError: if it cannot be read, or is gone.
    """
    try:
        note = parse_note(folder.parent.name, folder.name, (folder / ENTRY).read_bytes())
        found = digest_file(folder / note.wheel)
    except FileNotFoundError as error:
        if not folder.exists():
            raise
        raise ValueError(f"{error.filename} is missing") from error
    if found != note.sha256:
        raise ValueError(f"{note.wheel} has sha256 {found}, allowed {note.sha256}")
    return note


def store_wheel(
    paths: Paths, plan: Plan, wheel: VerifiedWheel, holds: Holds | None = None
) -> CacheEntry:
    """Store a verified wheel under the key of its plan; the first of two writers wins.

    :returns: The entry that is in the cache now, which may be the one of another writer.
    :raises CacheError: if the cache cannot be written; nothing of the entry is left then.
    """
    return add_entry(
        paths, note_of(plan, wheel), lambda place: clone_file(wheel.path, place), holds
    )


def add_entry(
    paths: Paths, note: EntryNote, write: Callable[[Path], None], holds: Holds | None = None
) -> CacheEntry:
    """Add an entry unless a sound one is there.

    :param write: Writes the wheel to a path; what it raises leaves the cache as it was.
    :raises CacheError: if the cache cannot be written, or what was written differs from the note.
    """
    folder = _folder(paths, note.recipe, note.key)
    if holds is not None:
        holds.hold(folder)
    known = look_up(paths, note.recipe, note.key)
    if known is not None:
        return known
    try:
        with staged_directory(folder) as stage:
            write(stage / note.wheel)
            found = digest_file(stage / note.wheel)
            if found != note.sha256:
                raise CacheError(
                    f"{note.wheel} differs from its digest: found sha256 {found}, allowed"
                    f" {note.sha256}.",
                    remedy="Copy or build it again, and look at the disk and the memory.",
                )
            (stage / ENTRY).write_bytes(render_note(note))
    except OSError as error:
        raise unusable(paths, error) from error
    # Another writer may have been first, and two builds need not give the same bytes.
    return look_up(paths, note.recipe, note.key) or _entry(folder, note)


def require_access(paths: Paths, *, is_written: bool = False) -> None:
    """Refuse a cache that this user may not list, which else would look empty.

    A cache that is not there is one without entries. A full disk is no reason to refuse.

    :param is_written: Refuse one that cannot be changed, too.
    :raises CacheError: naming the directory and the reason.
    """
    try:
        os.scandir(paths.root).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unusable(paths, error) from error
    if is_written and not os.access(paths.root, os.W_OK, effective_ids=True):
        is_mounted_so = os.statvfs(paths.root).f_flag & os.ST_RDONLY
        reason = errno.EROFS if is_mounted_so else errno.EACCES
        raise unusable(paths, OSError(reason, os.strerror(reason), str(paths.root)))


def require_cache(paths: Paths) -> None:
    """Refuse to start a job when the cache cannot be written.

    :raises CacheError: naming the directory and the reason.
    """
    import tempfile

    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=paths.root):
            pass
    except OSError as error:
        raise unusable(paths, error) from error


def nearest_fields(
    paths: Paths, recipe: str, fields: tuple[KeyField, ...]
) -> tuple[KeyField, ...] | None:
    """Return the key fields of the stored entry that differs least from ``fields``, or None."""
    wanted = {field.name: field.value for field in fields}

    def distance(other: tuple[KeyField, ...]) -> tuple[int, int]:
        """Count the names that differ; of equals, one that changed is nearer than one missing."""
        known = {field.name: field.value for field in other}
        names = [name for name in wanted | known if wanted.get(name) != known.get(name)]
        return len(names), len(wanted.keys() ^ known.keys())

    found = (entry.note.fields for entry in list_entries(paths, recipe))
    return min(found, key=distance, default=None)


def stored_fields(paths: Paths, recipe: str, key: Digest) -> tuple[KeyField, ...]:
    """Return the key fields of a stored entry; none if there is no such entry."""
    entry = stored_entry(paths, recipe, key)
    return () if entry is None else entry.note.fields


def stored_entry(paths: Paths, recipe: str, key: Digest) -> StoredEntry | None:
    """Return a stored entry without reading its wheel; None if there is no such entry."""
    return _read(_folder(paths, recipe, key))


def entry_folders(paths: Paths, recipe: str = "*") -> tuple[Path, ...]:
    """Return the directories of all entries, sound or not, sorted.

    :raises CacheError: if the cache cannot be read.
    """
    require_access(paths)
    try:
        found = [path for path in paths.wheels.glob(f"{recipe}/*") if is_key(path.name)]
    except OSError as error:
        raise unusable(paths, error) from error
    return tuple(sorted(found))


def list_entries(paths: Paths, recipe: str = "*") -> tuple[StoredEntry, ...]:
    """Return the entries of a recipe, or of all; damaged ones are left to :func:`look_up`.

    :raises CacheError: if the cache cannot be read.
    """
    found = map(_read, entry_folders(paths, recipe))
    return tuple(entry for entry in found if entry is not None)


def set_aside(paths: Paths, folder: Path) -> Path | None:
    """Move a damaged entry away under the first free name, for a person to look at.

    :returns: Its new place; None when another process was first.
    :raises CacheError: if it cannot be moved.
    """
    try:
        paths.damaged.mkdir(parents=True, exist_ok=True)
        number = 1
        while (place := paths.damaged / f"{folder.parent.name}-{folder.name}.{number}").exists():
            number += 1
        folder.rename(place)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(paths, error) from error
    return place


def unusable(paths: Paths, error: OSError) -> CacheError:
    """Return the error for a cache that the system does not let us use."""
    return CacheError(
        f"Cache {paths.root}: {error.strerror or error} ({error.filename or paths.wheels}).",
        remedy="Make it readable and writable, free some space, or point BUILDKIT_CACHE to another"
        " directory.",
    )


def _folder(paths: Paths, recipe: str, key: Digest) -> Path:
    return paths.wheels / recipe / key


def _entry(folder: Path, note: EntryNote) -> CacheEntry:
    return CacheEntry(
        key=note.key,
        wheel=folder / note.wheel,
        sha256=note.sha256,
        verdict=note.verdict,
        targets=note.targets,
        origin=note.origin,
    )


def _read(folder: Path) -> StoredEntry | None:
    """Return an entry without reading its wheel; None if it is damaged or gone."""
    with suppress(OSError, ValueError):
        file = folder / ENTRY
        note = parse_note(folder.parent.name, folder.name, file.read_bytes())
        return StoredEntry(
            note=note,
            folder=folder,
            size_bytes=(folder / note.wheel).stat().st_size,
            stored_seconds=file.stat().st_mtime,
            used_seconds=last_used(folder),
        )
    return None
