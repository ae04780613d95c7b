"""A pinned source becomes a tree: fetched if it is not in the cache, checked, unpacked."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from buildkit.digest import Digest, digest_value
from buildkit.errors import Location, SourceError
from buildkit.fs import remove_tree
from buildkit.sources.archive import extract_archive
from buildkit.sources.pypi import cached_file, download, find_files
from buildkit.values import LocalTree, PinnedArchive, PinnedCommit, SourceTree, Unpinned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.paths import Paths
    from buildkit.run import Runner
    from buildkit.values import IndexSettings, ResolvedSource

__all__ = ["Fetcher", "fetch_archive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """What fetching needs of the outside."""

    paths: Paths
    settings: IndexSettings
    runner: Runner
    environment: Mapping[str, str]
    events: Events
    is_offline: bool

    def unpack(self, source: ResolvedSource, destination: Path) -> SourceTree:
        """Put the tree of a source into a directory, in place of what is there.

        :returns: The tree at the source's subdirectory.
        :raises SourceError: if the source cannot be had, differs from its pin, or is not safe.
        """
        remove_tree(destination)
        match source:
            case PinnedArchive():
                archive = fetch_archive(source, self)
                extract_archive(archive, destination, strips_top=source.kind != "wheel")
                stamp = Digest(source.sha256)
            case PinnedCommit():
                self._export(source, destination)
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

    def _export(self, source: PinnedCommit, destination: Path) -> None:
        from buildkit.sources.git import Git

        git = Git(
            paths=self.paths,
            runner=self.runner,
            environment=self.environment,
            events=self.events,
            is_offline=self.is_offline,
        )
        git.export(source.url, source.commit, destination, has_submodules=source.has_submodules)


def fetch_archive(source: PinnedArchive, fetcher: Fetcher) -> Path:
    """Return the file of a pinned archive, from the cache or the network.

    :raises SourceError: if it cannot be had, or differs from its pin.
    """
    known = cached_file(fetcher.paths, source.sha256, source.filename)
    if known is not None:
        return known
    if fetcher.is_offline:
        raise SourceError(
            f"{source.filename} was not fetched before.",
            remedy="Run it once without --offline.",
        )
    fetcher.events.step("fetch", source.filename)
    url = source.url or _find(source, fetcher)
    file, _ = download(
        url,
        source.filename,
        source.sha256,
        paths=fetcher.paths,
        settings=fetcher.settings,
        events=fetcher.events,
    )
    return file


def _find(source: PinnedArchive, fetcher: Fetcher) -> str:
    files = find_files(source.name, fetcher.settings)
    for file in files:
        if file.filename == source.filename:
            if file.is_yanked:
                fetcher.events.warning(f"{source.filename} was withdrawn by its publisher.")
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
        found = sorted(entry.name for entry in destination.iterdir())
        raise SourceError(
            f"The source has no directory {subdirectory!r}; it has {', '.join(found[:20])}.",
            remedy="Correct `subdirectory` in the recipe.",
        )
    return inner
