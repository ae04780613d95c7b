"""``buildkit profile``, ``report`` and ``simulate``: parse, call one story, print."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from buildkit.cli.making import request_options
from buildkit.cli.options import kit_from
from buildkit.errors import Location, RequestError
from buildkit.sizes import parse_size

if TYPE_CHECKING:
    from buildkit.request import Request

__all__ = ["profile", "report", "simulate"]


@click.command()
@request_options
def profile(request: Request, recipes: tuple[Path, ...], as_json: bool) -> None:
    """Print what each compiler call of the last make of a recipe took, as a profile.

    Example: buildkit profile flash-attn --arch sm120 > flash-attn.jsonl
    """
    from buildkit.profiling import profile_last

    with kit_from(recipes, as_json=as_json) as kit:
        text = profile_last(request, kit)
    click.echo(text, nl=False)


@click.command()
@request_options
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with the charts."
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a trace for Perfetto or chrome://tracing.",
)
def report(
    request: Request,
    recipes: tuple[Path, ...],
    as_json: bool,
    html: Path | None,
    trace: Path | None,
) -> None:
    """Print what the last build of a recipe did with its time and memory.

    Example: buildkit report flash-attn --arch sm120 --html report.html
    """
    import json

    from buildkit.governor.page import render_page
    from buildkit.governor.summary import render_report, report_document
    from buildkit.governor.trace import render_trace
    from buildkit.reporting import place_text, report_last

    with kit_from(recipes, as_json=as_json) as kit:
        found = report_last(request, kit)
    if html is not None:
        place_text(render_page(found), html, option="--html")
    if trace is not None:
        place_text(render_trace(found), trace, option="--trace")
    if as_json:
        files = {"html": html and str(html), "trace": trace and str(trace)}
        click.echo(json.dumps({**report_document(found), **files}))
        return
    click.echo(render_report(found))
    for name, file in (("page", html), ("trace", trace)):
        if file is not None:
            click.echo(f"{name:<8} {file}")


@click.command()
@click.argument("profile", type=click.Path(path_type=Path))
@click.option("--cores", type=click.IntRange(min=1), metavar="N", help="CPUs.  [default: here]")
@click.option("--memory", metavar="SIZE", help="Memory, such as 128GiB.  [default: here]")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Replays per rule."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def simulate(
    profile: Path, cores: int | None, memory: str | None, seeds: int, as_json: bool
) -> None:
    """Replay a recorded PROFILE under the governor and under fixed -j rules.

    Example: buildkit simulate flash-attn.jsonl --cores 64 --memory 128GiB
    """
    from buildkit.governor.capacity import read_capacity, reserve_for
    from buildkit.governor.compare import compare, render_comparison
    from buildkit.governor.profile import read_profile
    from buildkit.governor.simulate import Machine

    recorded = read_profile(profile)
    here = read_capacity()
    memory_bytes = here.memory_bytes if memory is None else _size(memory)
    machine = Machine(
        memory_bytes=memory_bytes,
        cap_bytes=memory_bytes - reserve_for(memory_bytes),
        cpus=here.cpus if cores is None else cores,
    )
    comparison = compare(recorded.units, machine, seeds=seeds)
    if not as_json:
        click.echo(f"{recorded.recipe} {recorded.version} for {recorded.arch}")
        click.echo(render_comparison(comparison))
        return
    import json

    rows = [
        {
            "rule": row.rule,
            "jobs": row.jobs,
            "outcomes": [
                {"outcome": type(outcome).__name__.lower(), **asdict(outcome)}
                for outcome in row.outcomes
            ],
        }
        for row in comparison.rows
    ]
    document = {
        "machine": asdict(machine),
        "bounds_seconds": {**asdict(comparison.bounds), "best": comparison.bounds.best},
        "rows": rows,
    }
    click.echo(json.dumps(document, indent=2))


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise RequestError(
            f"Memory: {error}.", where=Location(file="command line", key="--memory")
        ) from None
