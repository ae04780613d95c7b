"""``${sources.NAME}`` in a recipe's values: which sources a target uses, and which do not exist.

What enters: a recipe and one of its versions. What leaves: names, and issues. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from buildkit.errors import nearest
from buildkit.recipe.catalogue import settle
from buildkit.recipe.decode import Issue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from buildkit.recipe.locate import Part
    from buildkit.recipe.model import Recipe, Version

__all__ = ["check_placeholders", "needed_sources"]

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_PREFIX = "sources."


def needed_sources(recipe: Recipe, version: Version, arch: str) -> tuple[str, ...]:
    """Return the sources that a build for a target is told of, by name.

    :param arch: Name of the target without variant.
    """
    settled = settle(recipe, version).build
    settings = recipe.arch.get(arch)
    defines = settled.defines | (settings.defines if settings is not None else {})
    environment = settled.environment | (settings.environment if settings is not None else {})
    named = {
        name.removeprefix(_PREFIX)
        for value in (*defines.values(), *environment.values())
        for name in _PLACEHOLDER.findall(str(value))
    }
    return tuple(name for name in sorted(version.sources) if name in named)


def check_placeholders(recipe: Recipe, version: Version, number: int) -> Iterator[Issue]:
    """Yield every placeholder that names no source of a version.

    :param number: Where the version stands in the recipe.
    """
    build: tuple[Part, ...] = ("build",)
    own = version.defines
    merged = {name: value for name, value in recipe.build.defines.items() if name not in own}
    tables: list[tuple[tuple[Part, ...], Mapping[str, str | bool | int]]] = [
        ((*build, "defines"), merged),
        ((*build, "environment"), recipe.build.environment),
        (("versions", number, "defines"), own),
    ]
    for name, settings in recipe.arch.items():
        tables.append((("arch", name, "defines"), settings.defines))
        tables.append((("arch", name, "environment"), settings.environment))
    allowed = [f"{_PREFIX}{name}" for name in version.sources]
    for path, table in tables:
        for name, value in table.items():
            for found in _PLACEHOLDER.findall(str(value)):
                if found not in allowed:
                    yield Issue(
                        path=(*path, name),
                        text=f"Found ${{{found}}}, allowed {', '.join(allowed) or 'none'} (the"
                        f" sources of version {version.version}).{nearest(found, allowed)}",
                    )
