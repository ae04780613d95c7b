"""``buildkit plan``, ``make`` and ``shell``: parse, call one story, print."""

from __future__ import annotations

import json
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.from_wheel import drop_wheel_options, make_from_wheel, wheel_options
from buildkit.cli.options import (
    json_option,
    kit_from,
    recipes_option,
    setting_options,
    with_option,
)
from buildkit.request import SETTINGS, Request, cascade, parse_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildkit.governor.capacity import Capacity
    from buildkit.kit import Kit
    from buildkit.make import Drafted, Made
    from buildkit.values import CacheEntry

__all__ = ["make", "plan", "shell"]


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make a request, and pass it as ``request``."""

    @wraps(command)
    def parsed(**values: Any) -> Any:
        request = take_request(values)
        return command(request=request, **values)

    return plain_options(parsed)


def take_request(values: dict[str, Any]) -> Request:
    """Return the request that the options make, and take those out of ``values``."""
    from buildkit.environ import process_environment

    flags = {setting: values.pop(setting) for setting in SETTINGS}
    return parse_request(
        values.pop("name"),
        cascade(flags, process_environment()),
        version=values.pop("version"),
        constraints=values.pop("constraints"),
        existing_environment=values.pop("environment"),
        has_local_version=not values.pop("has_no_local"),
    )


def plain_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make a request, and pass each as it is."""
    command = setting_options(*SETTINGS)(command)
    for decorator in (
        click.option(
            "--no-local",
            "has_no_local",
            is_flag=True,
            help="Leave the local version label (+cu130.sm120.k1a2b3c4d) away.",
        ),
        click.option(
            "--env",
            "environment",
            type=click.Path(path_type=Path),
            metavar="PYTHON",
            help="Build in the environment of this interpreter instead of an isolated one.",
        ),
        with_option,
        click.option("--version", metavar="V", help="Version to build.  [default: the recipe's]"),
        click.argument("name"),
    ):
        command = decorator(command)
    return recipes_option(json_option(command))


@click.command()
@request_options
@click.option(
    "--explain", is_flag=True, help="Say how the key differs from the nearest wheel in the cache."
)
def plan(request: Request, recipes: tuple[Path, ...], as_json: bool, explain: bool) -> None:
    """Show what a make would do, and everything that its key covers. Runs nothing.

    Example: buildkit plan demo-kernel --arch sm120
    """
    from buildkit.cache import look_up, nearest_fields
    from buildkit.launcher import probe_isolation
    from buildkit.make import draft
    from buildkit.plan import difference

    with kit_from(recipes, as_json=as_json, mirror=request.mirror, remote=request.remote) as kit:
        drafted = draft(request, kit)
        hit = look_up(kit.paths, drafted.plan.recipe, drafted.plan.key)
        origin = _origin(drafted, hit, kit)
        isolation = probe_isolation(kit.runner, kit.environment).description
        lines: tuple[str, ...] = ()
        if explain and hit is None:
            near = nearest_fields(kit.paths, drafted.plan.recipe, drafted.plan.key_fields)
            if near is None:
                lines = ("The cache holds no wheel of this recipe.",)
            else:
                lines = difference(near, drafted.plan.key_fields)
    if as_json:
        click.echo(
            json.dumps(
                _plan_document(
                    drafted,
                    is_cached=hit is not None,
                    origin=origin,
                    isolation=isolation,
                    object_cache=request.object_cache,
                    why=lines,
                )
            )
        )
        return
    click.echo(_render_plan(drafted, isolation, request.object_cache))
    click.echo(f"cache    {_render_hit(hit, origin)}")
    for line in lines:
        click.echo(f"         {line}")


@click.command()
@plain_options
@wheel_options
@click.option(
    "--keep", "is_kept", is_flag=True, help="Keep the temporary files of the compilers too."
)
@click.option(
    "--clean", "is_clean", is_flag=True, help="Forget the objects of earlier builds first."
)
@click.option(
    "--from-step",
    type=click.Choice(["fetch", "build", "verify"]),
    default="fetch",
    help="Go on from a step of the last make, with what it left.  [default: fetch]",
)
@click.option("-v", "--verbose", is_flag=True, help="Show what the build prints.")
def make(origin: str, recipes: tuple[Path, ...], as_json: bool, **choices: Any) -> None:
    """Make a wheel and verify the GPU code in it, or patch a published one (--from wheel).

    The wheel's path is the only line on standard output.

    Example: buildkit make demo-kernel --arch sm120
    """
    if origin == "wheel":
        make_from_wheel(choices, as_json=as_json)
        return
    from buildkit.make import make as story

    drop_wheel_options(choices)
    request = take_request(choices)
    verbose = choices.pop("verbose")
    with kit_from(
        recipes, as_json=as_json, verbose=verbose, mirror=request.mirror, remote=request.remote
    ) as kit:
        made = story(request, kit, **choices)
    click.echo(json.dumps(_made_document(made)) if as_json else str(made.wheel))


