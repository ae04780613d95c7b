"""A patch as its author writes it: a header that says what and why, and one diff or several.

``<name>.patch`` is the whole in one file. ``<name>/`` is a patch with variants: ``header`` holds
the header, each ``*.patch`` a diff whose own header names the versions that it is for. The header
is made of ``Field: value`` lines, in the style of DEP-3:

- ``Description``: one sentence; ``Origin``, ``Forwarded``: as in DEP-3;
- ``Applies-To``: PEP 440 specifiers of the versions that the diff is for; absent: all;
- ``Needs-File``: a file without which the patch has no meaning, such as a model of later releases;
- ``Goal``: what must be true afterwards; any number of lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.errors import Location, PatchError, nearest
from buildkit.patches.goals import Goal, parse_goal
from buildkit.patches.parse import ENCODING, FileChange, parse_patch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from buildkit.values import SelectedPatch

__all__ = [
    "FIELDS",
    "Patch",
    "Variant",
    "choose_variant",
    "files_of",
    "load_patch",
    "ranges_of",
]

FIELDS = (
    "Description",
    "Origin",
    "Forwarded",
    "Author",
    "Applies-To",
    "Needs-File",
    "Goal",
)

_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*):\s*(.*)")
_DIFF = re.compile(r"^(--- |diff |Index: |===)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One diff, and the versions that it is for."""

    file: Path
    applies_to: str
    """PEP 440 specifiers; empty for all."""
    changes: tuple[FileChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch with its goals and variants."""

    name: str
    description: str
    origin: str
    forwarded: str
    needs_files: tuple[str, ...]
    goals: tuple[Goal, ...]
    variants: tuple[Variant, ...]


def load_patch(selected: SelectedPatch) -> Patch:
    """Return a patch, all of it parsed.

    :raises PatchError: if a file cannot be read, or anything in it is wrong; names the line.
    """
    if selected.file.is_dir():
        header = _read_header(_read(selected.file / "header"), selected.file / "header")
        files = sorted(selected.file.glob("*.patch"))
        if not files:
            raise _wrong(selected.file, None, "Found no diff, allowed one or more *.patch files.")
    else:
        header = _read_header(_head(_read(selected.file)), selected.file)
        files = [selected.file]
    return Patch(
        name=selected.name,
        description=" ".join(header.get("Description", ())),
        origin=" ".join(header.get("Origin", ())),
        forwarded=" ".join(header.get("Forwarded", ())),
        needs_files=tuple(header.get("Needs-File", ())),
        goals=tuple(_goals(header, selected.file)),
        variants=tuple(_variant(file) for file in files),
    )


def files_of(patch: Patch) -> tuple[str, ...]:
    """Return every file that a patch changes or that its goals look at, sorted."""
    names = {change.path for variant in patch.variants for change in variant.changes}
    names |= {clause.file for goal in patch.goals for clause in goal.clauses}
    return tuple(sorted(names | set(patch.needs_files)))


def choose_variant(patch: Patch, version: str) -> Variant | None:
    """Return the one diff that is for a version, or None.

    :raises PatchError: if more than one is.
    """
    from packaging.specifiers import SpecifierSet

    chosen = [
        variant
        for variant in patch.variants
        if not variant.applies_to
        or SpecifierSet(variant.applies_to).contains(version, prereleases=True)
    ]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        raise _wrong(
            chosen[1].file,
            None,
            f"More than one diff of {patch.name} is for version {version} ({ranges_of(patch)}).",
        )
    return None


def ranges_of(patch: Patch) -> str:
    """Return for which versions a patch has diffs, for messages."""
    return "; ".join(variant.applies_to or "all versions" for variant in patch.variants)


def _variant(file: Path) -> Variant:
    text = _read(file)
    header = _read_header(_head(text), file)
    applies_to = ",".join(header.get("Applies-To", ()))
    if applies_to:
        _check_specifiers(applies_to, file)
    return Variant(file=file, applies_to=applies_to, changes=parse_patch(text, str(file)))


def _goals(header: dict[str, list[str]], file: Path) -> Iterator[Goal]:
    for text in header.get("Goal", ()):
        try:
            yield parse_goal(text)
        except ValueError as error:
            raise _wrong(file, None, f"Goal: {error}") from None


def _head(text: str) -> str:
    """Return what stands before the first diff."""
    found = _DIFF.search(text)
    return text[: found.start()] if found else text


def _read_header(text: str, file: Path) -> dict[str, list[str]]:
    """Return the values of each field; a line that begins with a blank goes on with the last."""
    fields: dict[str, list[str]] = {}
    last = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line[0].isspace() and last:
            fields[last][-1] += f" {line.strip()}"
            continue
        found = _FIELD.fullmatch(line)
        if found is None or found[1] not in FIELDS:
            name = found[1] if found else line.strip()
            allowed = f"allowed {', '.join(FIELDS)}.{nearest(name, FIELDS)}"
            raise _wrong(file, number, f"Found {name!r} in the header, {allowed}")
        last = found[1]
        fields.setdefault(last, []).append(found[2].strip())
    return fields


def _check_specifiers(text: str, file: Path) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise _wrong(
            file, None, f"Applies-To: found {text!r}, allowed PEP 440 specifiers as '>=0.16,<0.17'."
        ) from None


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode(ENCODING)
    except OSError as error:
        raise _wrong(file, None, f"It cannot be read: {error.strerror}.") from error


def _wrong(file: Path, line: int | None, what: str) -> PatchError:
    return PatchError(
        what, where=Location(file=str(file), line=line), remedy="See the guide to patches."
    )
