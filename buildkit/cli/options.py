"""Options that several commands share, and the kit that they make."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.environ import process_environment
from buildkit.errors import Location, RequestError, nearest
from buildkit.holds import Holds
from buildkit.kit import Kit
from buildkit.paths import data_root, paths_from
from buildkit.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from buildkit.mirrored import Mirror
    from buildkit.remote import RemoteWish

__all__ = [
    "json_option",
    "kit_from",
    "patch_folder",
    "patches_option",
    "recipe_folders",
    "recipes_option",
    "setting_options",
    "with_option",
]


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document for a script to read."
    )(command)


def recipes_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--recipes``."""
    return click.option(
        "--recipes",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="A directory of recipes of your own; may be repeated.  [env: BUILDKIT_RECIPES]",
    )(command)


#: What click has to know of a setting besides its name.
_SETTINGS: dict[str, dict[str, Any]] = {
    "offline": {"is_flag": True},
    "memory": {"metavar": "SIZE"},
    "jobs": {"metavar": "N"},
    "mirror": {"metavar": "DIR"},
    "hard_cap": {"metavar": "auto|on|off"},
    "object_cache": {"metavar": "auto|ccache|off"},
    "system_packages": {"metavar": "download|never"},
    "remote": {"metavar": "URL|DIR"},
    "remote_mode": {"metavar": "read|read-write"},
}


def setting_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of settings, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            setting = SETTINGS[name]
            told = f"{setting.help}  [env: {setting.variable}]"
            extra = _SETTINGS.get(name, {})
            command = click.option(setting.flag, name, help=told, **extra)(command)
        return command

    return add


def with_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--with``."""
    return click.option(
        "--with",
        "constraints",
        multiple=True,
        metavar="REQ",
        help="Narrow a build requirement, such as 'torch==2.11.0'; may be repeated.",
    )(command)


def patches_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--patches``."""
    return click.option(
        "--patches",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Directory that holds PACKAGE/NAME.patch.  [default: the kit's own]",
    )(command)


def patch_folder(package: str, patches: Path | None) -> Path:
    """Return the directory of a package's patches.

    :param patches: Directory that was named for all packages; None for the kit's own.
    :raises RequestError: if there is none.
    """
    root = data_root() / "patches" if patches is None else patches
    folder = root / package
    if not folder.is_dir():
        known = sorted(path.name for path in root.glob("*/")) if root.is_dir() else []
        raise RequestError(
            f"There are no patches for {package!r} in {root}; there are some for"
            f" {', '.join(known) or 'nothing'}.{nearest(package, known)}",
            where=Location(file="command line"),
            remedy="Name one of these, or give --patches DIR.",
        )
    return folder


def recipe_folders(named: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return where recipes are looked for: the user's directories, then the kit's own.

    :raises RequestError: if a directory that was named does not exist.
    """
    configured = process_environment().get("BUILDKIT_RECIPES", "")
    folders = [(folder, "command line", "--recipes") for folder in named]
    folders += [
        (Path(text).expanduser(), "environment", "BUILDKIT_RECIPES")
        for text in configured.split(":")
        if text
    ]
    for folder, file, key in folders:
        if not folder.is_dir():
            raise RequestError(
                f"Found {str(folder)!r}, allowed a directory of recipes.",
                where=Location(file=file, key=key),
                remedy="Make it, or correct the path.",
            )
    return (*(folder.absolute() for folder, _, _ in folders), data_root() / "recipes")


@contextmanager
def kit_from(
    named: tuple[Path, ...],
    *,
    as_json: bool,
    verbose: bool = False,
    mirror: Mirror | None = None,
    remote: RemoteWish | None = None,
) -> Iterator[Kit]:
    """Yield the kit of this process: real directories, real processes, this terminal."""
    from buildkit.console import events_for
    from buildkit.remote import Remote
    from buildkit.run import ProcessRunner

    environment = process_environment()
    events = events_for(as_json=as_json, verbose=verbose)
    holds = Holds()
    try:
        yield Kit(
            paths=paths_from(environment),
            environment=environment,
            runner=ProcessRunner(),
            events=events,
            recipe_folders=recipe_folders(named),
            holds=holds,
            mirror=mirror,
            remote=Remote(remote, environment, events) if remote is not None else None,
        )
    finally:
        holds.release()
        events.close()
