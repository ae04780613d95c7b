"""Patches are applied to a tree: all of them, or nothing changes.

Goals come first: a tree that reaches them all is left alone. New contents are computed from values
alone, the goals are judged again on them, then everything is written. A hunk that stands where the
patch says is taken; one whose old lines stand somewhere else, exactly once, is taken there;
everything else is refused with what was expected and what was found. Context is never dropped.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from buildkit.digest import digest_value
from buildkit.errors import Location, PatchError
from buildkit.patches.goals import is_reached
from buildkit.patches.load import choose_variant, load_patch, ranges_of
from buildkit.patches.parse import ENCODING
from buildkit.values import AlreadyUpstream, Applied, PatchedTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.patches.load import Patch
    from buildkit.patches.parse import FileChange, Hunk
    from buildkit.values import SelectedPatch, SourceTree

__all__ = [
    "Draft",
    "apply_one",
    "apply_patches",
    "change_text",
    "files_below",
    "write_draft",
]


class Draft:
    """Files as they will be: what changed is in memory, the rest where it came from."""

    def __init__(self, source: Callable[[str], bytes | None]) -> None:
        self._source = source
        self.contents: dict[str, str | None] = {}
        """By name, one character a byte; None for a file that goes."""
        self.modes: dict[str, bool] = {}
        """Whether a file becomes executable, where a patch says so."""

    def read(self, name: str) -> str | None:
        """Return a file byte for byte, as text of one character a byte; None if it is not there."""
        if name in self.contents:
            return self.contents[name]
        data = self._source(name)
        return None if data is None else data.decode(ENCODING)

    def text(self, name: str) -> str | None:
        """Return a file as people read it, for goals."""
        found = self.read(name)
        return None if found is None else found.encode(ENCODING).decode(errors="replace")


def files_below(root: Path) -> Callable[[str], bytes | None]:
    """Return a reader of the files of a tree.

    It raises PatchError for a name that leads out of the tree through a link.
    """

    def read(name: str) -> bytes | None:
        place = root / name
        if not place.resolve().is_relative_to(root.resolve()):
            raise PatchError(
                f"{name} leads out of the tree through a link.",
                remedy="Patch the file that the link names.",
            )
        try:
            return place.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    return read


def write_draft(draft: Draft, root: Path) -> None:
    """Write every file that changed.

    Not forced to the disk: a tree that a power cut leaves half patched is unpacked anew.

    :raises OSError: if the disk is full or the tree is read-only.
    """
    for name, text in draft.contents.items():
        place = root / name
        if text is None:
            place.unlink(missing_ok=True)
            continue
        is_executable = place.exists() and bool(place.stat().st_mode & 0o100)
        place.parent.mkdir(parents=True, exist_ok=True)
        # A file of its own: the old one may be a link, or linked to a cache.
        place.unlink(missing_ok=True)
        place.write_bytes(text.encode(ENCODING))
        place.chmod(0o755 if draft.modes.get(name, is_executable) else 0o644)


def apply_patches(
    tree: SourceTree, patches: Sequence[SelectedPatch], *, version: str, events: Events
) -> PatchedTree:
    """Apply patches in order and return the tree that has them all, each proven by its goals.

    :param version: Version of the source, which chooses among the variants of a patch.
    :raises PatchError: if one does not apply or does not reach its goals; the tree is then as it
        was.
    """
    draft = Draft(files_below(tree.path))
    outcomes = [apply_one(load_patch(selected), draft, version) for selected in patches]
    try:
        write_draft(draft, tree.path)
    except OSError as error:
        raise PatchError(
            f"The patched files cannot be written: {error.strerror or error}.",
            where=Location(file=str(tree.path)),
            remedy="Free some space, or make the directory writable.",
        ) from error
    for outcome in outcomes:
        told = ", ".join(outcome.files) if isinstance(outcome, Applied) else "already upstream"
        events.step("patch", f"{outcome.patch}: {told}")
    stamp = digest_value([tree.stamp, [patch.digest for patch in patches]])
    return PatchedTree(path=tree.path, stamp=stamp, outcomes=tuple(outcomes))


def apply_one(patch: Patch, draft: Draft, version: str) -> Applied | AlreadyUpstream:
    """Bring a draft to a patch's goals; nothing is written.

    :raises PatchError: if that fails; the draft is then of no use any more.
    """
    if patch.goals and all(is_reached(goal, draft.text) for goal in patch.goals):
        return AlreadyUpstream(patch=patch.name)
    absent = [name for name in patch.needs_files if draft.read(name) is None]
    if absent:
        raise PatchError(
            f"Patch {patch.name} is for trees that have {', '.join(absent)}, found none.",
            remedy=f"Take the patch out of the recipe for version {version}.",
        )
    variant = choose_variant(patch, version)
    if variant is None:
        raise PatchError(
            f"Patch {patch.name} is needed, and none of its diffs is for version {version} (they"
            f" are for {ranges_of(patch)}).",
            where=Location(file=str(patch.variants[0].file.parent)),
            remedy="Add a diff for it, with Applies-To.",
        )
    before = {change.path: draft.text(change.path) for change in variant.changes}
    for change in variant.changes:
        _apply(change, draft, str(variant.file))
    for change in variant.changes:
        if not change.new_path.endswith(".py") or _parses(draft.text(change.new_path)):
            continue
        # What was no valid Python before (a template, Python 2) may stay so.
        if _parses(before[change.path]):
            raise _refused(str(variant.file), f"It leaves {change.new_path} no valid Python.")
    missed = [goal.text for goal in patch.goals if not is_reached(goal, draft.text)]
    if missed:
        raise PatchError(
            f"Patch {patch.name} was applied and did not reach its goal: {'; '.join(missed)}.",
            where=Location(file=str(variant.file)),
            remedy="Mend the diff or the goal.",
        )
    return Applied(patch=patch.name, files=tuple(change.new_path for change in variant.changes))


def _parses(text: str | None) -> bool:
    """Tell whether a text is valid Python; a file that is not there is an empty one."""
    try:
        ast.parse(text or "")
    except (SyntaxError, ValueError):
        return False
    return True


def _apply(change: FileChange, draft: Draft, patch: str) -> None:
    before = draft.read(change.path)
    if change.kind == "create":
        if before is not None:
            raise _refused(patch, f"It makes {change.path}, which exists already.")
        before = ""
    elif before is None:
        raise _refused(patch, f"It changes {change.path}, which does not exist.")
    after = change_text(before, change, patch)
    if change.kind == "delete":
        if after:
            raise _refused(patch, f"It removes {change.path}, which holds more than it says.")
        draft.contents[change.path] = None
        return
    if change.kind == "rename":
        if draft.read(change.new_path) is not None:
            raise _refused(patch, f"It renames {change.path} to {change.new_path}, which exists.")
        draft.contents[change.path] = None
    draft.contents[change.new_path] = after
    if change.is_executable is not None:
        draft.modes[change.new_path] = change.is_executable


def change_text(text: str, change: FileChange, patch: str) -> str:
    """Return a text with all hunks of a change applied. Pure.

    :param patch: What messages call the patch.
    :raises PatchError: if a hunk does not fit, or fits more than one place.
    """
    lines = _split(text)
    shift = 0
    done = 0
    for hunk in change.hunks:
        wanted = max(hunk.old_start - 1, 0) + shift
        place = _find(lines, hunk, wanted, done, change.path, patch)
        lines[place : place + len(hunk.old)] = hunk.new
        shift = place - max(hunk.old_start - 1, 0) + len(hunk.new) - len(hunk.old)
        done = place + len(hunk.new)
    return "".join(lines)


def _split(text: str) -> list[str]:
    """Split at line feeds alone: a lone carriage return is a character like any other."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _find(lines: Sequence[str], hunk: Hunk, wanted: int, start: int, path: str, patch: str) -> int:
    """Return the index at which a hunk's old lines stand."""
    if _stands_at(lines, hunk, wanted, start):
        return wanted
    places = [
        index
        for index in range(start, len(lines) - len(hunk.old) + 1)
        if _stands_at(lines, hunk, index, start)
    ]
    if len(places) == 1:
        return places[0]
    where = Location(file=patch, line=hunk.line, key=path)
    if places:
        listed = ", ".join(str(place + 1) for place in places)
        raise PatchError(
            f"Hunk {hunk.header} of {path} fits at lines {listed}, allowed one place.",
            where=where,
            remedy="Give the hunk more context.",
        )
    if _is_applied(lines, hunk):
        raise PatchError(
            f"Hunk {hunk.header} of {path} is applied already.",
            where=where,
            remedy="Take the patch out of the recipe for this version.",
        )
    raise PatchError(_difference(lines, hunk, wanted, path), where=where, remedy=_REMEDY)


