"""The wheels of an environment, taken out of a mirror.

What enters: a lock, an interpreter, a mirror. What leaves: the files that the lock allows and the
interpreter takes, each with the digest that the lock states, and the packages for which there is
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.digest import Digest
from buildkit.fs import remove_tree
from buildkit.tags import rank_of, ranks
from buildkit.toolchain.lock import parse_packages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packaging.tags import Tag

    from buildkit.mirrored import Mirror
    from buildkit.values import EnvLock, LockedPackage, PythonIdentity

__all__ = ["find_wheel", "lay_out", "split"]


def find_wheel(
    package: LockedPackage, mirror: Mirror, known: Mapping[Tag, int]
) -> tuple[Digest, str] | None:
    """Return digest and name of the best wheel that a mirror has for a package; reads none."""
    found = [
        (place, Digest(sha256), name)
        for sha256 in sorted(package.digests)
        for name in mirror.names(sha256)
        if (place := rank_of(name, known)) is not None
    ]
    return min(found)[1:] if found else None


def split(
    lock: EnvLock, python: PythonIdentity, mirror: Mirror
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the files that a mirror has for a lock, checked, and what it lacks.

    :raises SourceError: if a file is not what the lock states.
    """
    known = ranks(python, None)
    files = []
    lacking = []
    for package in parse_packages(lock):
        wheel = find_wheel(package, mirror, known)
        place = None if wheel is None else mirror.file(*wheel)
        if place is None:
            lacking.append(f"{package.name} {package.version}")
        else:
            files.append(place)
    return tuple(files), tuple(lacking)


def lay_out(files: tuple[Path, ...], folder: Path) -> None:
    """Fill a directory with links to files, as installers want them: all in one place."""
    remove_tree(folder)
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).symlink_to(file)
