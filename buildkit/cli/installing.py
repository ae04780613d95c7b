"""``buildkit install``: parse, call one story, print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.options import (
    json_option,
    kit_from,
    recipes_option,
    setting_options,
    with_option,
)
from buildkit.sizes import render_number

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.install import Installation

__all__ = ["install"]


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--python",
    required=True,
    metavar="ENV",
    help="The virtual environment to install into, or its interpreter.",
)
@click.option("--version", metavar="V", help="Version of the one recipe that is named.")
@with_option
@setting_options("arch", "jobs", "memory", "offline", "mirror")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would change.")
@click.option("--no-make", is_flag=True, help="Refuse to make what the cache lacks.")
@recipes_option
@json_option
def install(
    names: tuple[str, ...],
    recipes: tuple[Path, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Install what the kit made into an environment, with the torch that it was built for.

    NAME is a recipe, NAME==VERSION, or the path of a wheel. What the cache lacks is made first. All
    of it is resolved at once; whatever would break an installed package is refused, and a failure
    leaves the environment as it was. The modules are imported afterwards, as far as that goes
    without a GPU.

    Example: buildkit install demo-kernel --python .venv --arch sm120
    """
    from buildkit.environ import process_environment
    from buildkit.install import InstallRequest, parse_names
    from buildkit.install import install as story
    from buildkit.request import cascade, parse_mirror, parse_offline, parse_request

    settings = ("arch", "jobs", "memory", "offline", "mirror", "python")
    chosen = cascade({name: choices[name] for name in settings}, process_environment())
    asked = parse_names(names, choices["version"])
    request = InstallRequest(
        python=choices["python"],
        recipes=tuple(
            parse_request(
                item.recipe, chosen, version=item.version, constraints=choices["constraints"]
            )
            for item in asked
            if item.wheel is None
        ),
        wheels=tuple(item.wheel for item in asked if item.wheel is not None),
        is_offline=parse_offline(chosen),
        is_dry_run=choices["is_dry_run"],
        makes=not choices["no_make"],
    )
    with kit_from(recipes, as_json=as_json, mirror=parse_mirror(chosen)) as kit:
        done = story(request, kit)
    click.echo(
        json.dumps(_document(done, is_dry_run=request.is_dry_run))
        if as_json
        else _render(done, is_dry_run=request.is_dry_run)
    )


def _document(done: Installation, *, is_dry_run: bool) -> dict[str, Any]:
    from buildkit.values import ImportPassed

    return {
        "status": "ok",
        "environment": str(done.environment),
        "dry_run": is_dry_run,
        "wheels": [
            {
                "project": wish.project,
                "version": wish.version,
                "wheel": None if wish.wheel is None else str(wish.wheel),
                "cached": wish.is_cached,
                "published": wish.is_published,
            }
            for wish in done.wishes
        ],
        "changes": [
            {"name": item.name, "before": item.before, "after": item.after} for item in done.changes
        ],
        "imports": [
            {
                "name": name,
                "passed": isinstance(outcome, ImportPassed),
                "modules": list(outcome.modules),
                "reason": None if isinstance(outcome, ImportPassed) else outcome.reason,
            }
            for name, outcome in done.imports.items()
        ],
        "unverified": list(done.unverified),
    }


def _render(done: Installation, *, is_dry_run: bool) -> str:
    lines = [
        f"to make: {wish}" for wish in done.wishes if wish.wheel is None and not wish.is_published
    ]
    lines += [str(change) for change in done.changes]
    count = render_number(len(done.changes), "change")
    if is_dry_run:
        if lines and lines[0].startswith("to make"):
            count += " besides what is to make and what that requires"
        return "\n".join([*lines, f"{done.environment}: {count}, none made"])
    lines += [f"not verified: {told}" for told in done.unverified]
    return "\n".join(
        [
            *lines,
            f"{done.environment}: {count}"
            if done.changes
            else f"{done.environment}: nothing to change",
        ]
    )
