"""``buildkit pin``: parse, call one story, print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from buildkit.cli.options import json_option, kit_from, recipes_option

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["pin"]


@click.command()
@click.argument("name", metavar="NAME|FILE")
@click.option("--version", metavar="V", help="Version to pin; a new one is added.")
@click.option(
    "--upgrade", is_flag=True, help="Resolve build requirements and git refs again, to the newest."
)
@click.option("--dry-run", is_flag=True, help="Say what would be written; write nothing.")
@recipes_option
@json_option
def pin(
    name: str,
    version: str | None,
    upgrade: bool,
    dry_run: bool,
    recipes: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Write the digests of sources and patches into a recipe, and its lock beside it.

    Example: buildkit pin ./my-kernel.toml
    """
    from buildkit.pin import pin as story

    with kit_from(recipes, as_json=as_json) as kit:
        pinned = story(name, kit, version=version, is_upgrade=upgrade, is_dry_run=dry_run)
    if as_json:
        document = {
            "recipe_file": str(pinned.recipe_file),
            "version": pinned.version,
            "changes": list(pinned.changes),
            "written": not dry_run and bool(pinned.changes),
        }
        click.echo(json.dumps(document))
        return
    for change in pinned.changes:
        click.echo(change)
    if not pinned.changes:
        click.echo(f"{pinned.recipe_file}: everything is pinned.")
    elif dry_run:
        click.echo("Nothing was written (--dry-run).")
