"""Drift: what a CMake project would fetch, beside what its recipe hands over.

What enters: a plan of backend ``cmake``, the patched tree and the unpacked further sources. What
leaves: nothing, or an error that names each dependency which the project declares and the recipe
does not hand over, before anything is configured. The files are followed as CMake would read them,
from the project's own through ``include``, ``add_subdirectory`` and the sources that are handed
over; conditions are taken as true unless a define of the recipe says otherwise. Never runs CMake.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from buildkit.drift.declared import read_dependencies
from buildkit.errors import Location, SourceError
from buildkit.values import PinnedArchive, PinnedCommit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from buildkit.drift.declared import Dependency
    from buildkit.events import Events
    from buildkit.values import PatchedTree, Plan

__all__ = ["HANDED", "check_drift"]

#: How a directory is handed over, by who would fetch. Source: CMake's FetchContent module,
#: "FETCHCONTENT_SOURCE_DIR_<uppercaseName>"; CPM.cmake, "CPM_<dependency name>_SOURCE".
HANDED = {"fetchcontent": "FETCHCONTENT_SOURCE_DIR_{}", "cpm": "CPM_{}_SOURCE"}

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"SHA256=([0-9a-fA-F]{64})", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\{sources\.([^}]*)\}")


def check_drift(plan: Plan, tree: PatchedTree, sources: Mapping[str, Path], events: Events) -> None:
    """Refuse a project that would fetch what the recipe does not hand over.

    :param sources: Unpacked further sources, by their name in the recipe.
    :raises SourceError: naming each such dependency, and each patch that handing over leaves out.
    """
    start = tree.path / "CMakeLists.txt"
    if plan.backend != "cmake" or not start.is_file():
        return
    defines, environment = (
        {
            name: _PLACEHOLDER.sub(lambda found: str(sources.get(found[1], found[0])), value)
            for name, value in pairs
        }
        for pairs in (plan.defines, plan.environment)
    )
    found = read_dependencies(start, defines, environment)
    unknown = [dependency for dependency in found if _variable(dependency) not in defines]
    for dependency in unknown:
        if "$" in dependency.name:
            events.warning(
                f"{_place(dependency, tree)} declares a dependency by a name that only CMake"
                f" knows: {dependency.name}."
            )
    named = [dependency for dependency in unknown if "$" not in dependency.name]
    if named:
        _refuse_unknown(plan, tree, named)
    _refuse_patched(plan, tree, found)
    for line in _other_pins(plan, tree, found):
        events.warning(line)


def _variable(dependency: Dependency) -> str:
    """Return the define that hands a dependency over; empty when nothing can."""
    if dependency.by not in HANDED:
        return ""
    name = dependency.name.upper() if dependency.by == "fetchcontent" else dependency.name
    return HANDED[dependency.by].format(name)


def _place(dependency: Dependency, tree: PatchedTree) -> str:
    file = str(dependency.file).removeprefix(f"{tree.path}/")
    return f"{file}:{dependency.line}"


def _refuse_unknown(plan: Plan, tree: PatchedTree, named: list[Dependency]) -> None:
    names = ", ".join(sorted({dependency.name for dependency in named}))
    lines = [f"{_place(one, tree)}: {one.command} {one.name}" for one in named]
    wanted = sorted({_variable(one) for one in named} - {""})
    how = f" with the define {', '.join(wanted)}" if wanted else ""
    raise SourceError(
        "\n".join(
            [f"{plan.recipe} {plan.version} would fetch what no source holds: {names}.", *lines]
        ),
        where=Location(file=str(named[0].file), line=named[0].line),
        remedy=f"Add each as a source of the version and hand it over{how}; or patch it away.",
    )


def _refuse_patched(plan: Plan, tree: PatchedTree, found: tuple[Dependency, ...]) -> None:
    patched = [
        one for one in found if one.patch and one.by in HANDED and one.name not in plan.unpatched
    ]
    if not patched:
        return
    lines = [f"{_place(one, tree)}: {one.name}: PATCH_COMMAND {one.patch}" for one in patched]
    names = ", ".join(sorted({one.name for one in patched}))
    raise SourceError(
        "\n".join([f"Handing over a directory leaves out upstream's patch of {names}.", *lines]),
        where=Location(file=str(patched[0].file), line=patched[0].line),
        remedy="Hand over a source that has it, or needs it not, and name it in build.unpatched.",
    )


def _other_pins(plan: Plan, tree: PatchedTree, found: tuple[Dependency, ...]) -> Iterator[str]:
    """Yield a line for each dependency that upstream has at another commit or digest."""
    known = dict(plan.extra_sources)
    defines = dict(plan.defines)
    for one in found:
        named = _PLACEHOLDER.fullmatch(defines.get(_variable(one), ""))
        source = known.get(named[1]) if named is not None else None
        if isinstance(source, PinnedCommit):
            declared = set(_COMMIT.findall(one.version))
            pinned = source.commit
        elif isinstance(source, PinnedArchive):
            declared = {digest.lower() for digest in _SHA256.findall(one.version)}
            pinned = str(source.sha256)
        else:
            continue
        if declared and pinned not in declared:
            yield (
                f"{_place(one, tree)} has {one.name} at {', '.join(sorted(declared))}, the recipe"
                f" at {pinned}."
            )
