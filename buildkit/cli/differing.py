"""``buildkit diff``: parse, call one story, print."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from buildkit.cli.options import json_option, kit_from
from buildkit.environ import process_environment
from buildkit.request import cascade, parse_mirror

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildkit.differ import Comparison
    from buildkit.wheels.differences import MemberDifference
    from buildkit.wheels.libraries import LibraryDifference

__all__ = ["diff"]

#: Names that are shown of each kind; --json has them all.
SHOWN = 12


@click.command()
@click.argument("a", type=click.Path(path_type=Path), metavar="A.whl")
@click.argument("b", type=click.Path(path_type=Path), metavar="B.whl")
@json_option
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Say what differs between two wheels, and why where that is known.

    Exit status 0 tells that they are the same byte by byte, 1 that they differ.

    Example: buildkit diff dist/demo_kernel-*.whl other/demo_kernel-*.whl
    """
    from buildkit.differ import compare_wheels

    mirror = parse_mirror(cascade({}, process_environment()))
    with kit_from((), as_json=as_json, mirror=mirror) as kit:
        found = compare_wheels(a, b, kit)
    click.echo(json.dumps(_document(found)) if as_json else "\n".join(_lines(found)))
    if not found.is_same:
        raise click.exceptions.Exit(1)


def _document(found: Comparison) -> dict[str, object]:
    return {
        "same": found.is_same,
        "sha256": list(found.digests),
        "other_order": found.has_other_order,
        "differences": [asdict(difference) for difference in found.differences],
        "reasons": list(found.reasons),
    }


def _lines(found: Comparison) -> Iterator[str]:
    if found.is_same:
        yield f"the same: sha256 {found.digests[0]}"
        return
    for difference in found.differences:
        yield from _member(difference)
    if found.has_other_order:
        yield "the same files stand in another order"
    elif not found.differences:
        yield "all files are the same; what the archives say besides differs"
    for reason in found.reasons:
        yield f"reason   {reason}"
    if not found.reasons:
        yield "reason   not known"


def _member(difference: MemberDifference) -> Iterator[str]:
    yield f"{difference.change:<8} {difference.name}"
    yield from _few("", difference.fields)
    if difference.library is not None:
        yield from _library(difference.library)


def _library(library: LibraryDifference) -> Iterator[str]:
    yield from _few("section ", library.sections)
    yield from _few("kernel ", library.kernels)
    if any(".nv_fatbin" in section for section in library.sections) and not library.kernels:
        yield "           machine code of all kernels that could be compared: the same"
    yield from _few("only in A: ", library.only_in_a)
    yield from _few("only in B: ", library.only_in_b)


def _few(label: str, texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts[:SHOWN]:
        yield f"           {label}{text}"
    if len(texts) > SHOWN:
        yield f"           {label}... and {len(texts) - SHOWN} more (--json lists them)"