@click.command()
@request_options
@click.option("--command", "-c", metavar="LINE", help="Run this line instead of a shell.")
@click.option(
    "--keep-source",
    "keeps_source",
    is_flag=True,
    help="Open the source as it was left, instead of a fresh one.",
)
def shell(
    request: Request,
    recipes: tuple[Path, ...],
    as_json: bool,
    command: str | None,
    keeps_source: bool,
) -> None:
    """Open the prepared source and build environment of a recipe for a person.

    Example: buildkit shell demo-kernel --arch sm120
    """
    from buildkit.shell import open_shell

    with kit_from(recipes, as_json=as_json, mirror=request.mirror) as kit:
        status = open_shell(request, kit, command=command, keeps_source=keeps_source)
    raise click.exceptions.Exit(status)


def _plan_document(
    drafted: Drafted,
    *,
    is_cached: bool,
    origin: str,
    isolation: str,
    object_cache: str,
    why: tuple[str, ...],
) -> dict[str, object]:
    plan = drafted.plan
    return {
        "recipe": plan.recipe,
        "version": plan.version,
        "local_version": plan.local_version,
        "arch": plan.arch.name,
        "code": plan.code.name,
        "key": plan.key,
        "key_fields": {field.name: field.value for field in plan.key_fields},
        "capacity": _capacity_document(drafted.capacity),
        "isolation": isolation,
        "object_cache": object_cache,
        "known_gaps": list(drafted.known_gaps),
        "not_passed_on": list(drafted.strays),
        "unpinned": [f"{source.description}: {source.reason}" for source in plan.unpinned],
        "host_compiler": plan.toolchain.note,
        "system": {
            "notes": list(plan.system.notes),
            "missing": plan.system.lacks,
            "remedy": plan.system.remedy,
        },
        "cached": is_cached,
        "origin": origin or None,
        "why": list(why),
    }


def _capacity_document(capacity: Capacity) -> dict[str, object]:
    return {
        "cap_bytes": capacity.cap_bytes,
        "memory_bytes": capacity.memory_bytes,
        "memory_source": capacity.memory_source,
        "reserve_bytes": capacity.reserve_bytes,
        "cpus": capacity.cpus,
        "cpu_source": capacity.cpu_source,
    }


def _made_document(made: Made) -> dict[str, object]:
    return {
        "status": "ok",
        "wheel": str(made.wheel),
        "sha256": made.entry.sha256,
        "key": made.entry.key,
        "cached": made.is_cached,
        "origin": made.entry.origin or None,
        "verdict": made.entry.verdict,
        "targets": list(made.entry.targets),
    }


def _origin(drafted: Drafted, hit: CacheEntry | None, kit: Kit) -> str:
    """Return the remote that a wheel came from, or would come from; empty for none."""
    from buildkit.sharing import shared_note

    note = shared_note(drafted.plan, kit) if hit is None else None
    return hit.origin if hit is not None else note.origin if note is not None else ""


def _render_hit(hit: CacheEntry | None, origin: str) -> str:
    if hit is None:
        return f"miss here, hit at {origin}" if origin else "miss"
    return f"hit: {hit.wheel}{f' (from {origin})' if origin else ''}"


def _render_plan(drafted: Drafted, isolation: str, object_cache: str) -> str:
    from buildkit.governor.capacity import render_capacity

    plan = drafted.plan
    label = f"+{plan.local_version}" if plan.local_version else ""
    lines = [
        f"recipe   {plan.recipe}",
        f"wheel    {plan.project} {plan.version}{label}",
        f"target   {plan.arch.name} ({plan.code.gencode})",
        f"capacity {render_capacity(drafted.capacity)}",
        f"network  {isolation}",
        f"objects  {'compiled' if object_cache == 'off' else f'{object_cache} (experimental)'}",
        f"key      {plan.key}",
    ]
    lines += [f"  {field.name} = {field.value}" for field in plan.key_fields]
    lines += [f"unpinned {source.description}: {source.reason}" for source in plan.unpinned]
    if plan.toolchain.note:
        lines.append(f"compiler {plan.toolchain.note}")
    lines += [f"system   {note}" for note in plan.system.notes]
    if plan.system.lacks:
        lines.append(f"missing  {plan.system.lacks} {plan.system.remedy}")
    lines += [f"gap      {gap}" for gap in drafted.known_gaps]
    if drafted.strays:
        lines.append(f"ignored  {', '.join(drafted.strays)}: set here, not passed to the build")
    return "\n".join(lines)
