"""A recipe file becomes a :class:`~buildkit.recipe.model.Recipe`, or one error that says it all.

What enters: a TOML file. What leaves: a frozen recipe whose every value has been checked as far as
it can be without a network. Each issue names file, line, key, what was found and what is allowed.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import msgspec

from buildkit.errors import Location, RecipeError, nearest
from buildkit.recipe.locate import locate, render_key
from buildkit.recipe.model import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from buildkit.recipe.locate import Part

__all__ = ["Issue", "decode_recipe", "raise_issues", "read_recipe", "read_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One thing that is wrong, or doubtful, in a recipe."""

    path: tuple[Part, ...]
    text: str
    remedy: str = ""
    is_error: bool = True


def read_recipe(file: Path) -> Recipe:
    """Return the recipe in a file.

    :raises RecipeError: if the file cannot be read or anything in it is wrong; all of it at once.
    """
    from buildkit.recipe.check import check_recipe

    text = read_text(file)
    recipe, issues = decode_recipe(text, file)
    if recipe is not None:
        issues = [issue for issue in check_recipe(recipe, file) if issue.is_error]
    raise_issues(issues, text, file)
    if recipe is None:  # pragma: no cover - no recipe means issues, and those were raised
        raise AssertionError(file)
    return recipe


def read_text(file: Path) -> str:
    """Return the text of a recipe file.

    :raises RecipeError: if it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RecipeError(
            f"Recipe cannot be read: {reason}.",
            where=Location(file=str(file)),
            remedy="Name a recipe of `buildkit list`, or a readable TOML file.",
        ) from error


def raise_issues(issues: list[Issue], text: str, file: Path) -> None:
    """Raise one error for all issues, if there are any.

    :raises RecipeError: naming the place of the first and listing the others.
    """
    if not issues:
        return
    first, *others = sorted(issues, key=lambda issue: locate(text, issue.path) or 0)
    lines = [f"{_place(other, text, file)}: {other.text}" for other in others]
    raise RecipeError(
        "\n".join([first.text, *lines]),
        where=_place(first, text, file),
        remedy=first.remedy or "`buildkit schema` and the recipe reference say what is allowed.",
    )


def _place(issue: Issue, text: str, file: Path) -> Location:
    return Location(
        file=str(file), line=locate(text, issue.path), key=render_key(issue.path) or None
    )


def decode_recipe(text: str, file: Path) -> tuple[Recipe | None, list[Issue]]:
    """Return the recipe, or None and the issues of its shape.

    :raises RecipeError: if the text is no TOML.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(
            f"Not valid TOML: {error}.", where=Location(file=str(file)), remedy="Mend the file."
        ) from error
    try:
        return msgspec.convert(document, Recipe), []
    except msgspec.ValidationError as error:
        issues = list(_unknown_keys(document, Recipe, ()))
        return None, issues or [_shape_issue(str(error), document)]


def _shape_issue(message: str, document: Any) -> Issue:
    """Turn msgspec's ``Expected `str`, got `int` - at `$.a[0].b``` into an issue with a place."""
    text, _, place = message.partition(" - at `$")
    path: tuple[Part, ...] = ()
    for piece in place.rstrip("`").replace("[", ".[").split("."):
        if piece.startswith("[") and piece[1:-1].isdigit():
            path = (*path, int(piece[1:-1]))
        elif piece.startswith("["):  # "[...]" stands for a value of a table of free names
            path = _first_bad_value(document, path)
        elif piece:
            path = (*path, piece)
    found = _look(document, path)
    allowed = _allowed(path)
    if isinstance(found, str) and allowed:
        hint = nearest(found, allowed)
        return Issue(path=path, text=f"Found {found!r}, allowed {', '.join(allowed)}.{hint}")
    told = text.replace("`", "").rstrip(".")
    if found is None:
        return Issue(path=path, text=f"{told}.")
    return Issue(path=path, text=f"{told}: found {found!r}.")


def _allowed(path: tuple[Part, ...]) -> list[str]:
    """Return the words that may stand at a path, if only certain ones may."""
    kinds: list[Any] = [Recipe]
    for part in path:
        reached: list[Any] = []
        for kind in kinds:
            reached += _step(kind, part)
        kinds = reached
    return [str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]


def _step(kind: Any, part: Part) -> Iterator[Any]:
    """Yield what a kind holds under a key or index."""
    config = getattr(kind, "__struct_config__", None)
    if config is not None:
        if part == config.tag_field:
            yield Literal[config.tag]
        for field in msgspec.structs.fields(kind):
            if field.encode_name == part:
                members = get_args(field.type) if _is_union(field.type) else (field.type,)
                yield from members
    elif get_origin(kind) in (tuple, list, dict):
        yield get_args(kind)[1 if get_origin(kind) is dict else 0]


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _first_bad_value(document: Any, path: tuple[Part, ...]) -> tuple[Part, ...]:
    """Guess which value of a table of free names msgspec means: the first that is no scalar."""
    table = _look(document, path)
    if isinstance(table, dict):
        for name, value in table.items():
            if not isinstance(value, str | bool | int):
                return (*path, name)
    return path


def _look(document: Any, path: tuple[Part, ...]) -> Any:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document if isinstance(document, str | int | float | bool | list) else None


def _unknown_keys(value: Any, kind: Any, path: tuple[Part, ...]) -> Iterator[Issue]:
    """Yield every key that the model does not know; msgspec itself stops at the first."""
    if get_origin(kind) in (tuple, list) and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown_keys(item, get_args(kind)[0], (*path, number))
    elif get_origin(kind) is dict and isinstance(value, dict):
        for name, item in value.items():
            yield from _unknown_keys(item, get_args(kind)[1], (*path, name))
    elif isinstance(value, dict):
        struct = _struct_for(value, kind)
        if struct is None:
            return
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        tag = struct.__struct_config__.tag_field
        allowed = [*([tag] if tag else []), *fields]
        for name, item in value.items():
            if name not in allowed:
                yield Issue(
                    path=(*path, name),
                    text=f"Unknown key {name!r}, allowed {', '.join(allowed)}."
                    f"{nearest(name, allowed)}",
                )
            elif name in fields:
                yield from _unknown_keys(item, fields[name], (*path, name))


def _struct_for(value: dict[str, Any], kind: Any) -> Any:
    """Return the struct that a table is: itself, or the member of a union that its tag names."""
    members = get_args(kind) if get_origin(kind) is not Literal else ()
    for struct in members or (kind,):
        config = getattr(struct, "__struct_config__", None)
        if config is None:
            continue
        if config.tag_field is None or value.get(config.tag_field) == config.tag:
            return struct
    return None
