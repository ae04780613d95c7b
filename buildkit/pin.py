"""The story of ``pin``: what a recipe leaves open is looked up once and written into it.

Sources are fetched and their digests or commits written; patches are digested; the build
requirements are resolved to the lock beside the recipe. The recipe's own layout and comments stay,
and the file changes only when all of its sources were found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from buildkit.cache import require_cache
from buildkit.errors import Location, RecipeError, SourceError
from buildkit.fs import write_atomic
from buildkit.patches import select_patches
from buildkit.recipe import find_recipe, lock_file, patch_directory, read_recipe, settle, version_of
from buildkit.recipe.model import ArchiveSource, GitSource, PypiSource
from buildkit.sizes import render_number
from buildkit.sources.git import Git
from buildkit.sources.pypi import download, find_files
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.lock import resolve_lock

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Kit, Supply
    from buildkit.recipe.model import Recipe, Source, Version

__all__ = ["Pinned", "pin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What ``pin`` found."""

    recipe_file: Path
    version: str
    changes: tuple[str, ...]
    """One line per value that was written, or would be."""


def pin(name: str, kit: Kit, *, version: str | None, is_upgrade: bool, is_dry_run: bool) -> Pinned:
    """Write the pins of a version, and the lock if there is none or the requirements changed.

    :param version: One that the recipe lacks is added, as a copy of the default's entry.
    :param is_upgrade: Resolve the build requirements and refs again although they are pinned.
    :raises SourceError: if a source cannot be had, or differs from the pin that stands there.
    :raises RecipeError: if the recipe cannot be written.
    """
    import tomlkit

    file = find_recipe(name, kit.recipe_folders)
    listed = read_recipe(file)
    chosen = version_of(listed, version)
    recipe = settle(listed, chosen)
    supply = kit.supply(read_index_settings(kit.environment), is_offline=False)
    require_cache(kit.paths)
    # The lock does not depend on the sources: it is written even if one of them cannot be reached.
    lock, changes = _lock(recipe, lock_file(file, chosen), supply, is_upgrade=is_upgrade)
    if lock is not None and not is_dry_run:
        _write(lock_file(file, chosen), lock, "")
    text = file.read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    entry, added = _entry(document, recipe, chosen)
    changes += added
    finder = _Finder(supply, is_upgrade)
    changes += finder.pin(chosen.source, entry, "source", recipe, chosen, "source")
    for key, source in chosen.sources.items():
        place = f"sources.{key}"
        changes += finder.pin(source, entry["sources"], key, recipe, chosen, place)
    changes += _pin_patches(chosen, entry, file)
    if not is_dry_run:
        _write(file, tomlkit.dumps(document), text)
    return Pinned(recipe_file=file, version=chosen.version, changes=tuple(changes))


def _entry(document: Any, recipe: Recipe, chosen: Version) -> tuple[Any, list[str]]:
    """Return the table of a version in the document, added if the recipe lacks it."""
    import copy

    entries = document["versions"]
    for entry in entries:
        if entry["version"] == chosen.version:
            return entry, []
    default = next(entry for entry in entries if entry["version"] == recipe.default_version)
    added = copy.deepcopy(default)
    added["version"] = chosen.version
    for key in ("filename", "sha256", "commit"):
        added["source"].pop(key, None)
    if isinstance(chosen.source, GitSource) and chosen.source.ref:
        added["source"]["ref"] = chosen.source.ref
    entries.append(added)
    return entries[-1], [f"version {chosen.version}: added"]


class _Finder:
    """Finds the pins of sources and writes them into their tables."""

    def __init__(self, supply: Supply, is_upgrade: bool) -> None:
        self._supply = supply
        self._is_upgrade = is_upgrade

    def pin(
        self,
        source: Source,
        parent: Any,
        name: str,
        recipe: Recipe,
        version: Version,
        place: str,
    ) -> list[str]:
        """Write what a source lacks; return one line per value."""
        if isinstance(source, PypiSource):
            project = source.project or recipe.project or recipe.name
            found = self._pypi(source, project, version.version)
        elif isinstance(source, ArchiveSource):
            found = self._archive(source)
        elif isinstance(source, GitSource) and (not source.commit or self._is_upgrade):
            if source.commit and not source.ref:
                return []  # without a ref there is nothing to follow
            found = {"commit": Git(self._supply).resolve(source.url, source.ref)}
        else:
            return []
        table = parent[name]
        changed = {key: value for key, value in found.items() if table.get(key) != value}
        _write_values(parent, name, changed)
        return [f"{place}.{key} = {value}" for key, value in changed.items()]

    def _pypi(self, source: PypiSource, project: str, version: str) -> dict[str, str]:
        if source.filename and source.sha256:
            return {}
        files = [
            file for file in find_files(project, self._supply.settings) if file.version == version
        ]
        sdists = [file for file in files if not file.filename.endswith(".whl")]
        wanted = [file for file in files if file.filename == source.filename] or sdists
        if not wanted:
            listed = ", ".join(sorted(file.filename for file in files)) or "nothing"
            raise SourceError(
                f"The package index holds no sdist of {project} {version}: found {listed}.",
                remedy="Name a wheel with `filename`, or use a git source.",
            )
        chosen = wanted[0]
        self._supply.events.step("fetch", chosen.filename)
        _, digest = download(chosen.url, chosen.filename, None, self._supply)
        return {"filename": chosen.filename, "sha256": digest}

    def _archive(self, source: ArchiveSource) -> dict[str, str]:
        if source.sha256:
            return {}
        filename = source.url.rstrip("/").rsplit("/", 1)[-1].partition("?")[0]
        self._supply.events.step("fetch", filename)
        _, digest = download(source.url, filename, None, self._supply)
        return {"sha256": digest}


def _write_values(parent: Any, name: str, values: dict[str, str]) -> None:
    """Set values of a table; one on a single line is made anew, since tomlkit adds to it badly."""
    import tomlkit
    from tomlkit.items import InlineTable

    table = parent[name]
    if not isinstance(table, InlineTable):
        for key, value in values.items():
            table[key] = value
    elif values:
        fresh = tomlkit.inline_table()
        for key, value in (table.unwrap() | values).items():
            fresh.append(key, value)
        parent[name] = fresh


def _pin_patches(version: Version, entry: Any, file: Path) -> list[str]:
    changes = []
    patches = select_patches(version.patches, patch_directory(file))
    digests = {patch.name: str(patch.digest) for patch in patches}
    if digests != version.patch_digests:
        entry["patch-digests"] = digests
        changes = [f"patch-digests.{name} = {digest}" for name, digest in digests.items()]
    return changes


def _lock(
    recipe: Recipe, place: Path, supply: Supply, *, is_upgrade: bool
) -> tuple[str | None, list[str]]:
    """Return a new lock if one is needed, and what changes."""
    from buildkit.toolchain.lock import is_current

    known = place.read_text(encoding="utf-8") if place.is_file() else ""
    if is_current(known, recipe.build.requires) and not is_upgrade:
        return None, []
    supply.events.step("resolve", render_number(len(recipe.build.requires), "build requirement"))
    text = resolve_lock(recipe.build.requires, supply)
    if text == known:
        return None, []
    return text, [f"{place.name}: {render_number(text.count(' --hash='), 'hash', 'hashes')}"]


def _write(file: Path, text: str, before: str) -> None:
    if text == before:
        return
    try:
        write_atomic(file, text.encode())
    except OSError as error:
        raise RecipeError(
            f"Cannot be written: {error.strerror or error}.",
            where=Location(file=str(file)),
            remedy="Copy the recipe into a directory of your own and name it with --recipes.",
        ) from error
