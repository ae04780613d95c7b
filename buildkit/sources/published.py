"""The published wheel of a release that fits an interpreter: chosen once, then pinned.

What enters: a project, a version, an interpreter and perhaps another machine. What leaves: a pinned
archive. What the index said of a release is kept with its digests, so that the next time takes the
same file without asking, also offline.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from buildkit.digest import Digest, digest_value
from buildkit.errors import SourceError, nearest
from buildkit.fs import write_atomic
from buildkit.sources.pypi import download, find_files
from buildkit.tags import rank_of, ranks
from buildkit.values import PinnedArchive

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.sources.pypi import IndexFile
    from buildkit.values import PythonIdentity

__all__ = ["Published", "choose_wheel", "resolve_wheel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A wheel as an index described it."""

    filename: str
    sha256: str
    """Empty where the index names none."""
    requires_python: str
    is_yanked: bool


def resolve_wheel(
    project: str, version: str, python: PythonIdentity, machine: str | None, supply: Supply
) -> PinnedArchive:
    """Return the wheel of a release that an installer would take, with its digest.

    :param machine: Such as ``aarch64``; None for the machine that the kit runs on.
    :raises SourceError: if there is none, or the index cannot be asked.
    """
    note = _note(project, version, supply)
    known = _read_note(note)
    chosen = choose_wheel(known, python, machine)
    url = None
    if chosen is None:
        if supply.is_offline:
            raise SourceError(
                f"No wheel of {project} {version} for {_asked(python, machine)} was looked up"
                " before.",
                remedy="Run it once without --offline.",
            )
        supply.events.step("look up", f"{project} {version}")
        files = find_files(project, supply.settings)
        known = _wheels(files, version)
        chosen = choose_wheel(known, python, machine)
        if chosen is None:
            raise _none(project, version, _asked(python, machine), files)
        url = next(file.url for file in files if file.filename == chosen.filename)
    if chosen.is_yanked:
        supply.events.warning(f"{chosen.filename} was withdrawn by its publisher.")
    sha256 = Digest(chosen.sha256)
    if not sha256 and url is not None:
        supply.events.warning(f"The index names no SHA-256 of {chosen.filename}: taken as it is.")
        _, sha256 = download(url, chosen.filename, None, supply)
        known = [
            Published(**(asdict(file) | {"sha256": sha256})) if file == chosen else file
            for file in known
        ]
    if url is not None:
        write_atomic(note, json.dumps([asdict(file) for file in known], indent=1).encode())
    return PinnedArchive(
        kind="wheel",
        name=project,
        version=version,
        filename=chosen.filename,
        url=url,
        sha256=sha256,
    )


def choose_wheel(
    files: Sequence[Published], python: PythonIdentity, machine: str | None
) -> Published | None:
    """Return the wheel that fits an interpreter best, as pip ranks them, or None. Pure."""
    from packaging.utils import parse_wheel_filename

    known = ranks(python, machine)
    best: tuple[tuple[bool, int, str], Published] | None = None
    for file in files:
        place = rank_of(file.filename, known)
        if place is None or not _allows(file.requires_python, python):
            continue
        build = parse_wheel_filename(file.filename)[2]
        # A higher build number wins over a lower one of the same tags: it sorts first.
        worth = (file.is_yanked, place, f"{10**9 - build[0] if build else 10**9:010d}")
        if best is None or worth < best[0]:
            best = (worth, file)
    return None if best is None else best[1]


def _allows(specifiers: str, python: PythonIdentity) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(specifiers).contains(python.version, prereleases=True)
    except InvalidSpecifier:
        return True  # pip takes such files too


def _wheels(files: Sequence[IndexFile], version: str) -> list[Published]:
    from packaging.version import InvalidVersion, Version

    found = []
    for file in files:
        with suppress(InvalidVersion):
            if file.filename.endswith(".whl") and Version(file.version) == Version(version):
                found.append(
                    Published(
                        filename=file.filename,
                        sha256=file.sha256 or "",
                        requires_python=file.requires_python,
                        is_yanked=file.is_yanked,
                    )
                )
    return found


def _none(project: str, version: str, asked: str, files: Sequence[IndexFile]) -> SourceError:
    wheels = [file.filename for file in _wheels(files, version)]
    if wheels:
        listed = ", ".join(sorted(dict.fromkeys(wheels)))
        return SourceError(
            f"No wheel of {project} {version} is for {asked}; the index holds {listed}.",
            remedy="Name another interpreter with --python or another machine with --machine.",
        )
    known = list(dict.fromkeys(f.version for f in files if f.filename.endswith(".whl")))
    told = f"of {project} it holds {', '.join(_newest(known)) or 'no wheel'}"
    return SourceError(
        f"The package index holds no wheel of {project} {version}; {told}."
        f"{nearest(version, known)}",
        remedy="Correct the version, or look at `pip config list`.",
    )


def _newest(versions: Sequence[str]) -> list[str]:
    from packaging.version import InvalidVersion, Version

    sortable = []
    for text in versions:
        with suppress(InvalidVersion):
            sortable.append(Version(text))
    return [str(version) for version in sorted(set(sortable), reverse=True)[:8]]


def _asked(python: PythonIdentity, machine: str | None) -> str:
    return f"Python {python.version} on {machine or python.platform}"


def _note(project: str, version: str, supply: Supply) -> Path:
    """Return where it is kept what these indexes said of a release."""
    from packaging.utils import canonicalize_name

    settings = supply.settings
    asked = [settings.index_url, *settings.extra_index_urls, *settings.find_links]
    mark = digest_value([canonicalize_name(project), version, asked])[:16]
    return supply.paths.downloads / "published" / f"{mark}.json"


def _read_note(note: Path) -> list[Published]:
    try:
        rows = json.loads(note.read_bytes())
        known = [Published(**row) for row in rows]
    except (OSError, ValueError, TypeError):
        return []  # never asked, or damaged: asked again
    return [file for file in known if file.sha256]
