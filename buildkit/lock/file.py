"""A lock is written and read: TOML to :class:`~buildkit.lock.model.Lock` and back.

What enters: a text or the packages of an environment. What leaves: a lock whose digests agree, or
one error with line and key. Reads and writes the lock's own file, nothing else.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from buildkit import __version__
from buildkit.digest import Digest, digest_value
from buildkit.errors import Location, LockError, LockFileError
from buildkit.fs import write_atomic
from buildkit.lock.model import Interpreter, Lock
from buildkit.recipe.locate import locate, render_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from buildkit.recipe.locate import Part

__all__ = [
    "package_document",
    "parse_lock",
    "read_lock",
    "refuse_foreign",
    "render_lock",
    "write_lock",
]

#: Raised when a key of ``tool.buildkit`` changes its meaning.
SCHEMA = 1

#: Source: PyPA, "pylock.toml Specification", ``lock-version``.
LOCK_VERSION = "1.0"

_HEAD = (
    "# Written by `buildkit lock`. `buildkit sync` makes this environment again.\n"
    "# The digests cover every line: lock again instead of editing.\n"
)


def read_lock(file: Path) -> Lock:
    """Return the lock in a file.

    :raises LockFileError: if it cannot be read, or is not as ``buildkit lock`` wrote it.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LockFileError(
            f"The lock cannot be read: {reason}.",
            where=Location(file=str(file)),
            remedy="Give the path of a file that `buildkit lock` wrote.",
        ) from error
    return parse_lock(text, str(file))


def parse_lock(text: str, name: str) -> Lock:
    """Return the lock that a text holds.

    :param name: Name of its file, for errors.
    :raises LockFileError: if it is not as ``buildkit lock`` wrote it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LockFileError(
            f"Not valid TOML: {error}.",
            where=Location(file=name),
            remedy="Write it again with `buildkit lock`.",
        ) from error
    _check_format(document, text, name)
    try:
        lock = msgspec.convert(document, Lock)
    except msgspec.ValidationError as error:
        what, path = _parse_issue(str(error))
        raise _wrong(text, name, path, f"{what}.") from error
    _check_digests(document, text, name)
    _check_names(lock, text, name)
    return lock


def render_lock(python: Interpreter, packages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a lock.

    :param packages: What :func:`package_document` returned, in the order of names.
    """
    import tomlkit

    minor = ".".join(python.version.split(".")[:2])
    document: dict[str, Any] = {
        "lock-version": LOCK_VERSION,
        "environments": [
            f"sys_platform == 'linux' and platform_machine == '{_machine(python)}' and"
            f" implementation_name == 'cpython' and python_version == '{minor}'"
        ],
        "requires-python": f"=={minor}.*",
        "created-by": "buildkit",
        "packages": list(packages),
        "tool": {
            "buildkit": {
                "schema": SCHEMA,
                "kit": __version__,
                "python": msgspec.to_builtins(python),
            }
        },
    }
    document["tool"]["buildkit"]["digest"] = _digest_of_lock(document)
    shown = document | {"packages": [_inlined(package) for package in packages]}
    return _HEAD + tomlkit.dumps(shown)


