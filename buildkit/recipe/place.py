"""The place of a source in its recipe, for errors that only show when the source is fetched."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from buildkit.errors import Location, SourceError
from buildkit.recipe.locate import locate, render_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["blaming_source", "place_of_source"]


@contextmanager
def blaming_source(recipe_file: Path, version: str, name: str) -> Iterator[None]:
    """Give the place in the recipe to an error that has none.

    :param name: The source's own name in the recipe; empty for the main one.
    """
    try:
        yield
    except SourceError as error:
        if error.where is None:
            error.where = place_of_source(recipe_file, version, name)
        raise


def place_of_source(recipe_file: Path, version: str, name: str) -> Location:
    """Return where a version says what its source is; of one that it lacks, the file."""
    import tomllib

    # The file was read before, but nobody keeps it from being changed meanwhile.
    text = ""
    try:
        text = recipe_file.read_text(encoding="utf-8")
        versions = tomllib.loads(text)["versions"]
        numbers = [number for number, entry in enumerate(versions) if entry["version"] == version]
    except (OSError, ValueError, LookupError, TypeError):
        numbers = []
    if not numbers:
        return Location(file=str(recipe_file))
    path = ("versions", numbers[0], *(("sources", name) if name else ("source",)))
    return Location(file=str(recipe_file), line=locate(text, path), key=render_key(path))
