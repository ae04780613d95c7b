"""Diffs are made: of two sets of contents, and as the merge of a patch with another release. Pure.

The merge itself is git's (``git merge-file``); it is handed in.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from buildkit.patches.apply import change_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from buildkit.patches.load import Variant

__all__ = ["merge_variant", "render_diff", "render_variant"]

#: Lines of context: enough to find a place again, few enough to carry little of others' text.
CONTEXT = 3


def render_diff(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return the unified diff between two sets of files, by name; a missing one is made or goes."""
    parts = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name):
            continue
        before = f"a/{name}" if name in old else "/dev/null"
        after = f"b/{name}" if name in new else "/dev/null"
        lines = difflib.unified_diff(
            _lines(old.get(name, "")), _lines(new.get(name, "")), before, after, n=CONTEXT
        )
        for line in lines:
            whole = line.endswith("\n")
            parts.append(line if whole else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def render_variant(applies_to: str, diff: str) -> str:
    """Return the text of a variant's file."""
    return f"Applies-To: {applies_to}\n\n{diff}"


def merge_variant(
    variant: Variant,
    base: Mapping[str, str],
    onto: Mapping[str, str],
    merge: Callable[[str, str, str], tuple[str, bool]],
) -> tuple[dict[str, str], list[str]]:
    """Return the files of another release with a variant's changes merged in, and the conflicts.

    :param base: Files of the release that the variant was made for.
    :param onto: Files of the other release.
    :raises PatchError: if the variant does not fit its own base.
    """
    merged = dict(onto)
    conflicts = []
    for change in variant.changes:
        before = base.get(change.path, "")
        patched = change_text(before, change, str(variant.file))
        text, is_clean = merge(patched, before, onto.get(change.path, ""))
        merged[change.new_path] = text
        if not is_clean:
            conflicts.append(change.new_path)
    return merged, conflicts


def _lines(text: str) -> list[str]:
    """Split at line feeds alone, as the applier does."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
