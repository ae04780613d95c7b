"""The preparation of a build: environment, toolkit, fetched and patched source, in a slot.

What enters: a plan. What leaves: what :mod:`buildkit.build` and a person's shell need. The slot's
source is renewed by rewriting only what changed, so that objects of an earlier build stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.build import prepare_slot
from buildkit.digest import digest_bytes, digest_value
from buildkit.drift import check_drift
from buildkit.environ import base_environment
from buildkit.errors import Location, RecipeError, RequestError
from buildkit.fs import write_atomic
from buildkit.launcher import probe_isolation
from buildkit.paths import Slot
from buildkit.recipe.place import blaming_source
from buildkit.sources.fetch import unpack_source
from buildkit.sources.place import is_as_placed, place_tree
from buildkit.sources.settings import read_index_settings
from buildkit.survey import choose_cuda
from buildkit.toolchain.accept import check_cmake, check_torch
from buildkit.toolchain.environment import ensure_environment, read_environment
from buildkit.toolchain.system import ensure_sysroot
from buildkit.toolchain.toolkit import ensure_toolkit
from buildkit.values import PatchedTree
from buildkit.workshop import Workshop

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.cache.compiled import ObjectCache
    from buildkit.kit import Kit, Supply
    from buildkit.launcher import Admission
    from buildkit.paths import Paths
    from buildkit.recipe.model import Recipe
    from buildkit.request import Request
    from buildkit.values import Plan, ResolvedSource, ToolIdentity

__all__ = ["Prepared", "prepare", "read_key", "slot_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A slot that is ready to build in."""

    tree: PatchedTree
    workshop: Workshop
    is_edited: bool
    """Whether the source is another than the plan's: changed by hand, or of an earlier plan."""


def read_key(file: Path) -> str:
    """Return the key that a file of a slot names, or an empty text."""
    try:
        return file.read_text()
    except OSError:
        return ""


def slot_of(paths: Paths, plan: Plan) -> Slot:
    """Return the slot of a plan: one per recipe, version, target, interpreter and environment."""
    name = f"{plan.recipe}-{plan.version}-{plan.arch.name}-{plan.python.tag}-{plan.lock.digest[:8]}"
    return Slot(paths.builds / name)


def prepare(
    recipe: Recipe,
    recipe_file: Path,
    plan: Plan,
    slot: Slot,
    request: Request,
    kit: Kit,
    *,
    admission: Admission,
    keeps_source: bool,
    checks_drift: bool,
) -> Prepared:
    """Make a slot ready; the caller holds its lock.

    :param admission: How compiler calls are let in.
    :param keeps_source: Take the slot's source as it stands.
    :param checks_drift: Refuse a project that would fetch what the recipe does not hand over.
    :raises BuildkitError: of the stage that failed.
    """
    settings = read_index_settings(kit.environment)
    supply = kit.supply(settings, is_offline=request.is_offline)
    # The sources come first: what is wrong with them shows before the environment is fetched.
    has_objects = prepare_slot(slot, plan)
    if has_objects:
        kit.events.step("resume", "objects of the last build are kept")
    _place_include(plan, slot)
    tree, sources = _sources(plan, slot, recipe_file, supply, keeps_source=keeps_source)
    if checks_drift:
        check_drift(plan, tree, sources, kit.events)
    sysroot = ensure_sysroot(plan.system, _tool(plan, "gcc"), supply)
    environment = _environment(plan, request, supply)
    toolkit = _toolkit(recipe, plan, environment, request, supply, kit)
    if recipe.toolchain.cuda and (plan.backend == "torch" or recipe.torch):
        check_torch(environment, plan.code, _tool(plan, "nvcc").version, kit.events)
    if plan.backend == "cmake" and recipe.toolchain.cuda:
        variables = base_environment(kit.environment)
        check_cmake(environment, plan.code, runner=kit.runner, variables=variables)
    workshop = Workshop(
        slot=slot,
        environment=environment,
        cuda_root=toolkit,
        sysroot=sysroot,
        variables=base_environment(kit.environment),
        sources=sources,
        isolation=probe_isolation(kit.runner, kit.environment),
        admission=admission,
        objects=_objects(plan, toolkit, request, kit),
    )
    is_edited = not is_as_placed(slot.source) or read_key(slot.source_key) != plan.key
    return Prepared(tree=tree, workshop=workshop, is_edited=is_edited)


def _environment(plan: Plan, request: Request, supply: Supply) -> Path:
    if request.existing_environment is not None:
        root, _ = read_environment(
            request.existing_environment, runner=supply.runner, environment=supply.environment
        )
        return root
    return ensure_environment(plan.lock, plan.python, supply)


