"""The story of a ``make``: a recipe becomes a plan, the plan becomes a wheel.

Load, survey, plan, look up; on a miss hold the slot's lock and look again, then fetch, unpack,
patch, build, verify, store; place the wheel. A stage that fails leaves the slot for a person to
look at and for the next ``make`` to go on from; the cache and the output directory change only by
whole wheels.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from buildkit.cache import look_up, require_cache, store_wheel
from buildkit.digest import digest_file
from buildkit.environ import strays
from buildkit.errors import JobError, SourceError
from buildkit.fs import clone_file, locked, remove_tree, write_atomic
from buildkit.governor.capacity import read_capacity
from buildkit.plan import plan_make
from buildkit.recipe import find_recipe, read_recipe, settle, version_of
from buildkit.survey import survey
from buildkit.values import CacheEntry

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.governing import Governing
    from buildkit.governor.capacity import Capacity
    from buildkit.kit import Kit
    from buildkit.paths import Slot
    from buildkit.recipe.model import Recipe
    from buildkit.request import Request
    from buildkit.values import Plan, VerifiedWheel

__all__ = ["Drafted", "FromStep", "Made", "draft", "governing_of", "make"]

FromStep = Literal["fetch", "build", "verify"]
"""Where a ``make`` begins: anew, with the slot's source as it stands, or with its last wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A recipe and the plan that was made from it."""

    recipe: Recipe
    recipe_file: Path
    plan: Plan
    capacity: Capacity
    """What the build may use of this machine, and who says so."""
    known_gaps: tuple[str, ...]
    """What does not work on the target even after a good build."""
    strays: tuple[str, ...]
    """Variables that compilers obey, set here and not passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The outcome of a ``make``."""

    plan: Plan
    entry: CacheEntry
    wheel: Path
    """In the output directory."""
    is_cached: bool
    """Whether the wheel was there already."""


def draft(request: Request, kit: Kit) -> Drafted:
    """Return the plan for a request; runs nothing but probes."""
    file = find_recipe(request.recipe, kit.recipe_folders)
    listed = read_recipe(file)
    version = version_of(listed, request.version)
    recipe = settle(listed, version)
    facts = survey(recipe, version, file, request, kit)
    settings = recipe.arch.get(request.arch.device.name)
    capacity = read_capacity(requested_memory=request.memory_bytes, requested_jobs=request.jobs)
    return Drafted(
        recipe=recipe,
        recipe_file=file,
        plan=plan_make(recipe, version, request, facts),
        capacity=capacity,
        known_gaps=settings.known_gaps if settings is not None else (),
        strays=strays(kit.environment),
    )


def make(
    request: Request,
    kit: Kit,
    *,
    from_step: FromStep = "fetch",
    is_clean: bool = False,
    is_kept: bool = False,
) -> Made:
    """Make the wheel that a request asks for.

    :param is_clean: Forget the objects of earlier builds.
    :param is_kept: Leave the build's TMPDIR too.
    :raises BuildkitError: of the family of the stage that failed; the cache and the output
        directory are then as they were.
    """
    drafted = draft(request, kit)
    plan = drafted.plan
    is_fresh = from_step == "fetch" and not is_clean
    entry = look_up(kit.paths, plan.recipe, plan.key, kit.holds) if is_fresh else None
    is_cached = entry is not None
    if entry is None:
        _refuse_unpinned(drafted)
        require_cache(kit.paths)
        for gap in drafted.known_gaps:
            kit.events.warning(gap)
        entry, is_cached = _make_once(
            drafted, request, kit, from_step=from_step, is_clean=is_clean, is_kept=is_kept
        )
    wheel = _place(entry, request.out)
    return Made(plan=plan, entry=entry, wheel=wheel, is_cached=is_cached)


def _refuse_unpinned(drafted: Drafted) -> None:
    unpinned = drafted.plan.unpinned
    name = f"{drafted.plan.recipe} {drafted.plan.version}"
    if version_of(drafted.recipe, drafted.plan.version).published:
        raise SourceError(
            f"{name} is taken from the package index as published: there is nothing to make.",
            remedy=f"Run `buildkit install {name.replace(' ', '==')} --python ENV`.",
        )
    if unpinned:
        listed = "; ".join(f"{source.description}: {source.reason}" for source in unpinned)
        raise SourceError(
            f"{name} has sources without a pin ({listed}).",
            remedy=f"Run `buildkit pin {drafted.plan.recipe} --version {drafted.plan.version}`.",
        )


