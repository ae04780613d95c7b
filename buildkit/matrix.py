"""The story of ``patch matrix``: what each patch would do to each release of a package.

Nothing is written but what :mod:`buildkit.sources.releases` keeps of each sdist.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from buildkit.cache import require_cache
from buildkit.errors import Location, PatchError, RequestError
from buildkit.events import Progress
from buildkit.patches.apply import Draft, apply_one
from buildkit.patches.goals import is_reached
from buildkit.patches.load import choose_variant, files_of, load_patch
from buildkit.patches.parse import ENCODING
from buildkit.patches.select import known_patches, select_patches
from buildkit.sources.releases import Shelf, find_releases
from buildkit.sources.settings import read_index_settings
from buildkit.values import AlreadyUpstream

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Kit
    from buildkit.patches.load import Patch

__all__ = ["Cell", "State", "judge", "matrix"]

State = Literal["applies", "already upstream", "not applicable", "no diff", "conflict"]
"""``no diff``: a goal is not reached and no diff is for this version, which needs a maintainer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one patch would do to one release."""

    version: str
    patch: str
    state: State
    detail: str = ""


def matrix(package: str, folder: Path, versions: str, kit: Kit) -> tuple[Cell, ...]:
    """Return a cell for every patch and every release in a range, newest release first.

    :param package: Project on the index.
    :param folder: Directory of the package's patches.
    :param versions: PEP 440 specifiers.
    :raises PatchError: if a patch is not sound.
    :raises SourceError: if a release cannot be fetched.
    """
    require_cache(kit.paths)
    patches = [load_patch(found) for found in select_patches(known_patches(folder), folder)]
    if not patches:
        raise RequestError(
            f"There are no patches for {package} in {folder}.",
            where=Location(file="command line"),
            remedy="Give --patches DIR, or the name of a package that has some.",
        )
    names = tuple(sorted({name for patch in patches for name in files_of(patch)}))
    settings = read_index_settings(kit.environment)
    releases = find_releases(package, versions, settings)
    shelf = Shelf(kit.supply(settings, is_offline=False), names)
    cells: list[Cell] = []
    # Fetching waits for the network, so that a few at a time are enough.
    with ThreadPoolExecutor(max_workers=4) as pool:
        fetched = pool.map(shelf.files, releases)
        for done, (release, files) in enumerate(zip(releases, fetched, strict=True), start=1):
            kit.events.progress(
                Progress(done=done, total=len(releases), unit="releases", current=release.version)
            )
            cells += [judge(patch, release.version, files) for patch in patches]
    return tuple(cells)


def judge(patch: Patch, version: str, files: dict[str, str]) -> Cell:
    """Return what a patch would do to a tree. Pure.

    :param files: Contents by name, one character a byte; what is missing is not in the tree.
    """

    def source(name: str) -> bytes | None:
        return files[name].encode(ENCODING) if name in files else None

    def cell(state: State, detail: str = "") -> Cell:
        return Cell(version=version, patch=patch.name, state=state, detail=detail)

    draft = Draft(source)
    if any(name not in files for name in patch.needs_files):
        return cell("not applicable")
    if patch.goals and all(is_reached(goal, draft.text) for goal in patch.goals):
        return cell("already upstream")
    try:
        if choose_variant(patch, version) is None:
            missed = [goal.text for goal in patch.goals if not is_reached(goal, draft.text)]
            return cell("no diff", "; ".join(missed))
        outcome = apply_one(patch, draft, version)
    except PatchError as error:
        return cell("conflict", error.what)
    return cell("already upstream" if isinstance(outcome, AlreadyUpstream) else "applies")
