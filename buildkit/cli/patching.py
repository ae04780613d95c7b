"""``buildkit patch``: parse, call one story, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.options import json_option, kit_from, patch_folder, patches_option
from buildkit.sizes import render_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from buildkit.installed import Installed
    from buildkit.kit import Kit
    from buildkit.matrix import Cell

__all__ = ["patch"]


@click.group()
def patch() -> None:
    """Look at patches, and apply them to installed packages.

    Example: buildkit patch status vllm --python .venv
    """


def python_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--python``."""
    return click.option(
        "--python",
        metavar="ENV",
        help="Environment, or its interpreter.  [default: the one that runs the kit]",
    )(command)


@patch.command("list")
@click.argument("package")
@patches_option
@json_option
def list_patches(package: str, patches: Path | None, as_json: bool) -> None:
    """List the patches of a PACKAGE with what they are for.

    Example: buildkit patch list vllm
    """
    from buildkit.patches.load import load_patch, ranges_of
    from buildkit.patches.select import known_patches, select_patches

    folder = patch_folder(package, patches)
    found = [load_patch(selected) for selected in select_patches(known_patches(folder), folder)]
    if as_json:
        rows = [
            {
                "name": item.name,
                "description": item.description,
                "versions": [variant.applies_to for variant in item.variants],
                "goals": [goal.text for goal in item.goals],
            }
            for item in found
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    for item in found:
        click.echo(f"{item.name} ({ranges_of(item)})\n    {item.description}")
        for goal in item.goals:
            click.echo(f"    goal: {goal.text}")


@patch.command()
@click.argument("package")
@click.option("--versions", required=True, metavar="RANGE", help="Such as '>=0.14,<=0.33'.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@patches_option
@json_option
def matrix(
    package: str, versions: str, markdown: bool, patches: Path | None, as_json: bool
) -> None:
    """Show what each patch would do to each release of a PACKAGE.

    Exit status 1 tells that some release needs a maintainer: a conflict, or a goal that is not
    reached and no diff for it.

    Example: buildkit patch matrix vllm --versions '>=0.14,<=0.33'
    """
    from buildkit.matrix import matrix as story

    with kit_from((), as_json=as_json) as kit:
        cells = story(package, patch_folder(package, patches), versions, kit)
    if as_json:
        rows = [
            {
                "version": cell.version,
                "patch": cell.patch,
                "state": cell.state,
                "detail": cell.detail,
            }
            for cell in cells
        ]
        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo(_table(cells, is_markdown=markdown))
    if any(cell.state in ("conflict", "no diff") for cell in cells):
        raise click.exceptions.Exit(1)


@patch.command()
@click.argument("package")
@click.argument("names", nargs=-1, metavar="[PATCH]...")
@click.option("--installed", is_flag=True, required=True, help="Patch the installed package.")
@python_option
@patches_option
@json_option
def apply(
    package: str,
    names: tuple[str, ...],
    installed: bool,
    python: str | None,
    patches: Path | None,
    as_json: bool,
) -> None:
    """Apply patches to an installed PACKAGE, all of them or none; all that fit by default.

    Example: buildkit patch apply vllm --installed --python .venv
    """
    from buildkit.installed import apply_installed, status_of
    from buildkit.patchlog import note_patched
    from buildkit.values import Applied

    del installed  # there is no other way yet
    with kit_from((), as_json=as_json) as kit:
        target = _installed(package, python, kit)
        outcomes = apply_installed(target, patch_folder(package, patches), names, kit.events)
        note_patched(kit.paths.patchlog, target, status_of(target).patches)
    if as_json:
        rows = {
            outcome.patch: "applied" if isinstance(outcome, Applied) else "already upstream"
            for outcome in outcomes
        }
        document = {"distribution": target.name, "version": target.version, "patches": rows}
        click.echo(json.dumps(document))
    elif not outcomes:
        click.echo(f"{target.name} {target.version}: nothing to do, the patches are applied.")
    else:
        click.echo(
            f"{target.name} {target.version}: {render_number(len(outcomes), 'patch', 'patches')}"
        )


@patch.command()
@click.argument("package")
@python_option
@patches_option
@json_option
def status(package: str, python: str | None, patches: Path | None, as_json: bool) -> None:
    """Tell whether an installed PACKAGE is patched: applied, drifted or absent.

    Exit status 0 for applied, 1 for anything else.

    Example: buildkit patch status vllm --python .venv
    """
    from buildkit.installed import Status, status_of
    from buildkit.patches.select import known_patches, select_patches
    from buildkit.patchlog import lost_patches

    folder = patch_folder(package, patches)
    with kit_from((), as_json=as_json) as kit:
        target = _installed(package, python, kit)
    wanted = {
        selected.name: str(selected.digest)
        for selected in select_patches(known_patches(folder), folder)
    }
    found = status_of(target, wanted)
    lost = lost_patches(kit.paths.patchlog, target) if found.condition == "absent" else None
    if lost is not None:
        found = Status(condition="drifted", patches=lost.patches, detail=lost.detail)
    if as_json:
        document = {
            "distribution": target.name,
            "version": target.version,
            "condition": found.condition,
            "patches": list(found.patches),
            "detail": found.detail,
        }
        click.echo(json.dumps(document))
    else:
        names = f" ({', '.join(found.patches)})" if found.patches else ""
        detail = f": {found.detail}" if found.detail else ""
        click.echo(f"{target.name} {target.version}: {found.condition}{names}{detail}")
    if found.condition != "applied":
        raise click.exceptions.Exit(1)


@patch.command()
@click.argument("package")
@python_option
@json_option
def revert(package: str, python: str | None, as_json: bool) -> None:
    """Restore an installed PACKAGE byte for byte.

    Example: buildkit patch revert vllm --python .venv
    """
    from buildkit.installed import revert_installed
    from buildkit.patchlog import forget_patched

    with kit_from((), as_json=as_json) as kit:
        target = _installed(package, python, kit)
        was_patched = revert_installed(target)
        forget_patched(kit.paths.patchlog, target)
    if as_json:
        click.echo(json.dumps({"distribution": target.name, "reverted": was_patched}))
    else:
        told = "restored" if was_patched else "nothing to do, it is not patched"
        click.echo(f"{target.name} {target.version}: {told}.")


@patch.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--description", required=True, metavar="TEXT", help="One sentence.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it there.")
def new(old: Path, new: Path, description: str, out: Path | None) -> None:
    """Make a patch that turns the tree OLD into the tree NEW.

    Add a goal to its header before you use it.

    Example: buildkit patch new vllm.orig vllm --description "Accept kimi_k2" --out accept.patch
    """
    from buildkit.fs import write_atomic
    from buildkit.patches.parse import ENCODING
    from buildkit.rebase import new_patch

    text = new_patch(old, new, description)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_atomic(out, text.encode(ENCODING))
        click.echo(str(out))


@patch.command()
@click.argument("package")
@click.argument("name", metavar="PATCH")
@click.option("--onto", required=True, metavar="VERSION", help="Release to make a diff for.")
@click.option(
    "--work", type=click.Path(path_type=Path), metavar="DIR", help="Where conflicts are left."
)
@patches_option
def rebase(package: str, name: str, onto: str, work: Path | None, patches: Path | None) -> None:
    """Make a diff of a PATCH for another release, by a three-way merge.

    Exit status 1 tells that conflicts wait in the work directory.

    Example: buildkit patch rebase vllm eagle3-targets --onto 0.17.1
    """
    from buildkit.rebase import rebase as story

    place = work or Path(f"{name}-{onto}")
    with kit_from((), as_json=False) as kit:
        done = story(package, patch_folder(package, patches), name, onto, kit, work=place)
    if done.is_upstream:
        click.echo(f"{package} {onto} reaches the goals of {name} by itself.")
    elif done.file is not None:
        click.echo(f"{done.file} (merged with {done.base} as the base)")
    elif done.conflicts:
        click.echo(f"Conflicts in {', '.join(done.conflicts)}: mend them below {done.work}/b, then")
        click.echo(f"run `buildkit patch refresh {done.work}`.")
        raise click.exceptions.Exit(1)
    else:
        click.echo(f"{name} has a diff for {onto}, and it fits.")


@patch.command()
@click.argument("work", type=click.Path(path_type=Path))
def refresh(work: Path) -> None:
    """Record what was mended in the WORK directory of a rebase.

    Example: buildkit patch refresh eagle3-targets-0.17.1
    """
    from buildkit.rebase import refresh as story

    click.echo(str(story(work)))


def _installed(package: str, python: str | None, kit: Kit) -> Installed:
    from buildkit.installed import find_installed
    from buildkit.toolchain.python import site_packages

    places = site_packages(python, runner=kit.runner, environment=kit.environment)
    return find_installed(package, places)


def _table(cells: Sequence[Cell], *, is_markdown: bool) -> str:
    names = list(dict.fromkeys(cell.patch for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(cell.version, {})[cell.patch] = cell.state
    head = ["version", *names]
    body = [[version, *(row[name] for name in names)] for version, row in rows.items()]
    if is_markdown:
        lines = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]
    else:
        widths = [max(len(line[place]) for line in (head, *body)) for place in range(len(head))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in (head, *body)
        ]
    return "\n".join([*lines, *_details(cells)])


def _details(cells: Sequence[Cell]) -> list[str]:
    """Return one line per patch and reason, with the releases that it is about."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        if cell.detail:
            found.setdefault((cell.patch, cell.state, cell.detail), []).append(cell.version)
    lines = []
    for (name, state, detail), versions in found.items():
        told = versions[0] if len(versions) == 1 else f"{versions[-1]} to {versions[0]}"
        lines.append(f"{name}, {told}: {state}: {detail}")
    return lines
