"""The story of ``install``: what the kit made becomes part of an environment.

Look at the environment, find or make the wheels, resolve all of it at once, stage the files inside
the environment, swap, and see that it imports; a failure anywhere leaves the environment as it was.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit import launcher
from buildkit.cache import require_cache
from buildkit.environ import base_environment
from buildkit.errors import InstallError, JobError, Location
from buildkit.install.place import read_place, read_present
from buildkit.install.resolve import fill, resolve
from buildkit.install.swap import files_of, open_stage, restore_interrupted
from buildkit.install.wishes import draft_all, fulfil, paired, published, wish_of_file
from buildkit.lock.install import held, require_writable
from buildkit.sources.settings import read_index_settings
from buildkit.values import ImportPassed, ImportSkipped
from buildkit.verify import has_gpu, import_command, last_line
from buildkit.wheels.installed import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from buildkit.install.place import Place, Present
    from buildkit.install.resolve import Change
    from buildkit.install.wishes import Wish
    from buildkit.kit import Kit, Supply
    from buildkit.request import Request

__all__ = ["InstallRequest", "Installation", "install"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRequest:
    """What a user wants of ``install``."""

    python: str
    """The environment, or its interpreter."""
    recipes: tuple[Request, ...]
    wheels: tuple[Path, ...] = ()
    """Files to install besides."""
    is_offline: bool = False
    is_dry_run: bool = False
    """Only tell what would change."""
    makes: bool = True
    """Make what the cache lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What ``install`` did, or would do."""

    environment: Path
    wishes: tuple[Wish, ...]
    changes: tuple[Change, ...]
    imports: dict[str, ImportPassed | ImportSkipped]
    """By distribution; empty after a dry run."""

    @property
    def unverified(self) -> Iterator[str]:
        """Say what nobody has seen to work."""
        for name, outcome in self.imports.items():
            if isinstance(outcome, ImportSkipped):
                listed = f" of {', '.join(outcome.modules)}" if outcome.modules else ""
                yield f"the import{listed} ({name}): {outcome.reason}"
        yield "any kernel: none was run" + ("" if has_gpu() else ", there is no GPU here")


def install(request: InstallRequest, kit: Kit) -> Installation:
    """Install what was asked for into an environment.

    :raises InstallError: if it cannot be installed, or does not import; the environment is then as
        it was.
    :raises BuildkitError: of the stage of a make that failed; nothing was changed then.
    """
    settings = read_index_settings(kit.environment)
    supply = kit.supply(settings, is_offline=request.is_offline)
    require_cache(kit.paths)
    place = read_place(request.python, kit)
    if not request.is_dry_run:
        require_writable((place.root, *place.site_packages))
    requests, indexed = published(paired(request.recipes, kit), kit)
    drafts = draft_all(requests, kit)
    files = [wish_of_file(wheel) for wheel in request.wheels]
    made = fulfil(drafts, kit, makes=request.makes, is_told=request.is_dry_run)
    wishes = (*made, *indexed, *files)
    _refuse_twice(wishes)
    with held(place.root, kit):
        if not request.is_dry_run and restore_interrupted(place):
            kit.events.warning("A killed installation was taken back first.")
        present = read_present(place)
        found = resolve(wishes, present, place, supply)
        # Where a wheel is only to be made, the index may have filled its place.
        unmade = {wish.project for wish in made if wish.wheel is None}
        changes = tuple(change for change in found if change.name not in unmade)
        for change in changes:
            kit.events.step("change", str(change))
        imports = {}
        if not request.is_dry_run:
            imports = _change(changes, wishes, present, place, supply, kit)
    return Installation(environment=place.root, wishes=wishes, changes=changes, imports=imports)


def _refuse_twice(wishes: Sequence[Wish]) -> None:
    projects = [wish.project for wish in wishes]
    for wish in wishes:
        if projects.count(wish.project) > 1:
            raise InstallError(
                f"Two of the wheels are of {wish.project}.",
                where=Location(file="command line"),
                remedy="Leave one of them away.",
            )


def _change(
    changes: Sequence[Change],
    wishes: Sequence[Wish],
    present: Mapping[str, Present],
    place: Place,
    supply: Supply,
    kit: Kit,
) -> dict[str, ImportPassed | ImportSkipped]:
    """Change the environment and verify it, or leave it as it was."""
    stage = open_stage(place)
    try:
        if changes:
            _warn_of_patches(changes, present, kit)
            kit.events.step("install", ", ".join(change.name for change in changes))
            fill(stage.new, changes, wishes, place, supply)
            old = [present[change.name] for change in changes if change.name in present]
            stage.swap([file for item in old for file in files_of(item, place)])
        imports = {str(wish): _verify(wish, place, kit) for wish in wishes}
    except OSError as error:
        stage.undo()
        raise JobError(
            f"The environment cannot be changed: {error.strerror or error}.",
            where=Location(file=str(error.filename or place.root)),
            remedy="It is as it was. Free some space, or see who may write there.",
        ) from error
    except BaseException:
        stage.undo()
        raise
    stage.keep()
    return imports


def _warn_of_patches(changes: Sequence[Change], present: Mapping[str, Present], kit: Kit) -> None:
    for change in changes:
        if change.name in present and present[change.name].record.read_text(STATE):
            kit.events.warning(
                f"{change.name} was patched in place, and loses these patches: `buildkit patch"
                " status` says which."
            )


def _verify(wish: Wish, place: Place, kit: Kit) -> ImportPassed | ImportSkipped:
    """Import the modules of a wish where it is installed, without network.

    :raises InstallError: if one does not import although it needs no GPU, or there is one.
    """
    if not wish.imports:
        return ImportSkipped(modules=(), reason="no recipe names a module")
    roots = tuple(
        dict.fromkeys((*place.site_packages, *(p.resolve() for p in place.site_packages)))
    )
    command = import_command(place.python, roots, wish.imports)
    with tempfile.TemporaryDirectory(prefix="buildkit-import-") as folder:
        variables = base_environment(kit.environment) | {"HOME": folder, "TMPDIR": folder}
        variables.pop("XDG_CACHE_HOME", None)
        done = kit.runner.capture(
            launcher.isolated(command, launcher.probe_isolation(kit.runner, kit.environment)),
            env=variables,
            cwd=Path(folder),
            timeout_seconds=600,
        )
    if done.status == 0:
        kit.events.step("verify", f"{wish}: import ok ({', '.join(wish.imports)})")
        return ImportPassed(modules=wish.imports)
    said = last_line(done.stderr)
    if wish.needs_gpu and not has_gpu():
        reason = f"it needs a GPU, and there is none here; without one it ends with {said!r}"
        kit.events.step("verify", f"{wish}: import NOT verified, {reason}")
        return ImportSkipped(modules=wish.imports, reason=reason)
    raise InstallError(
        f"{wish} does not import where it was installed ({', '.join(wish.imports)}): {said}",
        where=Location(file=str(place.root)),
        remedy="The environment is as it was.",
    )
