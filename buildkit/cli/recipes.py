"""``buildkit list``, ``show``, ``lint`` and ``schema``: parse, call one story, print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.options import json_option, recipe_folders, recipes_option
from buildkit.sizes import render_number

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.recipe.decode import Issue
    from buildkit.recipe.model import Recipe, Version

__all__ = ["lint", "list_recipes", "schema", "show"]


@click.command("list")
@recipes_option
@json_option
def list_recipes(recipes: tuple[Path, ...], as_json: bool) -> None:
    """List the recipes that can be made.

    Example: buildkit list
    """
    from buildkit.errors import RecipeError
    from buildkit.recipe import list_recipes as files_of
    from buildkit.recipe import read_recipe

    rows: list[dict[str, Any]] = []
    for file in files_of(recipe_folders(recipes)):
        try:
            rows.append(_row(read_recipe(file), file))
        except RecipeError as error:
            # One broken recipe must not hide the others.
            click.echo(f"warning: {error}", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        pinned = "" if row["pinned"] else "  (not pinned)"
        click.echo(f"{row['name']:<{width}}  {row['version']:<12}  {row['summary']}{pinned}")


@click.command()
@click.argument("name")
@recipes_option
@json_option
def show(name: str, recipes: tuple[Path, ...], as_json: bool) -> None:
    """Show what a recipe says.

    Example: buildkit show demo-kernel
    """
    import msgspec

    from buildkit.recipe import find_recipe, lock_file, read_recipe

    file = find_recipe(name, recipe_folders(recipes))
    recipe = read_recipe(file)
    if as_json:
        document = msgspec.to_builtins(recipe) | {"file": str(file)}
        click.echo(json.dumps(document, indent=1))
        return
    lines = [
        f"{recipe.name}: {recipe.summary}",
        f"  file          {file}",
        f"  homepage      {recipe.homepage or '-'}",
        f"  targets       {', '.join(recipe.architectures)}",
        f"  CUDA          {recipe.toolchain.cuda or 'none'}",
        f"  host compiler {recipe.toolchain.host_compiler or 'any'}",
        f"  built with    {', '.join(recipe.build.requires)}",
        f"  lock          {'yes' if lock_file(file).exists() else 'missing: buildkit pin'}",
    ]
    for version in recipe.versions:
        is_default = " (default)" if version.version == recipe.default_version else ""
        lines.append(f"  version       {version.version}{is_default}: {_source(version)}")
        lines += [f"    patch       {patch}" for patch in version.patches]
        lines += [f"    source      {extra}" for extra in version.sources]
    for arch, settings in recipe.arch.items():
        lines += [f"  {arch} lacks     {gap}" for gap in settings.known_gaps]
    click.echo("\n".join(lines))


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...")
@recipes_option
@json_option
def lint(names: tuple[str, ...], recipes: tuple[Path, ...], as_json: bool) -> None:
    """Check recipes; all of them when none is named.

    Errors are what `make` would refuse, warnings are what a reviewer would ask about.

    Example: buildkit lint ./recipes/my-kernel.toml
    """
    from buildkit.errors import RecipeError
    from buildkit.recipe import find_recipe
    from buildkit.recipe import list_recipes as files_of
    from buildkit.recipe.check import lint_recipe

    folders = recipe_folders(recipes)
    files = [find_recipe(name, folders) for name in names] or list(files_of(folders))
    findings: list[dict[str, Any]] = []
    for file in files:
        try:
            text, issues = lint_recipe(file)
        except RecipeError as error:
            line = error.where.line if error.where else None
            findings.append(_finding(file, line, "", error.what, is_error=True))
            continue
        findings += [_located(issue, text, file) for issue in issues]
    errors = sum(finding["level"] == "error" for finding in findings)
    if as_json:
        click.echo(json.dumps({"recipes": len(files), "findings": findings}, indent=1))
    else:
        for finding in findings:
            place = f"{finding['file']}:{finding['line'] or 1}"
            key = f" ({finding['key']})" if finding["key"] else ""
            click.echo(f"{place}{key}: {finding['level']}: {finding['text']}")
        click.echo(
            ", ".join(
                (
                    render_number(len(files), "recipe"),
                    render_number(errors, "error"),
                    render_number(len(findings) - errors, "warning"),
                )
            )
        )
    if errors:
        raise click.exceptions.Exit(2)


@click.command()
def schema() -> None:
    """Print the JSON Schema of recipe files, for an editor.

    Example: buildkit schema > recipe.schema.json
    """
    from buildkit.recipe.schema import render_schema

    click.echo(render_schema())


def _row(recipe: Recipe, file: Path) -> dict[str, Any]:
    from buildkit.recipe import version_of

    version = version_of(recipe, None)
    return {
        "name": recipe.name,
        "version": version.version,
        "versions": [known.version for known in recipe.versions],
        "architectures": list(recipe.architectures),
        "summary": recipe.summary,
        "pinned": _is_pinned(version),
        "file": str(file),
    }


def _is_pinned(version: Version) -> bool:
    from buildkit.recipe.model import ArchiveSource, GitSource, PypiSource

    for source in (version.source, *version.sources.values()):
        if isinstance(source, GitSource) and not source.commit:
            return False
        if isinstance(source, PypiSource | ArchiveSource) and not source.sha256:
            return False
    return True


def _source(version: Version) -> str:
    import msgspec

    fields = msgspec.to_builtins(version.source)
    kind = fields.pop("kind")
    told = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
    return f"{kind} ({told})"


def _located(issue: Issue, text: str, file: Path) -> dict[str, Any]:
    from buildkit.recipe.locate import locate, render_key

    told = " ".join(part for part in (issue.text, issue.remedy) if part)
    return _finding(
        file, locate(text, issue.path), render_key(issue.path), told, is_error=issue.is_error
    )


def _finding(
    file: Path, line: int | None, key: str, text: str, *, is_error: bool
) -> dict[str, Any]:
    level = "error" if is_error else "warning"
    return {"file": str(file), "line": line, "key": key, "level": level, "text": text}
