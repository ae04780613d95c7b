"""``build.project-include``: the CMake file beside a recipe. Pure but for a look for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.recipe.decode import Issue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from buildkit.recipe.locate import Part
    from buildkit.recipe.model import Recipe

__all__ = ["check_include"]

_VARIABLE = "CMAKE_PROJECT_INCLUDE"


def check_include(recipe: Recipe, file: Path) -> Iterator[Issue]:
    """Yield what is wrong with a recipe's project include."""
    name = recipe.build.project_include
    if not name:
        return
    path: tuple[Part, ...] = ("build", "project-include")
    if name.startswith(("/", "~")) or ".." in name.split("/"):
        yield Issue(path=path, text=f"Found {name!r}, allowed a file beside the recipe file.")
    elif not (file.parent / name).is_file():
        yield Issue(path=path, text=f"Found {name!r}: there is no such file beside the recipe.")
    if recipe.build.backend != "cmake":
        yield Issue(
            path=path,
            text=f"Found it with backend {recipe.build.backend!r}, allowed with 'cmake' alone.",
        )
    tables: list[tuple[tuple[Part, ...], object]] = [(("build", "defines"), recipe.build.defines)]
    tables += [(("arch", arch, "defines"), own.defines) for arch, own in recipe.arch.items()]
    for number, version in enumerate(recipe.versions):
        tables.append((("versions", number, "defines"), version.defines))
    for place, table in tables:
        if isinstance(table, dict) and _VARIABLE in table:
            yield Issue(
                path=(*place, _VARIABLE),
                text=f"{_VARIABLE} is set by the kit for build.project-include.",
                remedy="Include the file from there.",
            )
