"""The grammar of CMake's files: a text becomes commands with their arguments. Pure.

What enters: the text of a ``CMakeLists.txt`` or ``*.cmake``. What leaves: its commands in order,
with comments gone, escapes resolved and variable references left as they are; whoever knows values
puts them in with :func:`expand`. Never runs anything.

Source: cmake-language(7), "Syntax" and "Variable References".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Argument", "Command", "expand", "parse_cmake"]

_SPACE = re.compile(r"[ \t\r\n\ufeff]+")
_LINE_COMMENT = re.compile(r"#[^\n]*")
_BRACKET = re.compile(r"\[(=*)\[\n?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
#: Also the old form, in which a piece in quotes or a reference to make stands inside: ``-Da="b"``.
_UNQUOTED = re.compile(r'(?:[^\s()#"\\]|\\.|(?<=[^\s()#"])"(?:[^"\\]|\\.)*")+', re.DOTALL)
_CONTINUED = re.compile(r"\\\r?\n")
_ESCAPE = re.compile(r"\\([^A-Za-z0-9;]|[tnr])", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z0-9/_.+-]*)\}|(ENV\{[A-Za-z0-9/_.+-]*\}))")

_LETTERS = {"t": "\t", "n": "\n", "r": "\r"}

#: Deeper nesting of references is left alone.
_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command."""

    text: str
    kind: str = "unquoted"
    """``unquoted``, ``quoted``, ``bracket`` (its references stand for themselves) or
    ``parenthesis``."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a file."""

    name: str
    """In lower case, since CMake does not tell them apart."""
    arguments: tuple[Argument, ...]
    line: int
    """Counted from 1."""


def parse_cmake(text: str) -> tuple[Command, ...]:
    r"""Return the commands of a file.

    >>> [parsed] = parse_cmake('set(A "b c" [=[d]]=] # why\n  ${e})')
    >>> parsed.name, [argument.text for argument in parsed.arguments]
    ('set', ['b c', 'd]', '${e}'])

    :raises ValueError: if it does not follow the grammar; names the line.
    """
    return _Parser(text).commands()


def expand(argument: Argument, variables: Mapping[str, str]) -> str:
    """Return an argument's text with the references to known variables replaced.

    A variable of the environment has the name ``ENV{NAME}``, as ``if(DEFINED ...)`` says it.

    >>> expand(Argument("${A}/${B}/$ENV{C}"), {"A": "x", "ENV{C}": "y"})
    'x/${B}/y'
    """
    text = argument.text
    if argument.kind == "bracket":
        return text
    for _ in range(_ROUNDS):
        replaced = _REFERENCE.sub(lambda found: variables.get(found[1] or found[2], found[0]), text)
        if replaced == text:
            break
        text = replaced
    return text


class _Parser:
    """Reads a text from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def commands(self) -> tuple[Command, ...]:
        found = []
        self._skip()
        while self._at < len(self._text):
            found.append(self._command())
            self._skip()
        return tuple(found)

    def _command(self) -> Command:
        line = self._line()
        name = self._take(_NAME)
        if name is None:
            raise self._wrong("the name of a command")
        while (space := self._take(_SPACE)) is not None and space[0]:
            pass
        if not self._text.startswith("(", self._at):
            raise self._wrong(f"'(' after {name[0]}")
        self._at += 1
        return Command(name=name[0].lower(), arguments=self._arguments(line), line=line)

    def _arguments(self, line: int) -> tuple[Argument, ...]:
        found: list[Argument] = []
        depth = 1
        while True:
            self._skip()
            if self._at >= len(self._text):
                raise ValueError(f"line {line}: found no ')' for the command's '('")
            mark = self._text[self._at]
            if mark in "()":
                self._at += 1
                depth += 1 if mark == "(" else -1
                if depth == 0:
                    return tuple(found)
                found.append(Argument(mark, "parenthesis"))
            else:
                found.append(self._argument())

    def _argument(self) -> Argument:
        if (inner := self._bracket()) is not None:
            return Argument(inner, "bracket")
        if (quoted := self._take(_QUOTED)) is not None:
            return Argument(_unescape(_CONTINUED.sub("", quoted[1])), "quoted")
        if (plain := self._take(_UNQUOTED)) is not None:
            return Argument(_unescape(plain[0]))
        raise self._wrong("an argument")

    def _skip(self) -> None:
        """Go on past blanks and comments."""
        while self._at < len(self._text):
            if self._take(_SPACE) is not None:
                continue
            if not self._text.startswith("#", self._at):
                return
            self._at += 1
            if self._bracket() is None:
                self._at -= 1
                self._take(_LINE_COMMENT)

    def _bracket(self) -> str | None:
        """Return what stands in brackets here, if anything does."""
        opening = _BRACKET.match(self._text, self._at)
        if opening is None:
            return None
        closing = f"]{opening[1]}]"
        end = self._text.find(closing, opening.end())
        if end < 0:
            raise self._wrong(f"'{closing}' for '{opening[0].strip()}'")
        self._at = end + len(closing)
        return self._text[opening.end() : end]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _wrong(self, wanted: str) -> ValueError:
        found = self._text[self._at : self._at + 20].split("\n")[0]
        return ValueError(f"line {self._line()}: found {found!r}, allowed {wanted}")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _LETTERS.get(found[1], found[1]), text)
