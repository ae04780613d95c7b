"""The stories of ``cache verify``, ``export`` and ``import``: wheels between caches.

An exported entry is a directory ``RECIPE/KEY`` with the wheel and ``entry.json``, below a directory
or in a tar archive. What is imported is believed in nothing: the key must be the digest of its key
fields, the wheel must have its digest, agree with its own RECORD, and name the same key.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from buildkit.cache.note import ENTRY, MAX_NOTE_BYTES, is_key, is_recipe, parse_note, render_note
from buildkit.cache.store import (
    add_entry,
    check_entry,
    entry_folders,
    list_entries,
    look_up,
    require_cache,
    set_aside,
    unusable,
)
from buildkit.digest import digest_file
from buildkit.errors import BuildkitError, CacheError, Location, RequestError, VerifyError
from buildkit.fs import clone_file, staged_directory, staged_file, write_atomic
from buildkit.sharing import require_sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from buildkit.cache.store import StoredEntry
    from buildkit.kit import Kit
    from buildkit.paths import Paths

__all__ = ["Checked", "Imported", "check_cache", "export_entries", "import_entries", "select"]

#: First file of an archive: what it should hold, so that one that was cut off between two entries
#: is not taken for whole.
_CONTENTS = "export.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of one thing in the cache when it was read again."""

    name: str
    issue: str
    """Empty: it is sound."""
    moved: Path | None = None
    """Where a damaged one lies now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one entry of an export."""

    name: str
    """Recipe and key."""
    state: str
    """``imported``, ``already here`` or ``refused``."""
    reason: str = ""


def select(paths: Paths, recipe: str | None, key: str | None) -> tuple[StoredEntry, ...]:
    """Return the entries of a recipe whose key begins with a text; None means all.

    :raises RequestError: if there is none.
    """
    found = [
        entry
        for entry in list_entries(paths)
        if recipe in (None, entry.note.recipe) and entry.note.key.startswith(key or "")
    ]
    if not found:
        wanted = " ".join(word for word in (recipe, f"with key {key}" if key else "") if word)
        raise RequestError(
            f"The cache holds no wheel{f' of {wanted}' if wanted else ''}.",
            where=Location(file="command line"),
            remedy="`buildkit cache list` shows what there is.",
        )
    return tuple(found)


# --- verify ---------------------------------------------------------------------------------------


def check_cache(kit: Kit) -> Iterator[Checked]:
    """Read every wheel and download again, and set aside what is damaged."""
    kit.holds.hold(kit.paths.wheels)
    for folder in entry_folders(kit.paths):
        name = f"{folder.parent.name} {folder.name}"
        try:
            note = check_entry(folder)
            require_sound(note, folder / note.wheel)
        except FileNotFoundError:
            continue  # collected meanwhile
        except (ValueError, BuildkitError) as error:
            moved = set_aside(kit.paths, folder)
            yield Checked(name=name, issue=_reason(error), moved=moved)
        except OSError as error:
            raise unusable(kit.paths, error) from error
        else:
            yield Checked(name=name, issue="")
    yield from _check_downloads(kit.paths)


def _check_downloads(paths: Paths) -> Iterator[Checked]:
    for file in sorted(paths.downloads.glob("??/*/*")):
        allowed = file.parent.name
        if not is_key(allowed):
            continue
        try:
            found = digest_file(file)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unusable(paths, error) from error
        if found == allowed:
            yield Checked(name=f"download {file.name}", issue="")
            continue
        file.unlink(missing_ok=True)
        issue = f"it had sha256 {found}, allowed {allowed}, and was removed"
        yield Checked(name=f"download {file.name}", issue=issue)


# --- export ---------------------------------------------------------------------------------------


def export_entries(entries: Sequence[StoredEntry], destination: Path, kit: Kit) -> tuple[int, int]:
    """Write entries into a directory, or into a tar archive if the path ends in ``.tar``.

    A directory is added to; entries that it has stay. An archive is written whole or not at all.

    :returns: Entries that were written, and entries that were there already.
    :raises CacheError: if it cannot be written, or an entry is damaged.
    """
    is_archive = destination.suffix == ".tar"
    if (is_archive and destination.is_dir()) or (not is_archive and destination.is_file()):
        raise RequestError(
            f"Found {destination}, allowed a directory or a file that ends in .tar.",
            where=Location(file="command line"),
            remedy="Give another path.",
        )
    kit.holds.hold(kit.paths.wheels)
    sound = [entry for entry in entries if _is_sound(entry, kit)]
    try:
        if is_archive:
            _write_archive(sound, destination)
            return len(sound), 0
        written = [_write_folder(entry, destination) for entry in sound]
    except OSError as error:
        raise CacheError(
            f"The export cannot be written: {error.strerror or error}.",
            where=Location(file=str(destination)),
            remedy="Free some space, or give another path.",
        ) from error
    return sum(written), len(written) - sum(written)


def _is_sound(entry: StoredEntry, kit: Kit) -> bool:
    """Check an entry; a damaged one is set aside and told."""
    if look_up(kit.paths, entry.note.recipe, entry.note.key) is not None:
        return True
    kit.events.warning(f"{entry.note.wheel} is damaged or gone, and is left out.")
    return False


