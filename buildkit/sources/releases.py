"""Releases of a package on an index, and of each sdist only the files that are looked at.

Each sdist is fetched once; what was looked at is kept beside the download, so that the second look
at forty releases takes seconds.
"""

from __future__ import annotations

import json
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING

from buildkit.digest import Digest, digest_value
from buildkit.errors import Location, RequestError, SourceError
from buildkit.fs import write_atomic
from buildkit.sources.pypi import cached_file, download, find_files

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.sources.pypi import IndexFile
    from buildkit.values import IndexSettings

__all__ = ["Shelf", "find_releases"]

#: How bytes travel through JSON unharmed.
ENCODING = "latin-1"


def find_releases(package: str, versions: str, settings: IndexSettings) -> list[IndexFile]:
    """Return the sdist of each release in the range, newest first."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        allowed = SpecifierSet(versions)
    except InvalidSpecifier:
        raise RequestError(
            f"Found {versions!r}, allowed PEP 440 specifiers such as '>=0.14,<=0.33'.",
            where=Location(file="command line", key="--versions"),
            remedy="Correct it and try again.",
        ) from None
    found: dict[Version, IndexFile] = {}
    for file in find_files(package, settings):
        with suppress(InvalidVersion):
            version = Version(file.version)
            if file.filename.endswith(".tar.gz") and allowed.contains(version):
                found.setdefault(version, file)
    if not found:
        raise SourceError(
            f"The package index holds no sdist of {package} {versions}.",
            remedy="Look at `pip config list` and at the range.",
        )
    return [found[version] for version in sorted(found, reverse=True)]


class Shelf:
    """Keeps of each sdist the files that are looked at."""

    def __init__(self, supply: Supply, names: tuple[str, ...]) -> None:
        self._supply = supply
        self._names = names
        self._mark = digest_value(list(names))[:16]

    def files(self, release: IndexFile) -> dict[str, str]:
        """Return contents by name; from the shelf if the sdist is there and was read before."""
        slip = self._supply.paths.downloads / "slices" / f"{release.filename}-{self._mark}.json"
        with suppress(OSError, ValueError):
            known: dict[str, str] = json.loads(slip.read_bytes())
            return known
        archive = self._fetch(release)
        found = {}
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.partition("/")[2]
                if name in self._names and (stream := tar.extractfile(member)) is not None:
                    found[name] = stream.read().decode(ENCODING)
        write_atomic(slip, json.dumps(found).encode())
        return found

    def _fetch(self, release: IndexFile) -> Path:
        """Return the sdist, by the digest that it had when it was first fetched."""
        note = self._supply.paths.downloads / "slices" / f"{release.filename}.sha256"
        with suppress(OSError):
            digest = Digest(note.read_text().strip())
            self._supply.holds.hold(self._supply.paths.download(digest, release.filename).parent)
            known = cached_file(self._supply.paths, digest, release.filename)
            if known is not None:
                return known
        archive, digest = download(release.url, release.filename, None, self._supply)
        write_atomic(note, digest.encode())
        return archive
