"""The stories of making patches: new, rebase and refresh.

``new`` takes an edited tree, ``rebase`` another release, ``refresh`` what a person made of a
rebase's conflicts. A rebase merges three texts per file: the release that the patch was made for,
that release with the patch, and the other release. What git cannot merge is left in a work
directory with ordinary conflict markers; ``refresh`` takes it from there.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.environ import base_environment
from buildkit.errors import Location, PatchError, RequestError
from buildkit.fs import remove_tree, write_atomic
from buildkit.patches.apply import Draft, apply_one
from buildkit.patches.goals import is_reached
from buildkit.patches.load import Patch, choose_variant, files_of, load_patch
from buildkit.patches.make import merge_variant, render_diff, render_variant
from buildkit.patches.parse import ENCODING
from buildkit.patches.select import select_patches
from buildkit.sources.releases import Shelf, find_releases
from buildkit.sources.settings import read_index_settings
from buildkit.values import AlreadyUpstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.kit import Kit

__all__ = ["Rebased", "new_patch", "rebase", "refresh"]

_NOTE = "rebase.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """How a rebase ended."""

    base: str
    """The release that the patch was made for."""
    file: Path | None
    """The new diff, or None."""
    work: Path | None
    """Where conflicts wait to be mended, or None."""
    conflicts: tuple[str, ...] = ()
    is_upstream: bool = False
    """The release reaches the goals without the patch."""


def new_patch(old: Path, new: Path, description: str) -> str:
    """Return a patch that turns one tree into another.

    :raises RequestError: if a tree does not exist, or the two are equal.
    """
    for tree in (old, new):
        if not tree.is_dir():
            raise RequestError(
                f"Found {str(tree)!r}, allowed a directory.",
                where=Location(file="command line"),
                remedy="Name the tree as it was, then the edited one.",
            )
    diff = render_diff(_tree(old), _tree(new))
    if not diff:
        raise RequestError(
            f"{old} and {new} are equal.",
            where=Location(file="command line"),
            remedy="Edit the second one first.",
        )
    header = f"Description: {description}\nOrigin: own\nForwarded: no\n"
    return f"{header}\n{diff}"


def rebase(package: str, folder: Path, name: str, onto: str, kit: Kit, *, work: Path) -> Rebased:
    """Make a diff of a patch for another release.

    :param folder: Directory of the package's patches.
    :param work: Where conflicts are left; must not exist.
    :raises PatchError: if the patch does not fit its own base.
    :raises SourceError: if a release cannot be fetched.
    """
    (selected,) = select_patches((name,), folder)
    patch = load_patch(selected)
    supply = kit.supply(read_index_settings(kit.environment), is_offline=False)
    shelf = Shelf(supply, files_of(patch))
    (target,) = find_releases(package, f"=={onto}", supply.settings)
    files = shelf.files(target)
    variant = patch.variants[-1]
    base = find_releases(package, variant.applies_to or f"<{onto}", supply.settings)[0]
    draft = Draft(lambda file: files[file].encode(ENCODING) if file in files else None)
    if choose_variant(patch, onto) is not None or _is_upstream(patch, draft):
        outcome = apply_one(patch, draft, onto)
        is_upstream = isinstance(outcome, AlreadyUpstream)
        return Rebased(base=base.version, file=None, work=None, is_upstream=is_upstream)

    def merge(ours: str, middle: str, theirs: str) -> tuple[str, bool]:
        return _merge_file(ours, middle, theirs, kit)

    merged, conflicts = merge_variant(variant, shelf.files(base), files, merge)
    touched = {change.new_path for change in variant.changes}
    before = {file: text for file, text in files.items() if file in touched}
    after = {file: text for file, text in merged.items() if file in touched}
    if conflicts:
        _leave(work, selected.file, onto, before, after)
        return Rebased(base=base.version, file=None, work=work, conflicts=tuple(conflicts))
    return Rebased(base=base.version, file=_record(selected.file, onto, before, after), work=None)


def refresh(work: Path) -> Path:
    """Record what was mended by hand in a work directory of ``rebase``; returns the new diff.

    :raises PatchError: if conflict markers are still there, or the goals are not reached.
    """
    try:
        note = json.loads((work / _NOTE).read_bytes())
    except (OSError, ValueError) as error:
        raise RequestError(
            f"{work} is no work directory of a rebase: {error}.",
            where=Location(file="command line"),
            remedy="Give the directory that `buildkit patch rebase` named.",
        ) from error
    before, after = _tree(work / "a"), _tree(work / "b")
    for name, text in after.items():
        if "\n<<<<<<< " in f"\n{text}":
            raise PatchError(
                f"{name} still holds conflict markers.",
                where=Location(file=str(work / "b" / name)),
                remedy="Mend it, then run refresh again.",
            )
    file = _record(Path(note["patch"]), note["onto"], before, after)
    remove_tree(work)
    return file


def _record(patch: Path, onto: str, before: Mapping[str, str], after: Mapping[str, str]) -> Path:
    """Write the diff as a variant; a patch in one file becomes a directory first.

    :raises PatchError: if the patch does not reach its goals with it; nothing is written then.
    """
    text = render_variant(f"=={onto}", render_diff(before, after)).encode(ENCODING)
    try:
        _try(patch, onto, before, text)
    except PatchError as error:
        raise PatchError(
            error.what,
            where=Location(file=f"{onto}.patch of {patch.stem}"),
            remedy="Mend the files in the work directory, then run refresh.",
        ) from None
    home = patch.parent / patch.stem
    if patch.is_file():
        home.mkdir()
        _as_directory(patch, home)
        patch.unlink()
    write_atomic(home / f"{onto}.patch", text)
    return home / f"{onto}.patch"


def _try(patch: Path, onto: str, before: Mapping[str, str], text: bytes) -> None:
    """See in a copy whether a patch with one more variant reaches its goals.

    :raises PatchError: if it does not.
    """
    with tempfile.TemporaryDirectory(prefix="buildkit-") as folder:
        trial = Path(folder) / patch.stem
        trial.mkdir()
        _as_directory(patch, trial)
        (trial / f"{onto}.patch").write_bytes(text)
        (selected,) = select_patches((trial.name,), trial.parent)
        draft = Draft(lambda name: before[name].encode(ENCODING) if name in before else None)
        apply_one(_only(load_patch(selected), set(before)), draft, onto)


def _as_directory(patch: Path, home: Path) -> None:
    """Lay a patch out as a directory with a header and its diffs."""
    if patch.is_dir():
        for file in patch.iterdir():
            write_atomic(home / file.name, file.read_bytes())
        return
    text = patch.read_text(ENCODING)
    start = min(at for mark in ("--- ", "diff ") if (at := text.find(mark)) >= 0)
    fields = text[:start].strip().splitlines()
    applies = [line for line in fields if line.startswith("Applies-To:")]
    header = "\n".join(line for line in fields if line not in applies)
    write_atomic(home / "header", f"{header}\n".encode(ENCODING))
    body = "\n".join([*applies, "", text[start:]])
    write_atomic(home / "1.patch", body.encode(ENCODING))


def _only(patch: Patch, names: set[str]) -> Patch:
    """Return a patch with the goals that the files at hand can answer."""
    import dataclasses

    goals = tuple(
        goal for goal in patch.goals if any(clause.file in names for clause in goal.clauses)
    )
    return dataclasses.replace(patch, goals=goals, needs_files=())


def _is_upstream(patch: Patch, draft: Draft) -> bool:
    return bool(patch.goals) and all(is_reached(goal, draft.text) for goal in patch.goals)


def _leave(
    work: Path, patch: Path, onto: str, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Lay out both trees for a person: ``a`` as released, ``b`` with the conflict markers."""
    if work.exists():
        raise RequestError(
            f"{work} exists already.",
            where=Location(file="command line", key="--work"),
            remedy="Refresh or remove it, or name another directory.",
        )
    for side, files in (("a", before), ("b", after)):
        for name, text in files.items():
            write_atomic(work / side / name, text.encode(ENCODING))
    note = {"patch": str(patch), "onto": onto}
    write_atomic(work / _NOTE, json.dumps(note).encode())


def _merge_file(ours: str, base: str, theirs: str, kit: Kit) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory(prefix="buildkit-") as folder:
        places = [Path(folder) / name for name in ("patched", "base", "release")]
        for place, text in zip(places, (ours, base, theirs), strict=True):
            place.write_bytes(text.encode(ENCODING))
        labels = [part for name in ("patch", "base", "release") for part in ("-L", name)]
        done = kit.runner.capture(
            ["git", "merge-file", *labels, *places], env=base_environment(kit.environment)
        )
        return places[0].read_bytes().decode(ENCODING), done.status == 0


def _tree(root: Path) -> dict[str, str]:
    """Return the contents of a tree's files by name, one character a byte."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes().decode(ENCODING)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".git", "__pycache__"} & set(path.parts)
    }