def _write_archive(entries: Sequence[StoredEntry], destination: Path) -> None:
    """Write a tar archive; equal entries give equal bytes."""
    import io

    names = [f"{entry.note.recipe}/{entry.note.key}" for entry in entries]
    contents = json.dumps({"format": 1, "entries": names}, indent=1).encode()
    with (
        staged_file(destination) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.addfile(_member(_CONTENTS, len(contents)), io.BytesIO(contents))
        for entry, folder in zip(entries, names, strict=True):
            data = render_note(entry.note.travelling)
            tar.addfile(_member(f"{folder}/{ENTRY}", len(data)), io.BytesIO(data))
            with entry.wheel.open("rb") as wheel:
                size = entry.wheel.stat().st_size
                tar.addfile(_member(f"{folder}/{entry.note.wheel}", size), wheel)


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size_bytes
    member.mode = 0o644
    return member


def _write_folder(entry: StoredEntry, destination: Path) -> bool:
    folder = destination / entry.note.recipe / entry.note.key
    if folder.is_dir():
        return False
    with staged_directory(folder) as stage:
        clone_file(entry.wheel, stage / entry.note.wheel)
        write_atomic(stage / ENTRY, render_note(entry.note.travelling))
    return True


# --- import ---------------------------------------------------------------------------------------


class _Parcels(Protocol):
    """An export, wherever it lies."""

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield recipe and key of each entry."""

    def open(self, recipe: str, key: str, name: str) -> IO[bytes]:
        """Return a file of an entry.

        :raises ValueError: if there is no such file.
        """


def import_entries(source: Path, kit: Kit) -> Iterator[Imported]:
    """Take the entries of an export into the cache, each whole or not at all.

    :raises RequestError: if there is no such export.
    :raises CacheError: if it cannot be read, or the cache cannot be written.
    """
    require_cache(kit.paths)
    kit.holds.hold(kit.paths.wheels)
    with _opened(source) as parcels:
        names = sorted(set(parcels.names()))
        if not names:
            raise CacheError(
                "Found no entry, allowed RECIPE/KEY/entry.json as `buildkit cache export` writes.",
                where=Location(file=str(source)),
                remedy="Give the directory or the archive that the export wrote.",
            )
        for recipe, key in names:
            name = f"{recipe} {key}"
            try:
                is_new = _import(parcels, recipe, key, kit)
            except (ValueError, VerifyError, tarfile.TarError, EOFError) as error:
                yield Imported(name=name, state="refused", reason=_reason(error))
            else:
                yield Imported(name=name, state="imported" if is_new else "already here")


def _import(parcels: _Parcels, recipe: str, key: str, kit: Kit) -> bool:
    """Take one entry; return whether it is new.

    :raises ValueError: if it does not agree with itself.
    """
    with parcels.open(recipe, key, ENTRY) as stream:
        data = stream.read(MAX_NOTE_BYTES + 1)
    if len(data) > MAX_NOTE_BYTES:
        raise ValueError(f"{ENTRY} is larger than {MAX_NOTE_BYTES} bytes")
    note = parse_note(recipe, key, data).travelling
    if look_up(kit.paths, recipe, note.key) is not None:
        return False

    def write(place: Path) -> None:
        with parcels.open(recipe, key, note.wheel) as stream, place.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        found = digest_file(place)
        if found != note.sha256:
            raise VerifyError(f"{note.wheel} has sha256 {found}, allowed {note.sha256}.")
        require_sound(note, place)

    add_entry(kit.paths, note, write)
    return True


@contextmanager
def _opened(source: Path) -> Iterator[_Parcels]:
    if source.is_dir():
        yield _Folder(source)
        return
    if not source.is_file():
        raise RequestError(
            f"There is no export {source}.",
            where=Location(file="command line"),
            remedy="Give the directory or the archive that `buildkit cache export` wrote.",
        )
    try:
        with tarfile.open(source) as tar:
            yield _Archive(tar)
    except (tarfile.TarError, EOFError, OSError) as error:
        reason = _reason(error)
        if "\n" in reason:  # one line for each compression that was tried
            reason = "it is no tar archive, or cut off at its start"
        raise CacheError(
            f"The export cannot be read: {reason}.",
            where=Location(file=str(source)),
            remedy="Copy it again; it may have been cut off.",
        ) from error


class _Folder:
    """An export in a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> Iterator[tuple[str, str]]:
        for file in self._root.glob(f"*/*/{ENTRY}"):
            recipe, key = file.parts[-3:-1]
            if is_recipe(recipe) and is_key(key):
                yield recipe, key

    def open(self, recipe: str, key: str, name: str) -> IO[bytes]:
        file = self._root / recipe / key / name
        if not file.is_file():
            raise ValueError(f"{name} is missing")
        return file.open("rb")


class _Archive:
    """An export in a tar archive. Nothing is unpacked by the names in it."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {member.name: member for member in tar.getmembers() if member.isfile()}

    def names(self) -> Iterator[tuple[str, str]]:
        for name in (*self._members, *self._stated()):
            parts = name.split("/")
            if len(parts) == 3 and parts[2] == ENTRY and is_recipe(parts[0]) and is_key(parts[1]):
                yield parts[0], parts[1]

    def _stated(self) -> Iterator[str]:
        """Yield the notes that the archive says to hold."""
        stream = self._tar.extractfile(_CONTENTS) if _CONTENTS in self._members else None
        if stream is not None:
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                for name in json.loads(stream.read(MAX_NOTE_BYTES))["entries"]:
                    yield f"{name}/{ENTRY}"

    def open(self, recipe: str, key: str, name: str) -> IO[bytes]:
        member = self._members.get(f"{recipe}/{key}/{name}")
        stream = None if member is None else self._tar.extractfile(member)
        if stream is None:
            raise ValueError(f"{name} is missing")
        return stream


def _reason(error: Exception) -> str:
    told = error.what if isinstance(error, BuildkitError) else str(error)
    return told.rstrip(".") or type(error).__name__
