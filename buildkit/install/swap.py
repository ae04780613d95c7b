"""The change of an environment: all of it or nothing, also when the power fails half-way.

New files lie staged inside the environment before anything is touched, so that a change is nothing
but renames. The journal is written first: with it, what was begun is taken back; without it, the
stage is rubbish. Removing the journal is the moment at which a change counts.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.errors import JobError, Location
from buildkit.fs import remove_tree, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from buildkit.install.place import Place, Present

__all__ = ["Stage", "files_of", "open_stage", "restore_interrupted"]

_PREFIX = ".buildkit-install-"

#: Of uv in the directory that it is told to install into.
_NOT_OURS = {".lock", ".gitignore", "CACHEDIR.TAG"}


class Stage:
    """A directory inside an environment, from which and into which its files move."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.parent
        self._folder = folder
        self._journal = folder / "journal.json"
        self._old = folder / "old"
        self.new = folder / "new"
        """Filled by the installer as if it was the environment."""

    def swap(self, removed: Iterable[Path]) -> None:
        """Move files out, and everything that is staged in; :meth:`keep` or :meth:`undo` it.

        :param removed: Absolute paths of files of the environment.
        :raises OSError: if a file cannot be moved.
        """
        placed = [
            str(file.relative_to(self.new))
            for file in _walk(self.new)
            if file.parent != self.new or file.name not in _NOT_OURS
        ]
        parents = {parent for name in placed for parent in (self._root / name).parents}
        folders = sorted(
            str(folder.relative_to(self._root)) for folder in parents if not folder.exists()
        )
        document = {"files": placed, "folders": folders}
        write_atomic(self._journal, json.dumps(document).encode())
        for file in removed:
            if file.is_symlink() or file.exists():
                _move(file, self._old / file.relative_to(self._root))
        for name in placed:
            target = self._root / name
            if target.is_symlink() or target.exists():
                # Of another distribution, which brings a file of the same name.
                _move(target, self._old / name)
            _move(self.new / name, target)

    def keep(self) -> None:
        """Make the change count."""
        self._journal.unlink(missing_ok=True)
        _prune(self._root / file.relative_to(self._old) for file in _walk(self._old))
        self.close()

    def undo(self) -> None:
        """Take back what was moved; does nothing before a swap was begun.

        :raises OSError: if a file cannot be moved back; the stage stays, for the next attempt.
        """
        if self._journal.is_file():
            begun: dict[str, list[str]] = json.loads(self._journal.read_bytes())
            for name in begun["files"]:
                # What lies staged was not moved in, or is taken back already by an undo that was
                # killed: then what has its name is not ours.
                if not os.path.lexists(self.new / name):
                    with suppress(FileNotFoundError):
                        _move(self._root / name, self.new / name)
            for file in _walk(self._old):
                _move(file, self._root / file.relative_to(self._old))
            for folder in reversed(begun["folders"]):
                with suppress(OSError):
                    (self._root / folder).rmdir()
            self._journal.unlink()
        self.close()

    def close(self) -> None:
        """Remove the stage."""
        remove_tree(self._folder)


def open_stage(place: Place) -> Stage:
    """Return an empty stage in an environment."""
    return Stage(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place.root)))


def restore_interrupted(place: Place) -> bool:
    """Take back what a killed installation has begun.

    :returns: Whether there was any.
    :raises JobError: if that cannot be done.
    """
    found = sorted(place.root.glob(f"{_PREFIX}*"))
    for folder in found:
        try:
            Stage(folder).undo()
        except (OSError, ValueError) as error:
            raise JobError(
                f"What a killed installation has begun cannot be taken back: {error}.",
                where=Location(file=str(folder)),
                remedy="Make the environment writable and try again, or make it anew.",
            ) from error
    return bool(found)


def files_of(present: Present, place: Place) -> Iterator[Path]:
    """Yield the files of a distribution, with the byte code that belongs to them.

    :raises JobError: if it does not say which files are its own.
    """
    files = present.record.files
    # Eggs have lists too, of sources and not of what was installed.
    if files is None or not present.record.read_text("RECORD"):
        raise JobError(
            f"{present.name} {present.version} has no list of its files, so that it cannot be"
            " replaced.",
            where=Location(file=str(place.root)),
            remedy="Uninstall it with what installed it, and try again.",
        )
    root = place.root.resolve()
    for entry in files:
        # Not resolved to the end: a link is itself the file.
        named = Path(os.path.normpath(str(entry.locate())))
        file = named.parent.resolve() / named.name
        if not file.is_relative_to(root):
            continue
        yield place.root / file.relative_to(root)
        if file.suffix == ".py":
            for code in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
                yield place.root / code.relative_to(root)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield files and links below a directory; a link to a directory counts as a file."""
    if not folder.is_dir():
        return
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        else:
            yield Path(entry.path)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _prune(files: Iterable[Path]) -> None:
    """Remove the directories that are empty now."""
    for folder in sorted({file.parent for file in files}, reverse=True):
        place = folder
        with suppress(OSError):
            while True:
                place.rmdir()
                place = place.parent
