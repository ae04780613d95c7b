"""A tree is put where the build wants it, rewriting only what changed.

Build tools compare times: a file that is the same as before keeps its own, so that a changed patch
recompiles only what it touches. What the build itself wrote into the tree is left alone; a list
beside the tree names what was put there, so that files that are gone from the source go too.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from buildkit.digest import digest_file
from buildkit.errors import SourceError
from buildkit.fs import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_as_placed", "place_tree"]


def place_tree(tree: Path, destination: Path) -> None:
    """Make a directory hold what a tree holds.

    :param tree: Its ``.git`` directories are left out.
    :raises SourceError: if the directory cannot be written.
    """
    try:
        destination.mkdir(parents=True, exist_ok=True)
        placed = {}
        for source in sorted(tree.rglob("*")):
            name = source.relative_to(tree).as_posix()
            if ".git" in name.split("/"):
                continue
            if source.is_symlink() or source.is_file():
                placed[name] = _place(source, destination / name)
            else:
                _clear(destination / name, keeps_directory=True)
                (destination / name).mkdir(exist_ok=True)
        for name in _read(destination).keys() - placed.keys():
            # A directory of the old tree may be a file of the new one, and the other way round.
            with suppress(NotADirectoryError, IsADirectoryError):
                (destination / name).unlink(missing_ok=True)
        write_atomic(_list_of(destination), json.dumps(placed).encode())
    except OSError as error:
        raise SourceError(
            f"The source cannot be placed in {destination}: {error.strerror or error}.",
            remedy="Free some space, or point BUILDKIT_CACHE to another disk.",
        ) from error


def is_as_placed(destination: Path) -> bool:
    """Tell whether every file that was placed is still what it was."""
    return all(
        _fingerprint(destination / name) == known for name, known in _read(destination).items()
    )


def _place(source: Path, place: Path) -> str:
    fingerprint = _fingerprint(source)
    if _fingerprint(place) != fingerprint:
        _clear(place, keeps_directory=False)
        if source.is_symlink():
            place.symlink_to(source.readlink())
        else:
            shutil.copyfile(source, place)
            place.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    return fingerprint


def _clear(place: Path, *, keeps_directory: bool) -> None:
    """Remove what stands where something else has to go."""
    if place.is_dir() and not place.is_symlink():
        if not keeps_directory:
            shutil.rmtree(place)
    elif place.is_symlink() or place.exists():
        place.unlink()


def _fingerprint(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return ""
    kind = "exec" if path.stat().st_mode & 0o100 else "file"
    return f"{kind} {digest_file(path)}"


def _list_of(destination: Path) -> Path:
    return destination.with_name(f"{destination.name}.placed")


def _read(destination: Path) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(_list_of(destination).read_bytes())
    except (OSError, ValueError):
        return {}
    return known
