"""What a recipe says of a source becomes what is known of it here. No network.

A pinned source is known by its digest or commit; a directory on this machine by a fingerprint.
Where the recipe holds no pin yet, the result says so and why.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from buildkit.digest import Digest, digest_bytes, digest_file, digest_tree, digest_value
from buildkit.errors import Location, RecipeError
from buildkit.fs import write_atomic
from buildkit.recipe.model import (
    ArchiveSource,
    BundledSource,
    GitSource,
    LocalSource,
    PypiSource,
    Recipe,
    Source,
)
from buildkit.values import LocalTree, PinnedArchive, PinnedCommit, ResolvedSource, Unpinned

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["resolve_source"]

#: Directories that are no part of a source tree.
SKIPPED = (".git", ".hg", ".svn", "__pycache__")


def resolve_source(
    source: Source, *, recipe: Recipe, version: str, recipe_file: Path, name: str, memo: Path
) -> ResolvedSource:
    """Return what is known of a source.

    :param name: The source's own name in the recipe; empty for the main one.
    :param memo: Directory in which digests of local archives are remembered.
    :raises RecipeError: if a directory or archive on this machine does not exist.
    """
    match source:
        case PypiSource():
            return _pypi(source, source.project or recipe.project or recipe.name, version)
        case GitSource():
            return _git(source)
        case ArchiveSource():
            return _archive(source, name or recipe.name, version)
        case LocalSource():
            return _local(source, recipe_file, memo)
        case BundledSource():
            path = _existing(recipe_file.parent / source.path, recipe_file)
            return LocalTree(
                path=path,
                fingerprint=digest_tree(path),
                method="content",
                subdirectory=source.subdirectory,
            )
        case _:
            assert_never(source)


def _pypi(source: PypiSource, project: str, version: str) -> ResolvedSource:
    if not source.sha256 or not source.filename:
        return Unpinned(
            description=f"{project} {version} of the package index",
            reason="the recipe holds no file name and sha256 for it",
        )
    return PinnedArchive(
        kind="wheel" if source.filename.endswith(".whl") else "sdist",
        name=project,
        version=version,
        filename=source.filename,
        url=None,
        sha256=Digest(source.sha256),
        subdirectory=source.subdirectory,
    )


def _git(source: GitSource) -> ResolvedSource:
    if not source.commit:
        return Unpinned(
            description=f"{source.url} at {source.ref or 'HEAD'}",
            reason="the recipe holds no commit for it",
        )
    return PinnedCommit(
        url=source.url,
        commit=source.commit,
        ref=source.ref,
        subdirectory=source.subdirectory,
        has_submodules=source.submodules,
    )


def _archive(source: ArchiveSource, name: str, version: str) -> ResolvedSource:
    if not source.sha256:
        return Unpinned(description=source.url, reason="the recipe holds no sha256 for it")
    return PinnedArchive(
        kind="archive",
        name=name,
        version=version,
        filename=source.url.rstrip("/").rsplit("/", 1)[-1].partition("?")[0],
        url=source.url,
        sha256=Digest(source.sha256),
        subdirectory=source.subdirectory,
    )


def _local(source: LocalSource, recipe_file: Path, memo: Path) -> LocalTree:
    path = _existing(recipe_file.parent / source.path, recipe_file)
    if path.is_dir():
        return LocalTree(
            path=path,
            fingerprint=_stat_index(path),
            method="stat",
            subdirectory=source.subdirectory,
        )
    return LocalTree(
        path=path,
        fingerprint=_remembered_digest(path, memo),
        method="content",
        subdirectory=source.subdirectory,
    )


def _existing(path: Path, recipe_file: Path) -> Path:
    if not path.exists():
        raise RecipeError(
            f"The source {path} does not exist.",
            where=Location(file=str(recipe_file), key="source.path"),
            remedy="Correct the path; it is relative to the recipe file.",
        )
    return path.resolve()


def _stat_index(root: Path) -> Digest:
    """Return a fingerprint that changes whenever a file is written: no byte of it is read."""
    rows = []
    for path in _walk(root):
        stat = path.lstat()
        name = path.relative_to(root).as_posix()
        rows.append([name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    return digest_value(sorted(rows))


def _walk(folder: Path) -> Iterator[Path]:
    import os

    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                yield Path(entry.path)


def _remembered_digest(file: Path, memo: Path) -> Digest:
    """Return the digest of a file, from memory if size, times and inode are the same."""
    stat = file.stat()
    stamp = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    place = memo / f"file-{digest_bytes(str(file).encode())[:16]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(place.read_bytes())
        if known["stamp"] == stamp:
            return Digest(str(known["digest"]))
    digest = digest_file(file)
    with suppress(OSError):
        write_atomic(place, json.dumps({"stamp": stamp, "digest": digest}).encode())
    return digest
