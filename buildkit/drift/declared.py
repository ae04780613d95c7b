"""Which dependencies a CMake project declares: its files are followed and read, never run.

What enters: the project's ``CMakeLists.txt`` and the cache variables that it will be given. What
leaves: each dependency that it would download, with the place where it says so. A file of it that
does not follow CMake's grammar is an error, since something could be hidden behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.drift.grammar import expand, parse_cmake
from buildkit.errors import Location, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from buildkit.drift.grammar import Command

__all__ = ["Dependency", "read_dependencies"]

#: What CMake takes for false. Source: cmake(1) if(), "Constant".
_FALSE = re.compile(r"|0|off|no|false|n|ignore|notfound|.*-notfound", re.IGNORECASE)

#: Without one of these, a declaration names a directory that is there and downloads nothing.
#: Source: CMake's ExternalProject module, "Download Step Options".
_DOWNLOADS = (
    "URL",
    "GIT_REPOSITORY",
    "SVN_REPOSITORY",
    "HG_REPOSITORY",
    "CVS_REPOSITORY",
    "GITHUB_REPOSITORY",
    "GITLAB_REPOSITORY",
    "BITBUCKET_REPOSITORY",
    "DOWNLOAD_COMMAND",
)

_KEYWORD = re.compile(r"[A-Z][A-Z0-9_]*")
_CPM_SHORT = re.compile(r"(?:[a-z]+:)?(?:.*/)?([^/@#]+?)(?:\.git|\.tar\.\w+|\.zip)?([@#].*)?")

#: Deepest chain of files that include each other.
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Something that a project would download."""

    name: str
    by: str
    """``fetchcontent``, ``cpm`` or ``externalproject``."""
    command: str
    """As CMake's documentation spells it."""
    file: Path
    line: int
    patch: str = ""
    """The declared ``PATCH_COMMAND``."""
    version: str = ""
    """What is declared of its place and version, as one text."""


def read_dependencies(start: Path, defines: Mapping[str, str]) -> tuple[Dependency, ...]:
    """Return what a project declares, each name once, in the order of reading.

    :param start: The project's own ``CMakeLists.txt``.
    :param defines: Cache variables; those of handed-over directories name real paths.
    :raises SourceError: if a file cannot be read or does not follow the grammar.
    """
    reader = _Reader(defines=defines, certain=dict(defines))
    source = str(start.parent)
    variables = {
        **defines,
        "CMAKE_SOURCE_DIR": source,
        "PROJECT_SOURCE_DIR": source,
        "CMAKE_CURRENT_SOURCE_DIR": source,
    }
    reader.read(start, variables, depth=0)
    return tuple(reader.found.values())


