"""``buildkit fetch``: parse, call one story, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from buildkit.cli.options import json_option, kit_from, recipes_option

if TYPE_CHECKING:
    from buildkit.mirror import Mirrored

__all__ = ["fetch"]


@click.command()
@click.argument("name")
@click.option(
    "--to",
    "root",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The mirror: a new or empty directory, or one that was filled before.",
)
@click.option("--version", metavar="V", help="Version to fetch.  [default: the recipe's]")
@click.option(
    "--python", metavar="P", help="Python that will build: a version need not be installed here."
)
@click.option("--machine", metavar="M", help="Machine that will build, such as aarch64.")
@click.option(
    "--with",
    "constraints",
    multiple=True,
    metavar="REQ",
    help="Narrow a build requirement, as `make` will; may be repeated.",
)
@click.option(
    "--cuda-wheels",
    is_flag=True,
    help="NVIDIA's compiler wheels too, although this machine has a toolkit.",
)
@recipes_option
@json_option
def fetch(
    name: str,
    root: Path,
    version: str | None,
    python: str | None,
    machine: str | None,
    constraints: tuple[str, ...],
    cuda_wheels: bool,
    recipes: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Collect all that a build of NAME fetches in one directory, to build without network.

    Example: buildkit fetch causal-conv1d --to /media/mirror, and on the other machine:
    buildkit make causal-conv1d --arch sm120 --mirror /media/mirror --offline
    """
    from buildkit.mirror import MirrorRequest, fetch_mirror

    request = MirrorRequest(
        recipe=name,
        root=root,
        version=version,
        python=python,
        machine=machine,
        constraints=constraints,
        has_cuda_wheels=cuda_wheels,
    )
    with kit_from(recipes, as_json=as_json) as kit:
        found = fetch_mirror(request, kit)
    click.echo(json.dumps(_document(found)) if as_json else _render(found))


def _document(found: Mirrored) -> dict[str, object]:
    return {
        "status": "ok",
        "mirror": str(found.root),
        "recipe": found.recipe,
        "version": found.version,
        "python": found.python.tag,
        "platform": found.python.platform,
        "items": [
            {
                "what": item.what,
                "path": item.path,
                "sha256": item.sha256,
                "bytes": item.size_bytes,
                "new": item.is_new,
            }
            for item in found.items
        ],
    }


def _render(found: Mirrored) -> str:
    from buildkit.sizes import render_number, render_size

    fresh = [item for item in found.items if item.is_new]
    whole = render_size(sum(item.size_bytes for item in found.items))
    size = render_size(sum(item.size_bytes for item in fresh))
    told = f"{len(fresh)} fetched ({size})" if fresh else "nothing was to fetch"
    return (
        f"{found.root}: {found.recipe} {found.version} for {found.python.tag}"
        f" {found.python.platform}, {render_number(len(found.items), 'file')} ({whole}), {told}"
    )
