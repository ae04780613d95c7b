"""``buildkit cache``: parse, call one story, print."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.collecting import gc, render_ago, render_rows, size
from buildkit.cli.options import json_option, kit_from
from buildkit.environ import process_environment
from buildkit.errors import Location, RequestError
from buildkit.sizes import render_number, render_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildkit.cache.store import StoredEntry

__all__ = ["cache"]


@click.group()
def cache() -> None:
    """List, collect, check, move and publish the wheels that were made.

    Example: buildkit cache list
    """


def select_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``RECIPE`` and ``--key``."""
    command = click.option("--key", metavar="START", help="Only what has a key with this start.")(
        command
    )
    return click.option("--recipe", metavar="NAME", help="Only wheels of this recipe.")(command)


@cache.command("list")
@json_option
def list_cache(as_json: bool) -> None:
    """List the wheels in the cache, what was used last first.

    Example: buildkit cache list
    """
    from buildkit.cache import list_entries

    with kit_from((), as_json=as_json) as kit:
        entries = sorted(list_entries(kit.paths), key=lambda entry: -entry.used_seconds)
    if as_json:
        click.echo(json.dumps([_entry_document(entry) for entry in entries], indent=1))
        return
    now = time.time()
    rows = [("RECIPE", "VERSION", "TARGET", "KEY", "SIZE", "AGE", "LAST USED")]
    for entry in entries:
        note = entry.note
        rows.append(
            (
                *(note.recipe, note.field("version"), note.field("target"), note.key[:8]),
                render_size(entry.size_bytes),
                render_ago(now - entry.stored_seconds),
                f"{render_ago(now - entry.used_seconds)} ago",
            )
        )
    if not entries:
        click.echo("The cache holds no wheel; `buildkit cache size` shows what else there is.")
        return
    click.echo(render_rows(rows))
    whole = render_size(sum(item.size_bytes for item in entries))
    click.echo(f"{render_number(len(entries), 'wheel')}, {whole}")


cache.add_command(size)
cache.add_command(gc)


@cache.command()
@json_option
def verify(as_json: bool) -> None:
    """Read every wheel and download in the cache again, and set aside what is damaged.

    Exit status 1 tells that something was damaged; it is made or fetched again when it is needed.

    Example: buildkit cache verify
    """
    from buildkit.transfer import check_cache

    with kit_from((), as_json=as_json) as kit:
        checked = []
        for item in check_cache(kit):
            checked.append(item)
            if item.issue and not as_json:
                moved = f"; it lies in {item.moved} now" if item.moved else ""
                click.echo(f"{item.name}: {item.issue}{moved}")
    damaged = [item for item in checked if item.issue]
    if as_json:
        rows = [
            {"name": item.name, "issue": item.issue, "moved": item.moved and str(item.moved)}
            for item in damaged
        ]
        click.echo(json.dumps({"checked": len(checked), "damaged": rows}, indent=1))
    else:
        click.echo(f"{len(checked)} checked, {len(damaged)} damaged")
    if damaged:
        raise click.exceptions.Exit(1)


@cache.command()
@click.argument("destination", type=click.Path(path_type=Path))
@select_options
@json_option
def export(destination: Path, recipe: str | None, key: str | None, as_json: bool) -> None:
    """Write wheels with all that their keys cover to a directory, or to a file that ends in .tar.

    Example: buildkit cache export wheels.tar --recipe demo-kernel
    """
    from buildkit.transfer import export_entries, select

    with kit_from((), as_json=as_json) as kit:
        written, known = export_entries(select(kit.paths, recipe, key), destination, kit)
    if as_json:
        click.echo(json.dumps({"written": written, "already_there": known}))
        return
    there = f", {known} already there" if known else ""
    click.echo(f"{render_number(written, 'wheel')} written to {destination}{there}")