@dataclass(slots=True)
class _Reader:
    """Follows the files of one project."""

    defines: Mapping[str, str]
    certain: dict[str, str]
    """Those of the defines that no file has set otherwise."""
    found: dict[tuple[str, str], Dependency] = field(default_factory=dict)
    _seen: set[Path] = field(default_factory=set)

    def read(self, file: Path, variables: dict[str, str], *, depth: int) -> None:
        """Read a file, in a scope that it may change."""
        place = file.resolve()
        if place in self._seen or depth > MAX_DEPTH or not place.is_file():
            return
        self._seen.add(place)
        before = variables.get("CMAKE_CURRENT_LIST_DIR", "")
        variables["CMAKE_CURRENT_LIST_DIR"] = str(file.parent)
        blocks: list[bool | None] = []
        for command in _commands(file):
            if _is_block(command, self.certain, blocks):
                continue
            if False not in blocks:
                self._obey(command, file, variables, depth)
        variables["CMAKE_CURRENT_LIST_DIR"] = before

    def _obey(self, command: Command, file: Path, variables: dict[str, str], depth: int) -> None:
        words = [expand(argument, variables) for argument in command.arguments]
        obey = _COMMANDS.get(command.name)
        if obey is not None and words:
            obey(self, words, _Spot(file, command.line, variables, depth))

    def add(self, name: str, by: str, command: str, words: list[str], spot: _Spot) -> None:
        """Take a dependency down; a later mention of the same name adds nothing."""
        options = _options(words)
        new = Dependency(
            name=name,
            by=by,
            command=command,
            file=spot.file,
            line=spot.line,
            patch=" ".join(options.get("PATCH_COMMAND", ())),
            version=" ".join(words),
        )
        key = (by, name if by == "cpm" else name.lower())
        self.found.setdefault(key, new)

    def enter(self, folder: str, spot: _Spot) -> None:
        """Read a further directory in a scope of its own."""
        path = Path(spot.variables["CMAKE_CURRENT_SOURCE_DIR"], folder)
        inner = {**spot.variables, "CMAKE_CURRENT_SOURCE_DIR": str(path)}
        self.read(path / "CMakeLists.txt", inner, depth=spot.depth + 1)


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a command stands, and what is known there."""

    file: Path
    line: int
    variables: dict[str, str]
    depth: int


def _commands(file: Path) -> tuple[Command, ...]:
    try:
        return parse_cmake(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(
            f"The CMake file cannot be read: {reason}.",
            where=Location(file=str(file)),
            remedy="Look at the file, and at the patches that touch it.",
        ) from error


def _is_block(command: Command, certain: Mapping[str, str], blocks: list[bool | None]) -> bool:
    """Keep the book of conditions; tell whether the command was one of theirs.

    A block is False where it is known not to be taken, None where its own verdict is not known.
    """
    if command.name == "if":
        blocks.append(_verdict([argument.text for argument in command.arguments], certain))
    elif command.name in ("elseif", "else") and blocks:
        blocks[-1] = False if blocks[-1] is True else None
    elif command.name == "endif" and blocks:
        blocks.pop()
    else:
        return False
    return True


def _verdict(words: list[str], certain: Mapping[str, str]) -> bool | None:
    """Return what ``if(NAME)`` or ``if(NOT NAME)`` comes to, if that is certain."""
    is_not = len(words) == 2 and words[0] == "NOT"
    if (len(words) != 1 and not is_not) or words[-1] not in certain:
        return None
    is_true = _FALSE.fullmatch(certain[words[-1]]) is None
    return is_true is not is_not


def _options(words: list[str]) -> dict[str, list[str]]:
    """Return the words after each keyword."""
    options: dict[str, list[str]] = {}
    current: list[str] = []
    for word in words:
        if _KEYWORD.fullmatch(word):
            current = options.setdefault(word, [])
        else:
            current.append(word)
    return options


def _downloads(words: list[str]) -> bool:
    options = _options(words)
    return any(options.get(word, [""])[0] for word in _DOWNLOADS if word in options)


def _set(reader: _Reader, words: list[str], spot: _Spot) -> None:
    name, *values = words
    if "CACHE" in values and name in reader.defines:
        return  # what is in the cache already stays
    plain = values[: values.index("CACHE")] if "CACHE" in values else values
    # Set in a branch or not, nobody knows: its truth is open, its text is the last one.
    reader.certain.pop(name, None)
    spot.variables[name] = ";".join(plain)


def _list(reader: _Reader, words: list[str], spot: _Spot) -> None:
    if words[0] in ("APPEND", "PREPEND") and words[1:2] == ["CMAKE_MODULE_PATH"]:
        known = spot.variables.get("CMAKE_MODULE_PATH", "")
        spot.variables["CMAKE_MODULE_PATH"] = ";".join([*filter(None, [known]), *words[2:]])


def _include(reader: _Reader, words: list[str], spot: _Spot) -> None:
    file = Path(spot.variables["CMAKE_CURRENT_SOURCE_DIR"], words[0])
    if not file.is_file():
        folders = filter(None, spot.variables.get("CMAKE_MODULE_PATH", "").split(";"))
        places = (Path(folder, f"{words[0]}.cmake") for folder in folders)
        file = next((place for place in places if place.is_file()), file)
    reader.read(file, spot.variables, depth=spot.depth + 1)


def _add_subdirectory(reader: _Reader, words: list[str], spot: _Spot) -> None:
    reader.enter(words[0], spot)


def _declare(reader: _Reader, words: list[str], spot: _Spot) -> None:
    name = words[0]
    if _downloads(words[1:]):
        reader.add(name, "fetchcontent", "FetchContent_Declare", words[1:], spot)
    handed = reader.defines.get(f"FETCHCONTENT_SOURCE_DIR_{name.upper()}")
    folder = handed or next(iter(_options(words[1:]).get("SOURCE_DIR", [])), None)
    if folder is not None:
        for spelled in (name, name.lower()):
            spot.variables[f"{spelled}_SOURCE_DIR"] = folder
        below = next(iter(_options(words[1:]).get("SOURCE_SUBDIR", [])), "")
        spot.variables[f"{name.lower()} below"] = below


def _populate(reader: _Reader, words: list[str], spot: _Spot) -> None:
    """Take ``FetchContent_Populate(name URL ...)``, the form that needs no declaration."""
    if _downloads(words[1:]):
        reader.add(words[0], "fetchcontent", "FetchContent_Populate", words[1:], spot)


def _make_available(reader: _Reader, words: list[str], spot: _Spot) -> None:
    for name in words:
        folder = spot.variables.get(f"{name.lower()}_SOURCE_DIR")
        if folder is not None:
            below = spot.variables.get(f"{name.lower()} below", "")
            reader.enter(f"{folder}/{below}", spot)


def _external(reader: _Reader, words: list[str], spot: _Spot) -> None:
    if _downloads(words[1:]):
        reader.add(words[0], "externalproject", "ExternalProject_Add", words[1:], spot)


def _cpm(reader: _Reader, words: list[str], spot: _Spot) -> None:
    name = next(iter(_options(words).get("NAME", [])), "")
    short = _CPM_SHORT.fullmatch(words[0] if not name else "")
    if short is not None:
        name = short[1]
    if name:
        reader.add(name, "cpm", "CPMAddPackage", words, spot)


_COMMANDS: dict[str, Callable[[_Reader, list[str], _Spot], None]] = {
    "set": _set,
    "list": _list,
    "include": _include,
    "add_subdirectory": _add_subdirectory,
    "fetchcontent_declare": _declare,
    "fetchcontent_populate": _populate,
    "fetchcontent_makeavailable": _make_available,
    "externalproject_add": _external,
    "cpmaddpackage": _cpm,
    "cpmfindpackage": _cpm,
}
