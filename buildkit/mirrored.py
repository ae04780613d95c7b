"""A mirror as it is read: files by digest, commits by name, never believed before they are checked.

What enters: a directory that ``buildkit fetch`` has filled, and the pin of what is wanted. What
leaves: the path of a file whose bytes are those of the pin, or None where the mirror lacks it.
Nothing is written here, so that a mirror may lie on a read-only disk.

The layout: ``manifest.json``; ``downloads/AA/SHA256/NAME`` as in the cache; ``git/COMMIT.pack``;
``locks/DIGEST.lock``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from buildkit.digest import Digest, digest_file
from buildkit.errors import Location, RequestError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["MANIFEST", "SCHEMA", "Mirror", "manifest_digests", "open_mirror", "read_manifest"]

MANIFEST = "manifest.json"

#: Raised when a field of the manifest changes its meaning, or the layout changes.
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A directory that holds what builds fetch."""

    root: Path
    digests: Mapping[str, str]
    """SHA-256 by relative path, as the manifest states them."""

    def file(self, sha256: Digest, filename: str) -> Path | None:
        """Return a file with this digest and name, or None.

        :raises SourceError: if it is there, but with other contents.
        """
        place = self.root / "downloads" / sha256[:2] / sha256 / filename
        return self._checked(place, sha256) if place.is_file() else None

    def names(self, sha256: str) -> tuple[str, ...]:
        """Return the names of the files that should have this digest; none is read."""
        folder = self.root / "downloads" / sha256[:2] / sha256
        return tuple(sorted(path.name for path in folder.glob("[!.]*")))

    def pack(self, commit: str) -> Path | None:
        """Return the pack of a commit, or None; that it holds the commit is for git to prove.

        :raises SourceError: if it is not what the manifest says.
        """
        return self._stated(f"git/{commit}.pack")

    def lock(self, name: str) -> str | None:
        """Return the text of a lock that was resolved for a user's own constraints, or None.

        :raises SourceError: if it is not what the manifest says.
        """
        file = self._stated(f"locks/{name}.lock")
        return None if file is None else file.read_text(encoding="utf-8")

    def _stated(self, name: str) -> Path | None:
        place = self.root / name
        if not place.is_file():
            return None
        if name not in self.digests:
            raise SourceError(
                f"The mirror's manifest does not name {place.name}.",
                where=Location(file=str(place)),
                remedy="Fill the mirror again with `buildkit fetch`.",
            )
        return self._checked(place, Digest(self.digests[name]))

    def _checked(self, place: Path, expected: Digest) -> Path:
        try:
            found = digest_file(place)
        except OSError as error:
            raise SourceError(
                f"The mirror's {place.name} cannot be read: {error.strerror or error}.",
                where=Location(file=str(place)),
                remedy="Look at the disk and at the file's mode.",
            ) from error
        if found != expected:
            raise SourceError(
                f"The mirror's {place.name} differs from its pin: found sha256 {found}, allowed"
                f" {expected}.",
                where=Location(file=str(place)),
                remedy="Do not build from it; fill the mirror again with `buildkit fetch`.",
            )
        return place


def open_mirror(root: Path, where: Location) -> Mirror:
    """Return the mirror in a directory.

    :param where: Who named the directory.
    :raises RequestError: if there is none, or its manifest is not one of this kit.
    """
    document = read_manifest(root, where)
    if document is None:
        raise RequestError(
            f"{root} is no mirror: it holds no {MANIFEST}.",
            where=where,
            remedy=f"Fill it with `buildkit fetch NAME --to {root}`, or correct the path.",
        )
    return Mirror(root=root.absolute(), digests=manifest_digests(document))


def read_manifest(root: Path, where: Location) -> dict[str, Any] | None:
    """Return the manifest of a mirror, or None where there is none.

    :raises RequestError: if it cannot be read, or another kit wrote it.
    """
    file = root / MANIFEST
    try:
        document: dict[str, Any] = json.loads(file.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, allowed {SCHEMA}")
        manifest_digests(document)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RequestError(
            f"The manifest {file} cannot be used: {error}.",
            where=where,
            remedy="Mend it, or fill another directory with `buildkit fetch`.",
        ) from error
    return document


def manifest_digests(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each file by its path, as a manifest states them."""
    return {
        str(item["path"]): str(item["sha256"])
        for content in document["contents"]
        for item in content["items"]
    }
