"""The pages of a package index as text. Pure.

HTML by PEP 503 with the metadata marks of PEP 658 and 714, JSON by PEP 691 and 700.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from buildkit.wheelhouse.stock import IndexedWheel

    #: Returns the address of a wheel as a page names it, quoted.
    Address = Callable[[IndexedWheel], str]

__all__ = [
    "HTML",
    "JSON",
    "render_project_html",
    "render_project_json",
    "render_root_html",
    "render_root_json",
]

HTML = "application/vnd.pypi.simple.v1+html"
JSON = "application/vnd.pypi.simple.v1+json"

#: Source: PEP 700.
_VERSION = "1.1"


def render_root_html(projects: Iterable[str]) -> bytes:
    """Return the page of all projects."""
    return _page("Simple index", [_anchor(f"{name}/", name) for name in projects])


def render_root_json(projects: Iterable[str]) -> bytes:
    """Return the page of all projects as JSON."""
    return _json({"projects": [{"name": name} for name in projects]})


def render_project_html(title: str, wheels: Sequence[IndexedWheel], address: Address) -> bytes:
    """Return a page of wheels."""
    links = []
    for wheel in wheels:
        digest = f"sha256={wheel.metadata_sha256}"
        extra = {"data-core-metadata": digest, "data-dist-info-metadata": digest}
        if wheel.requires_python:
            extra["data-requires-python"] = wheel.requires_python
        links.append(_anchor(f"{address(wheel)}#sha256={wheel.sha256}", wheel.filename, **extra))
    return _page(title, links)


def render_project_json(project: str, wheels: Sequence[IndexedWheel], address: Address) -> bytes:
    """Return a page of the wheels of a project as JSON."""
    files = []
    for wheel in wheels:
        digest = {"sha256": wheel.metadata_sha256}
        file: dict[str, Any] = {
            "filename": wheel.filename,
            "url": address(wheel),
            "hashes": {"sha256": wheel.sha256},
            "size": wheel.size_bytes,
            "core-metadata": digest,
            "dist-info-metadata": digest,
        }
        if wheel.requires_python:
            file["requires-python"] = wheel.requires_python
        files.append(file)
    versions = sorted({wheel.version for wheel in wheels})
    return _json({"name": project, "versions": versions, "files": files})


def _anchor(target: str, text: str, **attributes: str) -> str:
    written = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
    return f'<a href="{html.escape(target)}"{written}>{html.escape(text)}</a><br>'


def _page(title: str, lines: Sequence[str]) -> bytes:
    name = html.escape(title)
    head = (
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="pypi:repository-version" content="{_VERSION}">',
        f"<title>{name}</title></head><body><h1>{name}</h1>",
    )
    return "\n".join([*head, *lines, "</body></html>", ""]).encode()


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps({"meta": {"api-version": _VERSION}, **document}, indent=1) + "\n").encode()
