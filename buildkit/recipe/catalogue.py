"""Where recipes, their patches and their locks lie, and which version of one is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.errors import Location, RecipeError, nearest
from buildkit.paths import data_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildkit.recipe.model import Recipe, Version

__all__ = ["find_recipe", "list_recipes", "lock_file", "patch_directory", "settle", "version_of"]


def find_recipe(name: str, folders: Sequence[Path]) -> Path:
    """Return the file of a recipe.

    :param name: Name of a recipe, or path of a ``.toml`` file.
    :param folders: Where names are looked up; the first match wins.
    :raises RecipeError: if there is none.
    """
    if name.endswith(".toml") or "/" in name:
        file = Path(name).expanduser()
        if file.is_file():
            return file.absolute()
        raise RecipeError(
            f"Recipe file {name}: there is no such file.",
            remedy="Give the name of a recipe of `buildkit list`, or the path of a .toml file.",
        )
    for folder in folders:
        file = folder / f"{name}.toml"
        if file.is_file():
            return file.absolute()
    known = sorted({file.stem for file in list_recipes(folders)})
    raise RecipeError(
        f"There is no recipe {name!r}; known are {', '.join(known) or 'none'}."
        f"{nearest(name, known)}",
        remedy=_remedy(name),
    )


def _remedy(name: str) -> str:
    if name and (data_root() / "patches" / name).is_dir():
        return "It has patches: `--from wheel` puts them into its published wheel."
    return "`buildkit list` shows them; --recipes DIR adds a directory of your own."


def list_recipes(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files of all recipes, by name; one in an earlier folder hides later ones."""
    found: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.toml")):
            found.setdefault(file.stem, file)
    return tuple(found[name] for name in sorted(found))


def version_of(recipe: Recipe, text: str | None) -> Version:
    """Return the version that is meant: the default one if none is named.

    A version that the recipe does not list yet is the default's with its pins taken away: it can
    be planned, and ``buildkit pin`` can write it down.

    :raises RecipeError: if the text is no version, or the source could not be another version's.
    """
    import msgspec

    from buildkit.recipe.check import is_version
    from buildkit.recipe.model import GitSource, PypiSource

    wanted = text or recipe.default_version
    for version in recipe.versions:
        if version.version == wanted:
            return version
    default = version_of(recipe, None)
    known = [version.version for version in recipe.versions]
    source = default.source
    if not is_version(wanted) or not isinstance(source, PypiSource | GitSource):
        raise RecipeError(
            f"Recipe {recipe.name} has no version {wanted!r}; it has {', '.join(known)}."
            f"{nearest(wanted, known)}",
            where=Location(file=f"recipe {recipe.name}", key="versions"),
            remedy="Choose one of these, or add it to the recipe.",
        )
    if isinstance(source, PypiSource):
        source = msgspec.structs.replace(source, filename="", sha256="")
    else:
        ref = source.ref.replace(default.version, wanted)
        source = msgspec.structs.replace(source, ref=ref, commit="")
    return msgspec.structs.replace(default, version=wanted, source=source)


def settle(recipe: Recipe, version: Version) -> Recipe:
    """Return the recipe as one version has it: its project, requirements and defines."""
    import msgspec

    build = msgspec.structs.replace(
        recipe.build,
        requires=version.requires or recipe.build.requires,
        defines=recipe.build.defines | version.defines,
    )
    project = version.project or recipe.project
    return msgspec.structs.replace(recipe, project=project, build=build)


def lock_file(recipe_file: Path, version: Version | None = None) -> Path:
    """Return where the lock of a build environment lies.

    :param version: With requirements of its own, it has a lock of its own.
    """
    if version is not None and version.requires:
        return recipe_file.with_name(f"{recipe_file.stem}-{version.version}.lock")
    return recipe_file.with_suffix(".lock")


def patch_directory(recipe_file: Path) -> Path:
    """Return the directory of a recipe's patches.

    Beside the directory of the kit's recipes lies ``patches/<recipe>``. A directory of the user's
    own holds its patches in ``patches/<recipe>`` below it, and falls back to the kit's.
    """
    name = recipe_file.stem
    own = recipe_file.parent / "patches" / name
    if own.is_dir():
        return own
    return data_root() / "patches" / name
