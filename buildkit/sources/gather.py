"""What a build fetches is gathered in a mirror: wheels by their locks, archives, commits.

What enters: pins. What leaves: a file in the mirror whose bytes are those of the pin. A file that
is there already and sound is not fetched again, so that a fetch which broke off goes on.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import Digest, digest_file
from buildkit.errors import SourceError
from buildkit.fs import clone_file, write_atomic
from buildkit.paths import Paths
from buildkit.sources.fetch import fetch_archive
from buildkit.sources.git import Git
from buildkit.sources.pypi import cached_file, download, find_files
from buildkit.sources.settings import redact
from buildkit.tags import rank_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.tags import Tag

    from buildkit.kit import Supply
    from buildkit.sources.pypi import IndexFile
    from buildkit.values import LockedPackage, PinnedArchive, PinnedCommit

__all__ = ["Gatherer", "Item"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file of a mirror."""

    what: str
    """What it is for."""
    path: str
    """Relative to the mirror."""
    sha256: Digest
    size_bytes: int
    is_new: bool
    """Whether this fetch brought it."""


class Gatherer:
    """Fills one mirror."""

    def __init__(self, root: Path, digests: Mapping[str, str], supply: Supply) -> None:
        self._root = root
        self._digests = digests
        self._supply = supply
        self._paths = Paths(root)
        """A mirror keeps its downloads as a cache does."""

    def archive(self, what: str, source: PinnedArchive) -> Item:
        """Take a pinned archive into the mirror.

        :raises SourceError: if it cannot be had, or differs from its pin.
        """
        known = cached_file(self._paths, source.sha256, source.filename)
        if known is not None:
            return self._item(what, known, source.sha256, is_new=False)
        place = self._paths.download(source.sha256, source.filename)
        clone_file(fetch_archive(source, self._supply), place)
        return self._item(what, place, source.sha256, is_new=True)

    def commit(self, what: str, source: PinnedCommit) -> list[Item]:
        """Take a pinned commit into the mirror, and those of its submodules.

        :raises SourceError: if it cannot be had.
        """
        if not source.has_submodules and (known := self._stated(f"git/{source.commit}.pack")):
            return [self._item(what, known, digest_file(known), is_new=False)]
        git = Git(self._supply)
        with tempfile.TemporaryDirectory(prefix="buildkit-git-") as folder:
            tree = Path(folder) / "tree"
            # Written out once: only so is it known that nothing of it is missing.
            git.export(
                source.url,
                source.commit,
                tree,
                has_submodules=source.has_submodules,
                ref=source.ref,
            )
        items = []
        for url, commit in dict.fromkeys(git.exported):
            name = f"git/{commit}.pack"
            known = self._stated(name)
            if known is None:
                git.pack(url, commit, self._root / name)
            place = self._root / name
            told = what if commit == source.commit else f"{what}, submodule {redact(url)}"
            items.append(self._item(told, place, digest_file(place), is_new=known is None))
        return items

    def lock(self, what: str, name: str, text: str) -> Item:
        """Take a lock of a user's own into the mirror."""
        place = self._root / "locks" / f"{name}.lock"
        data = text.encode()
        is_new = not place.is_file() or place.read_bytes() != data
        if is_new:
            write_atomic(place, data)
        return self._item(what, place, digest_file(place), is_new=is_new)

    def wheel(self, what: str, package: LockedPackage, known: Mapping[Tag, int]) -> Item:
        """Take the wheel of a locked package into the mirror, the one that an installer takes.

        :raises SourceError: if the index has none that the lock allows and the interpreter takes.
        """
        for sha256 in sorted(package.digests):
            folder = self._paths.downloads / sha256[:2] / sha256
            for place in sorted(folder.glob("[!.]*.whl")):
                if rank_of(place.name, known) is not None:
                    sound = cached_file(self._paths, Digest(sha256), place.name)
                    if sound is not None:
                        return self._item(what, sound, Digest(sha256), is_new=False)
        chosen = self._choose(package, known)
        self._supply.events.step("fetch", chosen.filename)
        inside = replace(self._supply, paths=self._paths)
        place, digest = download(chosen.url, chosen.filename, chosen.sha256, inside)
        if digest not in package.digests:
            place.unlink()
            raise SourceError(
                f"{chosen.filename} differs from its lock: found sha256 {digest}.",
                remedy="See what the index serves; a lock is written anew by `buildkit pin`.",
            )
        return self._item(what, place, digest, is_new=True)

    def _choose(self, package: LockedPackage, known: Mapping[Tag, int]) -> IndexFile:
        files = [
            file
            for file in find_files(package.name, self._supply.settings)
            if file.sha256 is None or file.sha256 in package.digests
        ]
        fitting = [
            (place, file.filename, file)
            for file in files
            if (place := rank_of(file.filename, known)) is not None
            and file.filename.split("-")[1] == package.version
        ]
        if not fitting:
            listed = ", ".join(sorted({file.filename for file in files})[:8]) or "nothing"
            raise SourceError(
                f"No wheel of {package.name} {package.version} that the lock allows serves the"
                f" interpreter; the index holds {listed}.",
                remedy="Name another --python or --machine; a source distribution is not mirrored.",
            )
        return min(fitting, key=lambda row: row[:2])[2]

    def _stated(self, name: str) -> Path | None:
        """Return a file that the manifest names, if it is there and sound."""
        place = self._root / name
        with suppress(OSError):
            if name in self._digests and digest_file(place) == self._digests[name]:
                return place
        return None

    def _item(self, what: str, place: Path, sha256: Digest, *, is_new: bool) -> Item:
        return Item(
            what=what,
            path=place.relative_to(self._root).as_posix(),
            sha256=sha256,
            size_bytes=place.stat().st_size,
            is_new=is_new,
        )