def _make_once(
    drafted: Drafted,
    request: Request,
    kit: Kit,
    *,
    from_step: FromStep,
    is_clean: bool,
    is_kept: bool,
) -> tuple[CacheEntry, bool]:
    """Build while holding the slot; whoever waited for another ``make`` takes its wheel."""
    from buildkit.prepare import slot_of

    plan = drafted.plan
    slot = slot_of(kit.paths, plan)

    def tell() -> None:
        kit.events.step("wait", f"another make is building in {slot.root}")

    kit.holds.hold(slot.root)
    with locked(slot.lock, waiting=tell):
        if from_step == "fetch" and not is_clean:
            entry = look_up(kit.paths, plan.recipe, plan.key, kit.holds)
            if entry is None and kit.remote is not None:
                from buildkit.sharing import pull

                entry = pull(plan, drafted.recipe, kit)
            if entry is not None:
                return entry, True
        if is_clean:
            remove_tree(slot.root)
        try:
            return _run(drafted, slot, request, kit, from_step), False
        finally:
            if not is_kept:
                with suppress(OSError):
                    remove_tree(slot.temporary)


def _run(
    drafted: Drafted, slot: Slot, request: Request, kit: Kit, from_step: FromStep
) -> CacheEntry:
    """Prepare, build, verify, store."""
    from buildkit.build import build_wheel, built_before
    from buildkit.prepare import prepare, read_key
    from buildkit.verify import verify_build

    plan = drafted.plan
    governing = governing_of(drafted, slot, kit)
    ready = prepare(
        drafted.recipe,
        drafted.recipe_file,
        plan,
        slot,
        request,
        kit,
        admission=governing.admission,
        keeps_source=from_step != "fetch",
        checks_drift=from_step != "verify",
    )
    is_edited = ready.is_edited
    if from_step == "verify":
        built = built_before(slot)
        is_edited = is_edited or read_key(slot.wheel_key) != plan.key
    else:
        slot.wheel_key.unlink(missing_ok=True)
        isolation = ready.workshop.isolation.description
        kit.events.step("build", f"{governing.description}, {isolation}; log {slot.log}")
        with governing.block(request.hard_cap) as block:
            built = build_wheel(
                plan,
                ready.tree,
                ready.workshop,
                runner=kit.runner,
                events=block.events,
                entrance=block.entrance,
                give_up=block.give_up,
            )
        write_atomic(slot.wheel_key, b"" if is_edited else plan.key.encode())
    if is_edited:
        plan = replace(plan, local_version=_edited(plan.local_version))
    verified = verify_build(
        plan,
        drafted.recipe,
        ready.tree,
        built,
        ready.workshop,
        kit,
        is_offline=request.is_offline,
    )
    if is_edited:
        kit.events.warning(
            "The source was edited, or prepared for another plan: the wheel does not enter the"
            " cache."
        )
        return _unstored(plan, verified)
    kit.events.step("store")
    entry = store_wheel(kit.paths, plan, verified, kit.holds)
    if kit.remote is not None:
        from buildkit.sharing import offer

        offer(plan, kit)
    return entry


def governing_of(drafted: Drafted, slot: Slot, kit: Kit) -> Governing:
    """Return the governor's view of a build."""
    from buildkit.governing import Governing

    return Governing(
        recipe=drafted.recipe,
        recipe_file=drafted.recipe_file,
        plan=drafted.plan,
        slot=slot,
        capacity=drafted.capacity,
        kit=kit,
    )


def _edited(label: str) -> str:
    return f"{label}.edited" if label else "edited"


def _unstored(plan: Plan, wheel: VerifiedWheel) -> CacheEntry:
    targets = sorted({name for library in wheel.gpu_code for name in library.sass})
    return CacheEntry(
        key=plan.key,
        wheel=wheel.path,
        sha256=wheel.sha256,
        verdict=wheel.verdict,
        targets=tuple(targets),
    )


def _place(entry: CacheEntry, out: Path) -> Path:
    """Put the wheel into the output directory, whole or not at all.

    :raises JobError: if the directory cannot be written; the wheel is in the cache then.
    """
    destination = out / entry.wheel.name
    try:
        # A second make finds it there already; writing it anew would wait for the disk.
        if not destination.is_file() or digest_file(destination) != entry.sha256:
            clone_file(entry.wheel, destination)
    except OSError as error:
        raise JobError(
            f"Output directory {out}: {error.strerror or error}.",
            remedy=f"Give another one with --out; the wheel itself is at {entry.wheel}.",
        ) from error
    return destination