_REMEDY = "Make the patch again for this version of the source."


def _stands_at(lines: Sequence[str], hunk: Hunk, index: int, start: int) -> bool:
    """Tell whether a hunk's old lines stand at an index, and as near the ends as they must."""
    end = index + len(hunk.old)
    if index < start or (hunk.is_at_start and index > 0):
        return False
    if hunk.is_at_end and end != len(lines):
        return False
    # The first line alone rules out nearly every place of a long file.
    is_likely = end <= len(lines) and (not hunk.old or lines[index] == hunk.old[0])
    return is_likely and _equal(lines, index, hunk.old)


def _equal(lines: Sequence[str], index: int, block: tuple[str, ...]) -> bool:
    return tuple(lines[index : index + len(block)]) == block


def _is_applied(lines: Sequence[str], hunk: Hunk) -> bool:
    size = len(hunk.new)
    return size > 0 and any(
        _equal(lines, index, hunk.new) for index in range(len(lines) - size + 1)
    )


def _difference(lines: Sequence[str], hunk: Hunk, wanted: int, path: str) -> str:
    """Say at which line the place that the patch names differs."""
    found = lines[wanted : wanted + len(hunk.old)]
    for number, line in enumerate(hunk.old):
        there = found[number] if number < len(found) else None
        if there != line:
            told = "the end of the file" if there is None else repr(_plain(there))
            return (
                f"Hunk {hunk.header} does not fit {path}: line {wanted + number + 1} should be"
                f" {_plain(line)!r}, found {told}."
            )
    return f"Hunk {hunk.header} does not fit {path}: an earlier hunk took its place."


def _plain(line: str) -> str:
    return line.rstrip("\r\n").encode(ENCODING).decode("utf-8", errors="replace")


def _refused(patch: str, what: str) -> PatchError:
    return PatchError(what, where=Location(file=patch), remedy=_REMEDY)