@cache.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@json_option
def import_cache(source: Path, as_json: bool) -> None:
    """Take exported wheels into the cache, after checking every digest.

    What does not match is refused and named; the rest is taken, and the exit status is 1. Import
    only from whom you would install wheels: digests tell what a wheel is, not whether it is good.

    Example: buildkit cache import wheels.tar
    """
    from buildkit.transfer import import_entries

    with kit_from((), as_json=as_json) as kit:
        done = []
        for item in import_entries(source, kit):
            done.append(item)
            if item.reason and not as_json:
                click.echo(f"refused {item.name}: {item.reason}", err=True)
    states = Counter(item.state for item in done)
    if as_json:
        rows = [{"name": i.name, "state": i.state, "reason": i.reason} for i in done]
        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo(", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    if states["refused"]:
        raise click.exceptions.Exit(1)


@cache.command("push")
@click.option("--remote", metavar="URL|DIR", help="Where to.  [env: BUILDKIT_REMOTE]")
@select_options
@json_option
def push_cache(remote: str | None, recipe: str | None, key: str | None, as_json: bool) -> None:
    """Write wheels to a remote, for others to take with `make --remote`; what is there stays.

    Example: buildkit cache push --remote s3://wheels/team --recipe demo-kernel
    """
    from buildkit.request import cascade, choose_remote
    from buildkit.sharing import push_all
    from buildkit.transfer import select

    wish = choose_remote(cascade({"remote": remote}, process_environment()))
    if wish is None:
        raise RequestError(
            "No remote was named.",
            where=Location(file="command line", key="--remote"),
            remedy="Give --remote s3://BUCKET/PATH, or set BUILDKIT_REMOTE.",
        )
    with kit_from((), as_json=as_json, remote=wish) as kit:
        pushed, known = push_all(select(kit.paths, recipe, key), kit)
    if as_json:
        click.echo(json.dumps({"pushed": pushed, "already_there": known}))
        return
    click.echo(f"{render_number(pushed, 'wheel')} pushed to {wish.url}, {known} already there")


@cache.command()
@click.argument("destination", type=click.Path(path_type=Path))
@click.option(
    "--wheels",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Index the wheels of this directory instead of the cache's; may be repeated.",
)
@select_options
@json_option
def index(
    destination: Path,
    wheels: tuple[Path, ...],
    recipe: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Write a package index of wheels to a directory, for pip, uv, or any static web server.

    Wheels are copied below the directory unless they lie there. Written again, it is brought up to
    date: pages change one by one, and none names a file that is not there.

    Example: buildkit cache index wheelhouse
    """
    from buildkit.transfer import select
    from buildkit.wheelhouse import cached_wheels, folder_wheels, write_index

    if wheels and (recipe or key):
        raise RequestError(
            "Found --wheels with --recipe or --key, which choose from the cache.",
            where=Location(file="command line"),
            remedy="Give one or the other.",
        )
    with kit_from((), as_json=as_json) as kit:
        if wheels:
            found = folder_wheels(wheels)
        else:
            found = cached_wheels(select(kit.paths, recipe, key), kit)
        done = write_index(found, destination, kit.events)
    if as_json:
        document = {"index": done.url, "wheels": done.wheels, "projects": done.projects}
        click.echo(json.dumps(document))
        return
    click.echo(
        f"{render_number(done.wheels, 'wheel')} of {render_number(done.projects, 'project')}"
    )
    click.echo(done.url)


# --- output ---------------------------------------------------------------------------------------


def _entry_document(entry: StoredEntry) -> dict[str, object]:
    note = entry.note
    return {
        "recipe": note.recipe,
        "version": note.field("version"),
        "target": note.field("target"),
        "key": note.key,
        "wheel": str(entry.wheel),
        "sha256": note.sha256,
        "verdict": note.verdict,
        "code": list(note.targets),
        "size_bytes": entry.size_bytes,
        "stored_seconds": entry.stored_seconds,
        "used_seconds": entry.used_seconds,
    }
