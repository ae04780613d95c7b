"""``buildkit lock`` and ``sync``: parse, call one story, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.options import json_option, kit_from, recipes_option
from buildkit.errors import Location, RequestError
from buildkit.sizes import render_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildkit.lock import Synced, SyncRequest

__all__ = ["lock", "sync"]

#: A name that PEP 751 allows and that no other tool writes.
_DEFAULT = Path("pylock.buildkit.toml")


def find_links_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--find-links``."""
    return click.option(
        "--find-links",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="A directory of wheels that no index has; may be repeated.",
    )(command)


def offline_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--offline``."""
    return click.option(
        "--offline",
        "is_offline",
        is_flag=True,
        envvar="BUILDKIT_OFFLINE",
        help="Use only what was fetched before.  [env: BUILDKIT_OFFLINE]",
    )(command)


@click.command()
@click.option(
    "--python",
    metavar="ENV",
    help="Environment, or its interpreter.  [default: the one that runs the kit]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=_DEFAULT,
    show_default=True,
    metavar="FILE",
    help="Where the lock is written.",
)
@find_links_option
@offline_option
@json_option
def lock(
    python: str | None,
    output: Path,
    find_links: tuple[Path, ...],
    is_offline: bool,
    as_json: bool,
) -> None:
    """Write down an environment, for `buildkit sync` to make it again elsewhere.

    Every distribution is named by version and by the SHA-256 of its wheel; wheels of this kit also
    by everything that their key covers, patches in place by their digests.

    Example: buildkit lock --python .venv
    """
    from buildkit.lock import lock_environment

    with kit_from((), as_json=as_json) as kit:
        recorded = lock_environment(
            python, output, kit, find_links=find_links, is_offline=is_offline
        )
    if as_json:
        document = {
            "lock": str(recorded.file),
            "packages": recorded.packages,
            "made": list(recorded.made),
            "patched": list(recorded.patched),
        }
        click.echo(json.dumps(document))
        return
    click.echo(
        f"{recorded.file}: {render_number(recorded.packages, 'package')},"
        f" {len(recorded.made)} made by the kit, {len(recorded.patched)} patched in place"
    )


@click.command()
@click.argument("file", metavar="[LOCK]", type=click.Path(path_type=Path), default=_DEFAULT)
@click.option("--python", metavar="ENV", help="Environment to bring to the lock.")
@click.option(
    "--create",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make the environment there, unless an earlier sync has begun it.",
)
@click.option("--check", "is_check", is_flag=True, help="Only say what differs; change nothing.")
@click.option("--prune", "is_pruned", is_flag=True, help="Remove what is not in the lock.")
@click.option(
    "--exact",
    "is_exact",
    is_flag=True,
    help="Take wheels of this kit by their locked bytes alone; make none again.",
)
@click.option(
    "--patches",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory that holds PACKAGE/NAME.patch.  [default: the kit's own]",
)
@find_links_option
@offline_option
@recipes_option
@json_option
def sync(
    is_check: bool,
    recipes: tuple[Path, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Bring an environment to a LOCK, or say what differs.

    Nothing is installed that is not in the lock. Exit status 1 tells that something still differs:
    with --check anything, else what only --prune or a person may remove.

    Example: buildkit sync pylock.buildkit.toml --create .venv
    """
    from buildkit.lock import SyncRequest, check_environment, sync_environment

    request = SyncRequest(**choices)
    if (request.python is None) == (request.create is None):
        raise RequestError(
            "Found both --python and --create, or neither; allowed one of them.",
            where=Location(file="command line"),
            remedy="Give --python ENV for an environment that exists, else --create DIR.",
        )
    story = check_environment if is_check else sync_environment
    with kit_from(recipes, as_json=as_json) as kit:
        synced = story(request, kit)
    click.echo(json.dumps(_document(request, synced)) if as_json else _render(synced))
    if synced.comparison.differences:
        raise click.exceptions.Exit(1)


def _document(request: SyncRequest, synced: Synced) -> dict[str, Any]:
    differences = synced.comparison.differences
    return {
        "status": "differs" if differences else "ok",
        "lock": str(request.file),
        "environment": synced.environment,
        "differences": [
            {"name": item.name, "kind": item.kind, "detail": item.detail} for item in differences
        ],
        "notes": list(synced.comparison.notes),
        "installed": synced.installed,
        "patched": synced.patched,
        "removed": synced.removed,
    }


def _render(synced: Synced) -> str:
    lines = []
    for word, names in (
        ("installed", synced.installed),
        ("patched", synced.patched),
        ("removed", synced.removed),
    ):
        if names:
            lines.append(f"{word}: {', '.join(names)}")
    lines += [f"note: {note}" for note in synced.comparison.notes]
    differences = synced.comparison.differences
    lines += [f"{item.name}: {item.kind}: {item.detail}" for item in differences]
    count = len(differences)
    told = render_number(count, "difference") if count else "as locked"
    return "\n".join([*lines, f"{synced.environment}: {told}"])
