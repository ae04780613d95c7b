"""Which patch files a version takes. Cheap: reads and digests, parses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.digest import digest_file, digest_tree
from buildkit.errors import Location, RecipeError, nearest
from buildkit.values import SelectedPatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["known_patches", "select_patches"]


def select_patches(names: Sequence[str], directory: Path) -> tuple[SelectedPatch, ...]:
    """Return the patches that a recipe names, in its order.

    :param directory: Where ``<name>.patch``, or ``<name>/`` with its variants, lies.
    :raises RecipeError: if one does not exist or cannot be read.
    """
    selected = []
    for name in names:
        file = next(
            (path for path in (directory / f"{name}.patch", directory / name) if path.exists()),
            None,
        )
        if file is None:
            known = known_patches(directory)
            raise RecipeError(
                f"There is no patch {name!r}; known are {', '.join(known) or 'none'}."
                f"{nearest(name, known)}",
                where=Location(file=str(directory)),
                remedy="Correct the recipe's `patches`, or add the file.",
            )
        try:
            digest = digest_tree(file) if file.is_dir() else digest_file(file)
        except OSError as error:
            raise RecipeError(
                f"Patch cannot be read: {error.strerror}.",
                where=Location(file=str(file)),
                remedy="Make it readable.",
            ) from error
        selected.append(SelectedPatch(name=name, file=file, digest=digest))
    return tuple(selected)


def known_patches(directory: Path) -> list[str]:
    """Return the names of all patches in a directory, sorted."""
    files = {path.stem for path in directory.glob("*.patch")}
    return sorted(files | {path.parent.name for path in directory.glob("*/header")})
