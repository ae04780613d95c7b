"""Where a key stands in a TOML text: ``versions[1].source.sha256`` -> line number. Pure.

The standard library's parser keeps no positions. This scanner reads a text that the parser has
already accepted, so it only needs to find keys, not to judge values. A key that it cannot find
(inside an inline table that spans tricks it does not know) gets the line of its nearest parent.
"""

from __future__ import annotations

import re

__all__ = ["locate", "render_key"]

Part = str | int

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def render_key(path: tuple[Part, ...]) -> str:
    """Return a key path as people write it.

    >>> render_key(("versions", 1, "source", "sha256"))
    'versions[1].source.sha256'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def locate(text: str, path: tuple[Part, ...]) -> int | None:
    """Return the line (from 1) of a key path in a valid TOML text, or of its nearest parent."""
    lines = _Scanner(text).lines
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


class _Scanner:
    """Reads the text once and notes the line of every key path."""

    def __init__(self, text: str) -> None:
        self.lines: dict[tuple[Part, ...], int] = {}
        self._text = text
        self._at = 0
        self._counts: dict[tuple[Part, ...], int] = {}
        table: tuple[Part, ...] = ()
        while self._skip_blank():
            if self._text.startswith("[[", self._at):
                self._at += 2
                table = self._element(self._key())
                self._to_line_end()
            elif self._text[self._at] == "[":
                self._at += 1
                table = self._resolve(self._key())
                self._note(table)
                self._to_line_end()
            else:
                self._pair(table)

    def _element(self, key: tuple[str, ...]) -> tuple[Part, ...]:
        array = (*self._resolve(key[:-1]), key[-1])
        number = self._counts.get(array, -1) + 1
        self._counts[array] = number
        self._note(array)
        self._note((*array, number))
        return (*array, number)

    def _resolve(self, key: tuple[str, ...]) -> tuple[Part, ...]:
        """Return the path of a header: a name of an array of tables means its last element."""
        path: tuple[Part, ...] = ()
        for part in key:
            path = (*path, part)
            if path in self._counts:
                path = (*path, self._counts[path])
        return path

    def _note(self, path: tuple[Part, ...]) -> None:
        line = self._text.count("\n", 0, self._at) + 1
        for end in range(1, len(path) + 1):
            self.lines.setdefault(path[:end], line)

    def _pair(self, table: tuple[Part, ...]) -> None:
        key = self._key()
        path = (*table, *key)
        self._note(path)
        self._skip_blank()
        if self._peek() == "=":
            self._at += 1
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        parts = []
        while True:
            self._skip_blank()
            if self._peek() in "\"'":
                parts.append(self._string())
            elif found := _BARE.match(self._text, self._at):
                parts.append(found[0])
                self._at = found.end()
            else:
                break
            self._skip_blank()
            if self._peek() != ".":
                break
            self._at += 1
        return tuple(parts)

    def _value(self, path: tuple[Part, ...]) -> None:
        self._skip_blank()
        start = self._peek()
        if start in "\"'":
            self._string()
        elif start == "[":
            self._array(path)
        elif start == "{":
            self._inline(path)
        else:
            while self._peek() not in ",]}#\n\0":
                self._at += 1

    def _array(self, path: tuple[Part, ...]) -> None:
        self._at += 1
        number = 0
        while self._skip_blank() and self._peek() != "]":
            if self._peek() == ",":
                self._at += 1
                continue
            self._note((*path, number))
            self._value((*path, number))
            number += 1
        self._at += 1

    def _inline(self, path: tuple[Part, ...]) -> None:
        self._at += 1
        while self._skip_blank() and self._peek() != "}":
            if self._peek() == ",":
                self._at += 1
                continue
            before = self._at
            self._pair(path)
            if self._at == before:  # nothing that this scanner knows: give up on this table
                break
        self._at += 1

    def _string(self) -> str:
        quote = self._text[self._at]
        long = quote * 3
        if self._text.startswith(long, self._at):
            start, end = self._at + 3, long
        else:
            start, end = self._at + 1, quote
        position = start
        while position < len(self._text) and not self._text.startswith(end, position):
            position += 2 if quote == '"' and self._text[position] == "\\" else 1
        self._at = position + len(end)
        return self._text[start:position]

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else "\0"

    def _skip_blank(self) -> bool:
        """Move to the next character that means something; tell whether there is one."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                self._to_line_end()
            elif self._text[self._at].isspace():
                self._at += 1
            else:
                return True
        return False

    def _to_line_end(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end
