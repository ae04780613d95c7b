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

#: Commands whose body runs once, often or never.
_BODIES = ("function", "macro", "foreach", "while")
_ENDS = ("endif", *(f"end{name}" for name in _BODIES))

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


def read_dependencies(
    start: Path, defines: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> tuple[Dependency, ...]:
    """Return what a project declares, each name once, in the order of reading.

    :param start: The project's own ``CMakeLists.txt``.
    :param defines: Cache variables; those of handed-over directories name real paths.
    :param environment: Variables of the environment that the build is sure to have, likewise.
    :raises SourceError: if a file cannot be read or does not follow the grammar.
    """
    known = {f"ENV{{{name}}}": value for name, value in (environment or {}).items()}
    reader = _Reader(defines=defines, certain={**defines, **known})
    source = str(start.parent)
    variables = {
        **defines,
        **known,
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
    """The variables whose value is known at this point, if CMake gets here at all."""
    blocks: list[_Block] = field(default_factory=list)
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
        for command in _commands(file):
            if self._is_block(command):
                continue
            if all(block.verdict is not False for block in self.blocks):
                self._obey(command, _Spot(file, command.line, variables, depth))
        variables["CMAKE_CURRENT_LIST_DIR"] = before

    def _is_block(self, command: Command) -> bool:
        """Keep the book of conditions; tell whether the command was one of theirs."""
        if command.name == "if":
            words = [argument.text for argument in command.arguments]
            self.blocks.append(_Block(_verdict(words, self.certain)))
        elif command.name in _BODIES:
            self.blocks.append(_Block(None))
        elif command.name in ("elseif", "else") and self.blocks:
            verdict = self._leave()
            self.blocks.append(_Block(False if verdict is True else None))
        elif command.name in _ENDS and self.blocks:
            self._leave()
        else:
            return False
        return True

    def _leave(self) -> bool | None:
        """End a block: what was set in one that may not have run is known no more."""
        last = self.blocks.pop()
        if last.verdict is not True:
            for name in last.changed:
                self.certain.pop(name, None)
        if self.blocks:
            self.blocks[-1].changed.update(last.changed)
        return last.verdict

    def assign(self, name: str, value: str | None) -> None:
        """Take down what a variable is now; None if nobody but CMake knows."""
        self.certain.pop(name, None)
        if value is not None:
            self.certain[name] = value
        if self.blocks:
            self.blocks[-1].changed.add(name)

    def _obey(self, command: Command, spot: _Spot) -> None:
        words = [expand(argument, spot.variables) for argument in command.arguments]
        if command.name != "set":
            # Many commands put their result into a variable that they name.
            for word in words:
                if word in self.certain and word not in self.defines:
                    self.assign(word, None)
        obey = _COMMANDS.get(command.name)
        if obey is not None and words:
            obey(self, words, spot)

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
        before = dict(self.certain)
        self.read(path / "CMakeLists.txt", inner, depth=spot.depth + 1)
        kept = {name for name, value in before.items() if self.certain.get(name) == value}
        self.certain = {name: before[name] for name in kept}


@dataclass(slots=True)
class _Block:
    """What stands between ``if`` and ``else``, or between ``function`` and ``endfunction``."""

    verdict: bool | None
    """False where it is known not to be taken, None where that is not known."""
    changed: set[str] = field(default_factory=set)
    """Variables that were set in it."""


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


def _verdict(words: list[str], certain: Mapping[str, str]) -> bool | None:
    """Return what a simple condition comes to, if that is certain.

    These are ``NAME``, ``NOT NAME``, ``DEFINED NAME`` and ``NAME STREQUAL text``.
    """
    if len(words) == 2 and words[0] == "DEFINED":
        return True if words[1] in certain else None
    if len(words) == 3 and words[1] == "STREQUAL" and words[0] in certain:
        is_plain = "$" not in words[2] and words[2] not in certain
        return certain[words[0]] == words[2] if is_plain else None
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
    text = ";".join(plain)
    is_known = bool(plain) and "$" not in text and values[-1:] != ["PARENT_SCOPE"]
    # The cache may hold another value already, of whoever runs CMake.
    reader.assign(name, text if is_known and "CACHE" not in values else None)
    spot.variables[name] = text


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
