"""A pinned source becomes a tree: fetched if it is not in the cache, checked, unpacked."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, assert_never

from buildkit.digest import Digest, digest_value
from buildkit.errors import Location, SourceError
from buildkit.fs import remove_tree
from buildkit.sources.archive import extract_archive
from buildkit.sources.pypi import cached_file, download, find_files
from buildkit.values import LocalTree, PinnedArchive, PinnedCommit, SourceTree, Unpinned

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.values import ResolvedSource

__all__ = ["fetch_archive", "find_archive", "unpack_source"]


def unpack_source(source: ResolvedSource, destination: Path, supply: Supply) -> SourceTree:
    """Put the tree of a source into a directory, in place of what is there.

    :returns: The tree at the source's subdirectory.
    :raises SourceError: if the source cannot be had, differs from its pin, or is not safe.
    """
    remove_tree(destination)
    match source:
        case PinnedArchive():
            archive = fetch_archive(source, supply)
            extract_archive(archive, destination, strips_top=source.kind != "wheel")
            stamp = Digest(source.sha256)
        case PinnedCommit():
            from buildkit.sources.git import Git

            Git(supply).export(
                source.url,
                source.commit,
                destination,
                has_submodules=source.has_submodules,
                ref=source.ref,
            )
            stamp = digest_value(["git", source.commit])
        case LocalTree():
            _copy(source, destination)
            stamp = source.fingerprint
        case Unpinned():
            raise SourceError(
                f"{source.description} has no pin: {source.reason}.",
                remedy="Run `buildkit pin` for the recipe.",
            )
        case _:
            assert_never(source)
    return SourceTree(path=_inner(source, destination), stamp=stamp)


def fetch_archive(source: PinnedArchive, supply: Supply) -> Path:
    """Return the file of a pinned archive, from the cache, the mirror or the network.

    :raises SourceError: if it cannot be had, or differs from its pin.
    """
    supply.holds.hold(supply.paths.download(source.sha256, source.filename).parent)
    known = cached_file(supply.paths, source.sha256, source.filename)
    if known is not None:
        return known
    mirrored = supply.mirror and supply.mirror.file(source.sha256, source.filename)
    if mirrored:
        supply.events.step("fetch", f"{source.filename} from the mirror")
        return mirrored
    if supply.is_offline:
        raise _lacking(source, supply)
    supply.events.step("fetch", source.filename)
    url = source.url or _find(source, supply)
    file, _ = download(url, source.filename, source.sha256, supply)
    return file


def find_archive(source: PinnedArchive, supply: Supply) -> Path:
    """Do as :func:`fetch_archive`, for a caller who checks the digest while reading.

    Only a file that is in the cache already is left unchecked.

    :raises SourceError: if it cannot be had, or what is fetched differs from its pin.
    """
    place = supply.paths.download(source.sha256, source.filename)
    supply.holds.hold(place.parent)
    return place if place.is_file() else fetch_archive(source, supply)


def _lacking(source: PinnedArchive, supply: Supply) -> SourceError:
    if supply.mirror is None:
        return SourceError(
            f"{source.filename} was not fetched before.", remedy="Run it once without --offline."
        )
    return SourceError(
        f"The mirror {supply.mirror.root} lacks {source.filename} (sha256 {source.sha256}).",
        remedy="Fill it with `buildkit fetch`, where the network is.",
    )


def _find(source: PinnedArchive, supply: Supply) -> str:
    files = find_files(source.name, supply.settings)
    for file in files:
        if file.filename == source.filename:
            if file.is_yanked:
                supply.events.warning(f"{source.filename} was withdrawn by its publisher.")
            return file.url
    others = [file.filename for file in files if file.version == source.version]
    raise SourceError(
        f"The package index holds no {source.filename}; of {source.name} {source.version} it holds"
        f" {', '.join(others) or 'nothing'}.",
        remedy="Look at `pip config list`, or pin another version.",
    )


def _copy(source: LocalTree, destination: Path) -> None:
    if source.path.is_file():
        extract_archive(source.path, destination, strips_top=True)
        return
    try:
        shutil.copytree(
            source.path,
            destination,
            symlinks=True,
            ignore=shutil.ignore_patterns(".git", ".hg", ".svn", "__pycache__"),
        )
    except (OSError, shutil.Error) as error:
        raise SourceError(
            f"The source cannot be copied: {error}.",
            where=Location(file=str(source.path)),
            remedy="Free some space, or make it readable.",
        ) from error


def _inner(source: ResolvedSource, destination: Path) -> Path:
    subdirectory = "" if isinstance(source, Unpinned) else source.subdirectory
    inner = destination / subdirectory
    if not inner.is_dir():
        found = sorted(entry.name for entry in destination.iterdir()) or ["nothing"]
        raise SourceError(
            f"The source has no directory {subdirectory!r}; it has {', '.join(found[:20])}.",
            remedy="Correct `subdirectory` in the recipe.",
        )
    return inner
