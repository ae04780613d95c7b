"""``buildkit verify`` and ``show-wheel``: parse, call one story, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from buildkit.cli.options import json_option, kit_from

if TYPE_CHECKING:
    from buildkit.inspect import Inspection

__all__ = ["show_wheel", "verify"]


@click.command()
@click.argument("wheel", type=click.Path(path_type=Path))
@click.option("--arch", metavar="ARCH", help="GPU target that every library must have code for.")
@json_option
def verify(wheel: Path, arch: str | None, as_json: bool) -> None:
    """List the GPU code in any WHEEL (or shared library), and whether it serves a GPU.

    With --arch, exit status 1 tells that some library has nothing for that GPU.

    Example: buildkit verify sglang_kernel-0.4.10-cp310-abi3-manylinux2014_x86_64.whl --arch sm120
    """
    from buildkit.arch import parse_arch
    from buildkit.inspect import inspect_wheel

    gpu = parse_arch(arch) if arch is not None else None
    with kit_from((), as_json=as_json) as kit:
        found = inspect_wheel(wheel, gpu, kit)
    click.echo(json.dumps(_document(found)) if as_json else _render(found))
    if found.lacking:
        raise click.exceptions.Exit(1)


@click.command("show-wheel")
@click.argument("wheel", type=click.Path(path_type=Path))
@json_option
def show_wheel(wheel: Path, as_json: bool) -> None:
    """Show what a WHEEL of this kit was made from.

    Example: buildkit show-wheel dist/demo_kernel-*.whl
    """
    from buildkit.wheels.provenance import read_provenance

    document = read_provenance(wheel)
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    click.echo("\n".join(_lines(document)))


def _lines(document: dict[str, Any], indent: str = "") -> list[str]:
    """Render nested values as indented lines, in the order of the document."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{indent}{key}")
            for item in value:
                lines += _lines(item, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], list):
            lines += [f"{indent}{key}", *_lines(dict(value), indent + "  ")]
        elif isinstance(value, list):
            lines.append(f"{indent}{key:<14} {', '.join(str(item) for item in value) or '-'}")
        else:
            lines.append(f"{indent}{key:<14} {value}")
    return lines


def _document(found: Inspection) -> dict[str, Any]:
    return {
        "wheel": str(found.path),
        "arch": found.gpu.name if found.gpu is not None else None,
        "libraries": [
            {"library": code.library, "sass": list(code.sass), "ptx": list(code.ptx)}
            for code in found.codes
        ],
        "by_jit": list(found.by_jit),
        "lacking": list(found.lacking),
        "serves": list(found.serves),
    }


def _render(found: Inspection) -> str:
    if not found.codes:
        return f"{found.path.name}: no library holds GPU code."
    width = max(len(code.library) for code in found.codes)
    lines = [
        f"{code.library:<{width}}  SASS {', '.join(code.sass) or '-'}"
        + (f"  PTX {', '.join(code.ptx)}" if code.ptx else "")
        for code in found.codes
    ]
    lines.append(f"every library has code for: {', '.join(found.serves) or 'no target'}")
    if found.gpu is not None:
        lines += [f"{name}: only by compiling its PTX on first use" for name in found.by_jit]
        lines += [f"{name}: nothing that runs on {found.gpu.name}" for name in found.lacking]
        if not found.lacking:
            lines.append(f"ok: runs on {found.gpu.name}")
    return "\n".join(lines)
