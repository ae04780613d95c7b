"""A unified diff becomes changes: which file, which hunks, which lines. Pure.

Parsed with unidiff. Refused by name: binary changes, and names that lead out of the tree.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any, Literal

from buildkit.errors import Location, PatchError

__all__ = ["ENCODING", "FileChange", "Hunk", "parse_patch"]

#: How bytes travel through text unharmed: a patch need not be UTF-8.
ENCODING = "latin-1"

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")

#: Lines between hunks that begin like one of a hunk: file names, and the end mark of an e-mail.
_PREAMBLE = re.compile(r"(--- |\+\+\+ |-- ?$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that stand together in the old file, and what stands there in the new one."""

    header: str
    line: int
    """Line of the patch file, from 1, for messages."""
    old_start: int
    """Where the old lines should stand, from 1; 0 for a file that is made."""
    old: tuple[str, ...]
    """With their line ends."""
    new: tuple[str, ...]
    is_at_start: bool
    """It stands at the beginning of the file: it says line 1, or nothing stood there."""
    is_at_end: bool
    """It stands at the end of the file: no context follows it. Source: git, apply.c."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What happens to one file."""

    kind: Literal["change", "create", "delete", "rename"]
    path: str
    """Of the old file; of the new one if it is made."""
    new_path: str
    hunks: tuple[Hunk, ...]
    is_executable: bool | None = None
    """New permission, if the patch sets it."""


def parse_patch(text: str, file: str) -> tuple[FileChange, ...]:
    """Return the changes that a unified diff describes.

    :param file: What messages call it.
    :raises PatchError: if it is none, or not safe.
    """
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    if "GIT binary patch" in text or "\nBinary files " in text:
        raise _wrong(file, "It changes a binary file; only text can be reviewed.")
    try:
        parsed = PatchSet(
            [f"{line}\n" for line in text.split("\n")[: -1 if text.endswith("\n") else None]]
        )
    except UnidiffParseError as error:
        raise _wrong(file, f"It is no unified diff: {error}.") from error
    if not parsed:
        raise _wrong(file, "It changes nothing: found no hunk.")
    _check_strays(text, file)
    return tuple(_change(entry, file) for entry in parsed)


def _check_strays(text: str, file: str) -> None:
    """Refuse lines that look like a part of a hunk and stand in none: unidiff passes over them.

    :raises PatchError: naming the first such line.
    """
    old = new = 0
    has_begun = False
    for number, line in enumerate(text.split("\n"), start=1):
        if has_begun and line[:1] == "\\":
            # "\ No newline at end of file", in whatever language. Source: git, apply.c.
            if not line.startswith("\\ ") or len(line) < 12:
                raise _wrong(file, f"It is no unified diff: line {number} begins with a backslash.")
            continue
        if old > 0 or new > 0:
            kind = line[:1]
            old -= kind in (" ", "-", "")
            new -= kind in (" ", "+", "")
            continue
        header = _HUNK.match(line)
        if header is not None:
            has_begun = True
            old, new = (int(count) if count else 1 for count in header.groups())
        elif has_begun and line[:1] in (" ", "+", "-", "@") and not _PREAMBLE.match(line):
            raise _wrong(file, f"It is no unified diff: line {number} belongs to no hunk.")
        elif line.startswith("--- "):
            has_begun = True


def _change(entry: Any, file: str) -> FileChange:
    old, new = _name(entry.source_file), _name(entry.target_file)
    for name in (old, new):
        if name is not None:
            _check(name, file)
    kind: Literal["change", "create", "delete", "rename"] = "change"
    if old is None:
        kind, old = "create", new
    elif new is None:
        kind, new = "delete", old
    elif old != new:
        kind = "rename"
    if old is None or new is None:
        raise _wrong(file, "A change names no file.")
    if kind == "change" and not len(entry) and "mode" not in str(entry.patch_info or ""):
        raise _wrong(file, f"It changes nothing in {old}: found no hunk.")
    info = str(entry.patch_info or "")
    mode = None
    for line in info.splitlines():
        if line.startswith(("new mode ", "new file mode ")):
            mode = line.rstrip().endswith("755")
    return FileChange(
        kind=kind,
        path=old,
        new_path=new,
        hunks=tuple(_hunk(hunk) for hunk in entry),
        is_executable=mode,
    )


def _hunk(hunk: Any) -> Hunk:
    old: list[str] = []
    new: list[str] = []
    previous = " "
    for line in hunk:
        if line.line_type == "\\":  # "No newline at end of file" speaks of the line before
            _chop(previous, old, new)
            continue
        if line.line_type in (" ", "-"):
            old.append(line.value)
        if line.line_type in (" ", "+"):
            new.append(line.value)
        previous = line.line_type
    first = next((line.diff_line_no for line in hunk), 1)
    header = (
        f"@@ -{hunk.source_start},{hunk.source_length} +{hunk.target_start},{hunk.target_length} @@"
    )
    return Hunk(
        header=header,
        line=max(1, (first or 1) - 1),
        old_start=hunk.source_start,
        old=tuple(old),
        new=tuple(new),
        is_at_start=hunk.source_start <= 1,
        is_at_end=previous != " ",
    )


def _chop(kind: str, old: list[str], new: list[str]) -> None:
    for lines, kinds in ((old, " -"), (new, " +")):
        if kind in kinds and lines:
            lines[-1] = lines[-1].rstrip("\r\n") if lines[-1].endswith("\n") else lines[-1]


def _name(text: str | None) -> str | None:
    """Return a name without git's ``a/`` or ``b/``, and without the tab and time of diff -u."""
    if text is None:
        return None
    name = text.split("\t")[0].strip().strip('"')
    if name == "/dev/null":
        return None
    return name[2:] if name.startswith(("a/", "b/")) else name


def _check(name: str, file: str) -> None:
    plain = posixpath.normpath(name)
    if plain.startswith(("/", "../")) or plain in ("..", ".") or "\0" in name:
        raise _wrong(file, f"It names {name!r}, which leads out of the tree.")


def _wrong(file: str, what: str) -> PatchError:
    return PatchError(
        what, where=Location(file=file), remedy="Make it again with `diff -u` or `git diff`."
    )
