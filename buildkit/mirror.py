"""The story of ``fetch``: all that a recipe's build fetches is put into one directory.

Sources by their pins, the wheels of the build environment by its lock, NVIDIA's wheels where the
toolkit comes from them, the wheel of cuobjdump, and the packages of this distribution that the
recipe may need; a manifest tells what is for what. The import
check runs in the build environment and needs nothing more. The manifest names a recipe only when
all of it is there; what is there of a fetch that broke off is not fetched again.
"""

from __future__ import annotations

import json
import platform
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from buildkit.arch import parse_arch
from buildkit.cache import require_cache
from buildkit.errors import (
    ArchError,
    JobError,
    Location,
    RequestError,
    SourceError,
    ToolchainError,
)
from buildkit.fs import locked, write_atomic
from buildkit.mirrored import MANIFEST, SCHEMA, manifest_digests, read_manifest
from buildkit.recipe import find_recipe, read_recipe, settle, version_of
from buildkit.recipe.place import blaming_source
from buildkit.request import Request, require_machine
from buildkit.sources import resolve_source
from buildkit.sources.gather import Gatherer
from buildkit.sources.settings import read_index_settings
from buildkit.survey import choose_cuda, lock_of, narrowed
from buildkit.tags import ranks
from buildkit.toolchain.cuda import wheels_lock
from buildkit.toolchain.cuobjdump import cuobjdump_lock
from buildkit.toolchain.distribution import read_distribution
from buildkit.toolchain.lock import parse_packages, user_lock_name
from buildkit.toolchain.packages import lock_name, render_lock, take_packages
from buildkit.toolchain.python import probe_python
from buildkit.toolchain.system import recipe_packages
from buildkit.values import LocalTree, PinnedArchive, PinnedCommit, Unpinned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from buildkit.kit import Kit, Supply
    from buildkit.recipe.model import Recipe, Version
    from buildkit.sources.gather import Item
    from buildkit.values import EnvLock, PythonIdentity, ResolvedSource

__all__ = ["MirrorRequest", "Mirrored", "fetch_mirror"]

_TO = Location(file="command line", key="--to")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRequest:
    """What a mirror is to hold."""

    recipe: str
    root: Path
    version: str | None = None
    python: str | None = None
    machine: str | None = None
    """Machine that will build, such as ``aarch64``; None: one as this."""
    constraints: tuple[str, ...] = ()
    has_cuda_wheels: bool = False
    """NVIDIA's wheels too, although this machine has a toolkit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What a fetch has done."""

    root: Path
    recipe: str
    version: str
    python: PythonIdentity
    items: tuple[Item, ...]


def fetch_mirror(request: MirrorRequest, kit: Kit) -> Mirrored:
    """Put all that a recipe's build fetches into a directory.

    :raises RequestError: if the directory is something else than a mirror.
    :raises SourceError: if something cannot be had; what came before it stays in the mirror.
    """
    file = find_recipe(request.recipe, kit.recipe_folders)
    listed = read_recipe(file)
    version = version_of(listed, request.version)
    recipe = settle(listed, version)
    require_cache(kit.paths)
    root = request.root.absolute()
    document = _open(root)
    supply = kit.supply(read_index_settings(kit.environment), is_offline=False)
    python = _python(request, kit)
    try:
        with locked(root / ".lock"):
            for torn in (root / "downloads").glob(".part-*"):
                torn.unlink()
            gatherer = Gatherer(root, manifest_digests(document), supply)
            items = [
                *_sources(recipe, version, file, gatherer, kit),
                *_wheels(recipe, version, file, request, python, gatherer, kit, supply),
                *_system(recipe, request, gatherer, supply),
            ]
            _note(root, document, recipe, version, request, python, items)
    except OSError as error:
        raise JobError(
            f"The mirror {root} cannot be written: {error.strerror or error}.",
            remedy="Free some space, or name another directory with --to.",
        ) from error
    return Mirrored(
        root=root, recipe=recipe.name, version=version.version, python=python, items=tuple(items)
    )


def _open(root: Path) -> dict[str, Any]:
    """Return the manifest of a mirror, which is made if the directory is empty or missing."""
    document = read_manifest(root, _TO)
    if document is not None:
        return document
    fresh: dict[str, Any] = {"schema": SCHEMA, "contents": []}
    try:
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise RequestError(
                f"{root} is no mirror, and not empty.",
                where=_TO,
                remedy="Name a new or an empty directory.",
            )
        write_atomic(root / MANIFEST, _render(fresh))
    except OSError as error:
        raise RequestError(
            f"The mirror {root} cannot be made: {error.strerror or error}.",
            where=_TO,
            remedy="Name a directory that you may write.",
        ) from error
    return fresh


def _python(request: MirrorRequest, kit: Kit) -> PythonIdentity:
    """Return the interpreter that will build; it need not be on this machine."""
    machine = request.machine
    require_machine(machine)
    world = {"runner": kit.runner, "environment": kit.environment, "memo": kit.paths.memo}
    spec = request.python
    try:
        python = probe_python(spec, **world)  # type: ignore[arg-type] # one value for three calls
    except ToolchainError:
        if spec is None or not re.fullmatch(r"3\.\d+(\.\d+)?", spec):
            raise
        here = probe_python(None, **world)  # type: ignore[arg-type] # as above
        tag = "cp" + "".join(spec.split(".")[:2])
        whole = spec if spec.count(".") == 2 else f"{spec}.0"
        python = replace(here, version=whole, tag=tag)
    return python if machine is None else replace(python, platform=f"linux_{machine}")


