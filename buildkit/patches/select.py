"""Which patch files a version takes. Cheap: reads and digests, parses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.digest import digest_file
from buildkit.errors import Location, RecipeError, nearest
from buildkit.values import SelectedPatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["select_patches"]


def select_patches(names: Sequence[str], directory: Path) -> tuple[SelectedPatch, ...]:
    """Return the patches that a recipe names, in its order.

    :param directory: Where ``<name>.patch`` lies.
    :raises RecipeError: if one does not exist or cannot be read.
    """
    selected = []
    for name in names:
        file = directory / f"{name}.patch"
        if not file.is_file():
            known = sorted(other.stem for other in directory.glob("*.patch"))
            raise RecipeError(
                f"There is no patch {name!r}; known are {', '.join(known) or 'none'}."
                f"{nearest(name, known)}",
                where=Location(file=str(directory)),
                remedy="Correct the recipe's `patches`, or add the file.",
            )
        try:
            digest = digest_file(file)
        except OSError as error:
            raise RecipeError(
                f"Patch cannot be read: {error.strerror}.",
                where=Location(file=str(file)),
                remedy="Make it readable.",
            ) from error
        selected.append(SelectedPatch(name=name, file=file, digest=digest))
    return tuple(selected)
