"""The survey: asks the disk and the tools everything that a plan needs to know.

What enters: a recipe, a version, a request. What leaves: :class:`~buildkit.values.Facts`. It
builds nothing and changes nothing but the memory of its own answers; it fetches only what a lock of
the user's own or the distribution's packages need before they have a digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.borrowed import SystemChoice
from buildkit.digest import digest_file
from buildkit.errors import Location, RecipeError
from buildkit.launcher import source_digest
from buildkit.patches import select_patches
from buildkit.recipe import lock_file, patch_directory
from buildkit.recipe.placeholders import needed_sources
from buildkit.sources import resolve_source
from buildkit.toolchain.compilers import probe_binutils, probe_gcc
from buildkit.toolchain.cuda import select_cuda
from buildkit.toolchain.lock import read_lock
from buildkit.toolchain.python import include_directory, probe_python
from buildkit.toolchain.toolkit import toolkit_root
from buildkit.values import Facts, ProjectInclude, Toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Kit
    from buildkit.recipe.model import Recipe, Source, Version
    from buildkit.request import Request
    from buildkit.toolchain.cuda import CudaChoice
    from buildkit.values import EnvLock, PythonIdentity, ResolvedSource, SelectedPatch

__all__ = ["choose_cuda", "lock_of", "narrowed", "survey"]


def survey(
    recipe: Recipe, version: Version, recipe_file: Path, request: Request, kit: Kit
) -> Facts:
    """Return the facts for one wheel.

    :raises BuildkitError: if something that the recipe needs is missing or does not fit.
    """

    def resolve(source: Source, name: str) -> ResolvedSource:
        return resolve_source(
            source,
            recipe=recipe,
            version=version.version,
            recipe_file=recipe_file,
            name=name,
            memo=kit.paths.memo,
        )

    python, lock = _environment(recipe, version, recipe_file, request, kit)
    choice = choose_cuda(recipe, request, python, kit)
    toolchain = _toolchain(recipe, choice, lock, kit)
    return Facts(
        source=resolve(version.source, ""),
        extra_sources=tuple(
            (name, resolve(version.sources[name], name))
            for name in needed_sources(recipe, version, request.arch.device.name)
        ),
        patches=_patches(version, recipe_file),
        python=python,
        toolchain=toolchain,
        lock=lock,
        launcher=source_digest(),
        project_include=_project_include(recipe, recipe_file),
        system=_system(recipe, request, python, toolchain, kit),
    )


def choose_cuda(
    recipe: Recipe, request: Request, python: PythonIdentity, kit: Kit
) -> CudaChoice | None:
    """Return the CUDA toolkit of a build, or None when the recipe compiles no CUDA."""
    if not recipe.toolchain.cuda:
        return None
    return select_cuda(
        recipe.toolchain.cuda,
        request.arch,
        python,
        runner=kit.runner,
        environment=kit.environment,
        memo=kit.paths.memo,
    )


def _environment(
    recipe: Recipe, version: Version, recipe_file: Path, request: Request, kit: Kit
) -> tuple[PythonIdentity, EnvLock]:
    """Return the interpreter, and what the build environment holds: one that exists, or a lock."""
    spec = request.python
    existing: EnvLock | None = None
    if request.existing_environment is not None:
        from buildkit.toolchain.environment import read_environment

        root, existing = read_environment(
            request.existing_environment, runner=kit.runner, environment=kit.environment
        )
        spec = str(root / "bin" / "python")
    python = probe_python(spec, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo)
    return python, existing or lock_of(recipe, version, recipe_file, request, python, kit)


def lock_of(
    recipe: Recipe,
    version: Version,
    recipe_file: Path,
    request: Request,
    python: PythonIdentity,
    kit: Kit,
) -> EnvLock:
    """Return the recipe's lock, or one for what the user has narrowed."""
    if request.constraints:
        from buildkit.sources.settings import read_index_settings
        from buildkit.toolchain.lock import resolve_for_user

        requirements = narrowed(recipe.build.requires, request.constraints)
        settings = read_index_settings(kit.environment)
        supply = kit.supply(settings, is_offline=request.is_offline)
        return resolve_for_user(requirements, python, supply)
    return read_lock(
        lock_file(recipe_file, version),
        recipe.build.requires,
        python,
        name=recipe.name,
        memo=kit.paths.memo,
    )


def narrowed(requirements: tuple[str, ...], constraints: tuple[str, ...]) -> tuple[str, ...]:
    """Return requirements with those replaced that the user has narrowed.

    >>> narrowed(("torch>=2.14", "ninja"), ("torch==2.11.0",))
    ('torch==2.11.0', 'ninja')

    :raises RecipeError: if a constraint is no requirement.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    chosen = {}
    for text in constraints:
        try:
            chosen[canonicalize_name(Requirement(text).name)] = text
        except InvalidRequirement:
            raise RecipeError(
                f"Found {text!r}, allowed a requirement such as 'torch==2.11.0'.",
                where=Location(file="command line", key="--with"),
                remedy="Correct it and try again.",
            ) from None
    kept = []
    for text in requirements:
        name = canonicalize_name(Requirement(text).name)
        kept.append(chosen.pop(name, text))
    return (*kept, *chosen.values())


def _project_include(recipe: Recipe, recipe_file: Path) -> ProjectInclude | None:
    name = recipe.build.project_include
    if not name:
        return None
    file = recipe_file.parent / name
    return ProjectInclude(file=file, digest=digest_file(file))


def _system(
    recipe: Recipe, request: Request, python: PythonIdentity, toolchain: Toolchain, kit: Kit
) -> SystemChoice:
    """Return where the headers and libraries come from that the recipe needs of the system."""
    if not recipe.system.headers and not recipe.system.libraries:
        return SystemChoice()
    from buildkit.sources.settings import read_index_settings
    from buildkit.toolchain.system import choose_system

    include = include_directory(
        python, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo
    )
    supply = kit.supply(read_index_settings(kit.environment), is_offline=request.is_offline)
    gcc = next(tool for tool in toolchain.tools if tool.name == "gcc")
    may_fetch = request.system_packages == "download"
    return choose_system(recipe.system, gcc, include, supply, may_fetch=may_fetch)


def _patches(version: Version, recipe_file: Path) -> tuple[SelectedPatch, ...]:
    patches = select_patches(version.patches, patch_directory(recipe_file))
    for patch in patches:
        pinned = version.patch_digests.get(patch.name)
        if pinned is not None and pinned != patch.digest:
            raise RecipeError(
                f"Patch {patch.name} differs from its pin: found sha256 {patch.digest}, allowed"
                f" {pinned}.",
                where=Location(file=str(patch.file)),
                remedy=f"Review the change, then run `buildkit pin {recipe_file.stem}`.",
            )
    return patches


def _toolchain(recipe: Recipe, choice: CudaChoice | None, lock: EnvLock, kit: Kit) -> Toolchain:
    host = probe_gcc(
        recipe.toolchain.host_compiler,
        choice.newest_gcc if choice is not None else None,
        runner=kit.runner,
        environment=kit.environment,
        memo=kit.paths.memo,
    )
    tools = (
        host.gcc,
        host.gxx,
        *probe_binutils(
            host.gcc, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo
        ),
    )
    if choice is None:
        return Toolchain(tools=tools, cuda_root=None, cuda_lock=None, note=host.note)
    return Toolchain(
        tools=(*tools, choice.nvcc),
        cuda_root=toolkit_root(choice, lock, kit.paths),
        cuda_lock=choice.lock,
        note=host.note,
    )