def package_document(values: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a package, with its digest.

    :param values: Its keys of PEP 751.
    :param notes: Its table ``tool.buildkit``.
    """
    package = values | {"tool": {"buildkit": notes}}
    package["tool"]["buildkit"]["digest"] = _digest_of_package(package)
    return package


def refuse_foreign(file: Path) -> None:
    """Refuse to write over what something else wrote.

    :raises LockError: if there is such a file.
    """
    if file.exists() and not _is_own(file):
        raise LockError(
            "It exists and is no lock of this kit.",
            where=Location(file=str(file)),
            remedy="Name another file with -o, or remove it.",
        )


def write_lock(file: Path, text: str) -> None:
    """Write a lock, once it has been read back.

    :raises LockError: if it cannot be written.
    """
    parse_lock(text, str(file))
    try:
        write_atomic(file, text.encode())
    except OSError as error:
        raise LockError(
            f"The lock cannot be written: {error.strerror or error}.",
            where=Location(file=str(file)),
            remedy="Name another file with -o.",
        ) from error


def _is_own(file: Path) -> bool:
    try:
        return file.read_bytes().startswith(_HEAD.splitlines()[0].encode())
    except OSError:
        return False


def _machine(python: Interpreter) -> str:
    return python.platform.split("_", 1)[-1]


def _inlined(package: Mapping[str, Any]) -> dict[str, Any]:
    """Return a package with its wheels on one line each, as other tools write them."""
    import tomlkit

    wheels = tomlkit.array()
    for wheel in package["wheels"]:
        row = tomlkit.inline_table()
        row.update(wheel)
        wheels.append(row)
    return {**package, "wheels": wheels}


def _digest_of_package(package: Mapping[str, Any]) -> Digest:
    notes = {key: value for key, value in _notes(package).items() if key != "digest"}
    return digest_value({**package, "tool": {"buildkit": notes}})


def _digest_of_lock(document: Mapping[str, Any]) -> Digest:
    header = {key: value for key, value in _notes(document).items() if key != "digest"}
    rows = [[package["name"], _notes(package)["digest"]] for package in document["packages"]]
    return digest_value({**document, "packages": rows, "tool": {"buildkit": header}})


def _notes(table: Mapping[str, Any]) -> dict[str, Any]:
    notes: dict[str, Any] = table["tool"]["buildkit"]
    return notes


def _check_format(document: dict[str, Any], text: str, name: str) -> None:
    """Refuse what another tool or another kit wrote, before its keys are looked at."""
    tool = document.get("tool")
    header = tool.get("buildkit") if isinstance(tool, dict) else None
    if not isinstance(header, dict) or "schema" not in header:
        raise LockFileError(
            "There is no table tool.buildkit: `buildkit lock` did not write this file.",
            where=Location(file=name),
            remedy="Give a lock of this kit; others are for `uv pip sync` or `pip install`.",
        )
    stated = (("lock-version",), document.get("lock-version"), LOCK_VERSION)
    schema = (("tool", "buildkit", "schema"), header["schema"], SCHEMA)
    for path, found, allowed in (stated, schema):
        if found != allowed:
            raise LockFileError(
                f"Unknown format of the lock: found {found!r}, allowed {allowed!r}.",
                where=_place(text, name, path),
                remedy="Use the release of the kit that wrote it, or write it again.",
            )


def _check_digests(document: dict[str, Any], text: str, name: str) -> None:
    for number, package in enumerate(document["packages"]):
        if _notes(package)["digest"] != _digest_of_package(package):
            what = f"The entry of {package['name']} was changed after `buildkit lock` wrote it."
            raise _wrong(text, name, ("packages", number), what)
    if _notes(document)["digest"] != _digest_of_lock(document):
        what = "The lock was changed after `buildkit lock` wrote it: its head, or its packages."
        raise _wrong(text, name, ("tool", "buildkit", "digest"), what)


def _check_names(lock: Lock, text: str, name: str) -> None:
    """Refuse a package that stands twice, or whose wheel is another's."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    seen: set[str] = set()
    for number, package in enumerate(lock.packages):
        if package.name in seen:
            raise _wrong(text, name, ("packages", number, "name"), f"{package.name} stands twice.")
        seen.add(package.name)
        try:
            project, version, _, _ = parse_wheel_filename(package.wheel.name)
            is_same = (project, str(version)) == (package.name, package.version)
        except InvalidWheelFilename:
            is_same = False
        if not is_same:
            what = f"{package.wheel.name!r} is no wheel of {package.name} {package.version}."
            raise _wrong(text, name, ("packages", number, "wheels", 0, "name"), what)


def _parse_issue(message: str) -> tuple[str, tuple[Part, ...]]:
    """Return text and key path of what msgspec complains about.

    >>> _parse_issue("Expected `str`, got `int` - at `$.packages[2].name`")
    ('Expected str, got int', ('packages', 2, 'name'))
    """
    told, _, place = message.partition(" - at `$")
    path = tuple(
        int(index) if index else key
        for key, index in re.findall(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]", place)
    )
    return told.replace("`", ""), path


def _wrong(text: str, name: str, path: tuple[Part, ...], what: str) -> LockFileError:
    return LockFileError(
        what,
        where=_place(text, name, path),
        remedy="Take the original again, or write it anew with `buildkit lock`.",
    )


def _place(text: str, name: str, path: tuple[Part, ...]) -> Location:
    return Location(file=name, line=locate(text, path), key=render_key(path) or None)
