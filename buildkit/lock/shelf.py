"""Where wheels lie on this machine: directories, the cache, the file that pip was given.

What enters: what is wanted. What leaves: a path whose contents or digest were compared, or None.
A wheel is never taken for its name alone.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from buildkit.cache import look_up, stored_fields
from buildkit.digest import Digest, digest_file
from buildkit.errors import Location, RequestError
from buildkit.lock.contents import contents_of_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from buildkit.holds import Holds
    from buildkit.lock.inventory import Distribution
    from buildkit.lock.model import LockedPackage, Made
    from buildkit.paths import Paths

__all__ = ["Shelf", "local_folders"]


def local_folders(named: Sequence[Path], configured: Sequence[str]) -> tuple[Path, ...]:
    """Return the directories of wheels: those of the command line, then those of pip's settings.

    :raises RequestError: if one that was named does not exist.
    """
    for folder in named:
        if not folder.is_dir():
            raise RequestError(
                f"Found {str(folder)!r}, allowed a directory of wheels.",
                where=Location(file="command line", key="--find-links"),
                remedy="Make it, or correct the path.",
            )
    places = [folder.absolute() for folder in named]
    for text in configured:
        address = urlsplit(text)
        if address.scheme in ("", "file"):
            places.append(Path(unquote(address.path)))
    return tuple(place for place in places if place.is_dir())


class Shelf:
    """Finds wheels on this machine."""

    def __init__(self, folders: Sequence[Path], paths: Paths, holds: Holds) -> None:
        self._paths = paths
        self._holds = holds
        self._wheels: dict[tuple[str, str], list[Path]] = {}
        for folder in folders:
            for wheel in sorted(folder.glob("*.whl")):
                self._wheels.setdefault(_identity(wheel.name), []).append(wheel)

    def wheel_of(self, installed: Distribution) -> Path | None:
        """Return the wheel that a distribution was installed from, by its contents."""
        made = installed.made
        candidates = [installed.wheel] if installed.wheel is not None else []
        candidates += self._wheels.get((installed.name, installed.version), [])
        if made is not None:
            candidates += self._cached(made.recipe, made.key)
        for wheel in candidates:
            is_named = _identity(wheel.name) == (installed.name, installed.version)
            if is_named and contents_of_wheel(wheel) == installed.contents:
                return wheel
        return None

    def locked_wheel(self, package: LockedPackage, *, is_exact: bool) -> Path | None:
        """Return a wheel with the locked digest, or one that was made here under the locked key.

        :param is_exact: Only the locked digest counts.
        """
        made = package.notes.made
        identity = (package.name, package.version)
        stored = () if made is None else self._cached(made.recipe, made.key)
        # A wheel of an edited source bears the key of what it was edited from.
        cached = [wheel for wheel in stored if _identity(wheel.name) == identity]
        candidates = [*self._wheels.get(identity, []), *cached]
        for wheel in candidates:
            with suppress(OSError):
                if digest_file(wheel) == package.wheel.hashes.sha256:
                    return wheel
        return None if is_exact else next(iter(cached), None)

    def key_fields(self, made: Made) -> dict[str, str]:
        """Return everything that a key covers, as the wheel tells it, or else the cache."""
        if made.fields or not (_is_plain(made.recipe) and _is_plain(made.key)):
            return made.fields
        stored = stored_fields(self._paths, made.recipe, Digest(made.key))
        return {field.name: field.value for field in stored}

    def _cached(self, recipe: str, key: str) -> Iterator[Path]:
        if _is_plain(recipe) and _is_plain(key):
            entry = look_up(self._paths, recipe, Digest(key), self._holds)
            if entry is not None:
                yield entry.wheel


def _is_plain(name: str) -> bool:
    """Tell whether a word from a wheel or a lock may be part of a path."""
    return bool(name) and "/" not in name and not name.startswith(".")


def _identity(filename: str) -> tuple[str, str]:
    """Return project and version of a wheel's name, or empty texts."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return "", ""
    return str(name), str(version)
