"""The store of verified wheels, by key.

What enters: a verified wheel and the key fields of its plan. What leaves: a cache entry whose
wheel has just been checked against its digest. One directory per entry, which appears by a rename
and so is whole or absent; a damaged one is set aside and never served.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from buildkit.digest import Digest, digest_file
from buildkit.errors import CacheError
from buildkit.fs import clone_file, staged_directory
from buildkit.values import CacheEntry, KeyField

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from buildkit.paths import Paths
    from buildkit.values import Plan, VerifiedWheel

__all__ = ["look_up", "nearest_fields", "require_cache", "store_wheel", "stored_fields"]

_ENTRY = "entry.json"


def look_up(paths: Paths, recipe: str, key: Digest) -> CacheEntry | None:
    """Return the entry for a key, or None.

    An entry whose wheel is missing or differs from its digest is set aside, so that the wheel is
    built again.

    :raises CacheError: if the cache cannot be read, or a damaged entry cannot be moved.
    """
    folder = _folder(paths, recipe, key)
    try:
        document = json.loads((folder / _ENTRY).read_bytes())
    except FileNotFoundError:
        if not folder.exists():
            return None
        document = None
    except ValueError:
        document = None
    except OSError as error:
        raise _unusable(paths, error) from error
    entry = None if document is None else _decode(folder, document)
    if entry is None or not _is_sound(entry):
        _set_aside(paths, folder)
        return None
    return entry


def store_wheel(paths: Paths, plan: Plan, wheel: VerifiedWheel) -> CacheEntry:
    """Store a verified wheel under the key of its plan; the first of two writers wins.

    :raises CacheError: if the cache cannot be written; nothing of the entry is left then.
    """
    folder = _folder(paths, plan.recipe, plan.key)
    targets = sorted({name for library in wheel.gpu_code for name in library.sass})
    document = {
        "wheel": wheel.path.name,
        "sha256": wheel.sha256,
        "verdict": wheel.verdict,
        "targets": targets,
        "fields": [[field.name, field.value] for field in plan.key_fields],
    }
    try:
        with staged_directory(folder) as stage:
            clone_file(wheel.path, stage / wheel.path.name)
            (stage / _ENTRY).write_text(json.dumps(document, indent=1))
    except OSError as error:
        raise _unusable(paths, error) from error
    return CacheEntry(
        key=plan.key,
        wheel=folder / wheel.path.name,
        sha256=wheel.sha256,
        verdict=wheel.verdict,
        targets=tuple(targets),
    )


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
        raise _unusable(paths, error) from error


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

    return min(_fields_of_entries(paths, recipe), key=distance, default=None)


def stored_fields(paths: Paths, recipe: str, key: Digest) -> tuple[KeyField, ...]:
    """Return the key fields of a stored entry; none if there is no such entry."""
    return _read_fields(_folder(paths, recipe, key) / _ENTRY) or ()


def _fields_of_entries(paths: Paths, recipe: str) -> Iterator[tuple[KeyField, ...]]:
    for file in sorted((paths.wheels / recipe).glob(f"*/{_ENTRY}")):
        fields = _read_fields(file)
        if fields is not None:
            yield fields


def _read_fields(file: Path) -> tuple[KeyField, ...] | None:
    try:
        rows = json.loads(file.read_bytes())["fields"]
        return tuple(KeyField(name=str(name), value=str(value)) for name, value in rows)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # a damaged entry explains nothing; look_up deals with it


def _folder(paths: Paths, recipe: str, key: Digest) -> Path:
    return paths.wheels / recipe / key


def _decode(folder: Path, document: Any) -> CacheEntry | None:
    try:
        return CacheEntry(
            key=Digest(folder.name),
            wheel=folder / str(document["wheel"]),
            sha256=Digest(str(document["sha256"])),
            verdict=str(document["verdict"]),
            targets=tuple(str(name) for name in document["targets"]),
        )
    except (KeyError, TypeError):
        return None


def _is_sound(entry: CacheEntry) -> bool:
    try:
        return digest_file(entry.wheel) == entry.sha256
    except OSError:
        return False


def _set_aside(paths: Paths, folder: Path) -> None:
    """Move a damaged entry away under the first free name, for a person to look at."""
    graveyard = paths.wheels / "damaged"
    try:
        graveyard.mkdir(parents=True, exist_ok=True)
        number = 1
        while (place := graveyard / f"{folder.parent.name}-{folder.name}.{number}").exists():
            number += 1
        folder.rename(place)
    except FileNotFoundError:
        return  # another process was first
    except OSError as error:
        raise _unusable(paths, error) from error


def _unusable(paths: Paths, error: OSError) -> CacheError:
    return CacheError(
        f"Cache {paths.root}: {error.strerror or error} ({error.filename or paths.wheels}).",
        remedy="Make it writable, free some space, or point BUILDKIT_CACHE to another directory.",
    )