def _toolkit(
    recipe: Recipe,
    plan: Plan,
    environment: Path,
    request: Request,
    supply: Supply,
    kit: Kit,
) -> Path | None:
    choice = choose_cuda(recipe, request, plan.python, kit)
    if choice is None:
        return None
    return ensure_toolkit(
        choice,
        plan.lock,
        environment,
        plan.code,
        _tool(plan, "gcc"),
        plan.python,
        supply,
    )


def _objects(plan: Plan, toolkit: Path | None, request: Request, kit: Kit) -> ObjectCache | None:
    """Return where objects are kept, or None where every unit is compiled.

    :raises RequestError: if the user insists, and what the compilers call cannot be told.
    """
    if request.object_cache == "off":
        return None
    from buildkit.cache.compiled import CACHE_TAG, ObjectCache, ccache_binary
    from buildkit.toolchain.programs import probe_programs

    programs = probe_programs(
        _tool(plan, "gcc").path,
        _tool(plan, "g++").path,
        toolkit,
        runner=kit.runner,
        environment=kit.environment,
        memo=kit.paths.memo,
    )
    if programs.refusal:
        if request.object_cache == "ccache":
            raise RequestError(
                f"Objects cannot be kept: {programs.refusal}.",
                where=Location(file="request", key="--object-cache"),
                remedy="Put the compiler itself first in PATH, or say --object-cache off.",
            )
        kit.events.warning(f"Every unit is compiled: {programs.refusal}.")
        return None
    folder = kit.paths.objects
    kit.holds.hold(folder)
    if not (folder / "CACHEDIR.TAG").is_file():
        write_atomic(folder / "CACHEDIR.TAG", CACHE_TAG)
    return ObjectCache(
        program=ccache_binary(),
        folder=folder,
        root=kit.paths.root,
        toolchain=programs.digest,
        search=programs.search,
    )


def _tool(plan: Plan, name: str) -> ToolIdentity:
    return next(tool for tool in plan.toolchain.tools if tool.name == name)


def _sources(
    plan: Plan, slot: Slot, recipe_file: Path, supply: Supply, *, keeps_source: bool
) -> tuple[PatchedTree, dict[str, Path]]:
    """Return the source of a plan and, by their names, its further ones."""
    with blaming_source(recipe_file, plan.version, ""):
        tree = _kept_source(plan, slot) if keeps_source else _source(plan, slot, supply)
    sources = {}
    for name, source in plan.extra_sources:
        with blaming_source(recipe_file, plan.version, name):
            sources[name] = _extra_source(name, source, slot, supply)
    return tree, sources


def _source(plan: Plan, slot: Slot, supply: Supply) -> PatchedTree:
    """Fetch, unpack and patch beside the slot's source, then bring that up to date."""
    from buildkit.patches.apply import apply_patches

    tree = unpack_source(plan.source, slot.unpacked, supply)
    patched = apply_patches(tree, plan.patches, version=plan.version, events=supply.events)
    slot.source_key.unlink(missing_ok=True)
    place_tree(slot.unpacked, slot.source)
    write_atomic(slot.source_key, plan.key.encode())
    inner = slot.source / tree.path.relative_to(slot.unpacked)
    return PatchedTree(path=inner, stamp=patched.stamp, outcomes=patched.outcomes)


def _place_include(plan: Plan, slot: Slot) -> None:
    """Put the recipe's CMake file where CMake is told to find it.

    :raises RecipeError: if it is not the one of the plan any more.
    """
    include = plan.project_include
    if include is None:
        slot.project_include.unlink(missing_ok=True)
        return
    try:
        data = include.file.read_bytes()
    except OSError:
        data = b""
    if digest_bytes(data) != include.digest:
        raise RecipeError(
            "The file changed while the build was prepared.",
            where=Location(file=str(include.file), key="build.project-include"),
            remedy="Try again.",
        )
    if not slot.project_include.is_file() or slot.project_include.read_bytes() != data:
        write_atomic(slot.project_include, data)


def _kept_source(plan: Plan, slot: Slot) -> PatchedTree:
    """Return the slot's source as an earlier make or a person left it.

    :raises RequestError: if there is none.
    """
    subdirectory = getattr(plan.source, "subdirectory", "")
    inner = slot.source / subdirectory
    if not inner.is_dir():
        raise RequestError(
            f"No source of an earlier make lies in {slot.source}.",
            where=Location(file="command line", key="--from-step"),
            remedy="Leave the option away: everything is prepared then.",
        )
    stamp = digest_value(["by hand", plan.key])
    return PatchedTree(path=inner, stamp=stamp, outcomes=())


def _extra_source(name: str, source: ResolvedSource, slot: Slot, supply: Supply) -> Path:
    """Unpack a further source of a plan, at a path that stays the same."""
    stage = slot.sources / f".{name}"
    tree = unpack_source(source, stage, supply)
    destination = slot.sources / name
    place_tree(stage, destination)
    return destination / tree.path.relative_to(stage)