def _sources(
    recipe: Recipe, version: Version, file: Path, gatherer: Gatherer, kit: Kit
) -> Iterator[Item]:
    for name, source in {"": version.source, **version.sources}.items():
        found = resolve_source(
            source,
            recipe=recipe,
            version=version.version,
            recipe_file=file,
            name=name,
            memo=kit.paths.memo,
        )
        with blaming_source(file, version.version, name):
            yield from _source(f"source {name}".strip(), found, gatherer, recipe.name, kit)


def _source(
    what: str, found: ResolvedSource, gatherer: Gatherer, recipe: str, kit: Kit
) -> Iterator[Item]:
    match found:
        case PinnedArchive():
            yield gatherer.archive(what, found)
        case PinnedCommit():
            yield from gatherer.commit(what, found)
        case LocalTree():
            kit.events.step("local", f"{what} comes with the recipe")
        case Unpinned():
            raise SourceError(
                f"{found.description} has no pin: {found.reason}.",
                remedy=f"Run `buildkit pin {recipe}`.",
            )
        case _:
            assert_never(found)


def _wheels(
    recipe: Recipe,
    version: Version,
    file: Path,
    request: MirrorRequest,
    python: PythonIdentity,
    gatherer: Gatherer,
    kit: Kit,
    supply: Supply,
) -> Iterator[Item]:
    target = parse_arch(recipe.architectures[0])
    asked = Request(recipe=recipe.name, arch=target, constraints=request.constraints)
    lock = lock_of(recipe, version, file, asked, python, kit)
    if request.constraints:
        name = user_lock_name(narrowed(recipe.build.requires, request.constraints))
        yield gatherer.lock("lock", name, lock.text)
    wanted = [("environment", lock)]
    if recipe.toolchain.cuda:
        if request.has_cuda_wheels or _takes_cuda_wheels(recipe, python, kit):
            wanted.append(("CUDA", wheels_lock(python, memo=kit.paths.memo)))
        wanted.append(("cuobjdump", cuobjdump_lock(python, supply)))
    yield from _locked(wanted, request.machine, python, gatherer)


def _system(
    recipe: Recipe, request: MirrorRequest, gatherer: Gatherer, supply: Supply
) -> Iterator[Item]:
    """Take the distribution's packages too; a machine that has them installed needs none."""
    distribution = read_distribution()
    names = recipe_packages(recipe.system, distribution)
    if not names:
        return
    listed = ", ".join(names)
    if request.machine not in (None, platform.machine()):
        supply.events.warning(f"{listed} for another machine: install it there.")
        return
    try:
        packages = take_packages(names, distribution, supply, lambda _: False)
    except ToolchainError as error:
        supply.events.warning(f"Not in the mirror, install it where you build: {error.what}")
        return
    text = render_lock(names, distribution, packages)
    yield gatherer.lock("system packages", lock_name(names, distribution), text)
    for package in packages:
        pinned = PinnedArchive(
            kind="archive",
            name=package.name,
            version=package.version,
            filename=package.filename,
            url=None,
            sha256=package.sha256,
        )
        yield gatherer.archive(f"system package {package.name}", pinned)


def _locked(
    wanted: list[tuple[str, EnvLock]],
    machine: str | None,
    python: PythonIdentity,
    gatherer: Gatherer,
) -> Iterator[Item]:
    known = ranks(python, machine)
    for what, lock in wanted:
        for package in parse_packages(lock):
            yield gatherer.wheel(what, package, known)


def _takes_cuda_wheels(recipe: Recipe, python: PythonIdentity, kit: Kit) -> bool:
    """Tell whether the toolkit of some target comes from NVIDIA's wheels on this machine."""
    told: ArchError | ToolchainError | None = None
    is_served = False
    for name in recipe.architectures:
        asked = Request(recipe=recipe.name, arch=parse_arch(name))
        try:
            choice = choose_cuda(recipe, asked, python, kit)
        except (ArchError, ToolchainError) as error:
            told = error
            continue
        is_served = True
        if choice is not None and choice.lock is not None:
            return True
    if told is not None and not is_served:
        raise told
    return False


def _note(
    root: Path,
    document: dict[str, Any],
    recipe: Recipe,
    version: Version,
    request: MirrorRequest,
    python: PythonIdentity,
    items: list[Item],
) -> None:
    """Write what a recipe needs into the manifest, in place of what stood there for it."""
    content = {
        "recipe": recipe.name,
        "version": version.version,
        "python": python.tag,
        "platform": python.platform,
        "constraints": list(request.constraints),
        "items": [
            {
                "what": item.what,
                "path": item.path,
                "sha256": item.sha256,
                "bytes": item.size_bytes,
            }
            for item in items
        ],
    }
    keys = ("recipe", "version", "python", "platform", "constraints")
    kept = [
        other
        for other in document["contents"]
        if any(other.get(key) != content[key] for key in keys)
    ]
    fresh = document | {"contents": [*kept, content]}
    fresh["contents"].sort(key=lambda one: [str(one.get(key)) for key in keys])
    if fresh != document:
        write_atomic(root / MANIFEST, _render(fresh))


def _render(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()
