"""An index is written to a directory that any static web server, or a path alone, can offer.

::

    simple/index.html, index.json              all projects
    simple/PROJECT/index.html, index.json      the wheels of one
    wheels/DIGEST/NAME.whl, NAME.whl.metadata  copies of what does not lie here already
    links.html                                 all wheels, for --find-links where no server
                                               answers for a directory

Files come first, then the pages that name them, then what no page names goes: who reads meanwhile
finds the old page or the new. Copies lie by digest, so that none changes under a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from buildkit.digest import digest_bytes, digest_file
from buildkit.errors import JobError, Location, RequestError
from buildkit.fs import clone_file, locked, remove_tree, write_atomic
from buildkit.wheelhouse.pages import (
    render_project_html,
    render_project_json,
    render_root_html,
    render_root_json,
)
from buildkit.wheelhouse.stock import by_project

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.wheelhouse.stock import IndexedWheel

__all__ = ["WrittenIndex", "write_index"]

#: Lies in ``simple`` and says whose it is.
_MARK = ".buildkit-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIndex:
    """The outcome."""

    url: str
    """Address for ``--index-url`` on this machine."""
    wheels: int
    projects: int


def write_index(wheels: Sequence[IndexedWheel], destination: Path, events: Events) -> WrittenIndex:
    """Write an index, or bring the one that is there up to date.

    :raises RequestError: if the directory holds an index of somebody else.
    :raises JobError: if it cannot be written; the index is then usable still.
    """
    root = destination.absolute()
    simple = root / "simple"
    _refuse_others(root, simple)
    try:
        with locked(root / ".buildkit-index.lock", waiting=lambda: events.step("wait", str(root))):
            write_atomic(simple / _MARK, b"Written by `buildkit cache index`.\n")
            places = {wheel.filename: _place(wheel, root) for wheel in wheels}
            _write_pages(by_project(wheels), places, root)
            _tidy(by_project(wheels), places, root)
    except OSError as error:
        raise JobError(
            f"The index cannot be written to {root}: {error.strerror or error}.",
            where=Location(file=str(error.filename or root)),
            remedy="Make the directory writable, free some space, or give another one.",
        ) from error
    return WrittenIndex(
        url=f"{simple.as_uri()}/", wheels=len(wheels), projects=len(by_project(wheels))
    )


def _refuse_others(root: Path, simple: Path) -> None:
    if root.exists() and not root.is_dir():
        issue = "is no directory"
    elif simple.exists() and not (simple / _MARK).is_file() and _is_filled(simple):
        issue = "holds a directory simple that buildkit did not write"
    else:
        return
    raise RequestError(
        f"{root} {issue}.",
        where=Location(file="command line"),
        remedy="Give another directory.",
    )


def _is_filled(simple: Path) -> bool:
    return not simple.is_dir() or any(simple.iterdir())


def _place(wheel: IndexedWheel, root: Path) -> Path:
    """Put a wheel and its METADATA below the root, and return where the wheel lies."""
    place = wheel.path.absolute()
    if not place.is_relative_to(root):
        place = root / "wheels" / wheel.sha256[:16] / wheel.filename
        if not place.is_file() or digest_file(place) != wheel.sha256:
            clone_file(wheel.path, place)
    _update(place.with_name(f"{place.name}.metadata"), wheel.metadata)
    return place


def _write_pages(
    projects: dict[str, list[IndexedWheel]], places: dict[str, Path], root: Path
) -> None:
    simple = root / "simple"

    def below(prefix: str, wheel: IndexedWheel) -> str:
        relative = places[wheel.filename].relative_to(root).as_posix()
        return prefix + quote(relative, safe="/")

    for project, wheels in projects.items():
        page = render_project_json(project, wheels, lambda wheel: below("../../", wheel))
        _update(simple / project / "index.json", page)
        page = render_project_html(project, wheels, lambda wheel: below("../../", wheel))
        _update(simple / project / "index.html", page)
    _update(simple / "index.json", render_root_json(projects))
    _update(simple / "index.html", render_root_html(projects))
    everything = [wheel for wheels in projects.values() for wheel in wheels]
    page = render_project_html("All wheels", everything, lambda wheel: below("", wheel))
    _update(root / "links.html", page)


def _update(file: Path, data: bytes) -> None:
    """Write a file unless it is so already: its time tells a mirror what to upload."""
    if not file.is_file() or digest_file(file) != digest_bytes(data):
        write_atomic(file, data)


def _tidy(projects: dict[str, list[IndexedWheel]], places: dict[str, Path], root: Path) -> None:
    """Remove what no page names: pages of projects that are gone, then their copies."""
    for folder in (root / "simple").glob("*/"):
        if folder.name not in projects and not folder.is_symlink():
            remove_tree(folder)
    for file in root.glob("*.whl.metadata"):
        if not file.with_suffix("").exists():
            file.unlink(missing_ok=True)
    kept = {place.parent for place in places.values()}
    for folder in (root / "wheels").glob("[0-9a-f]" * 16):
        if folder not in kept and folder.is_dir() and not folder.is_symlink():
            remove_tree(folder)
