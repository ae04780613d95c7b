"""The story of ``make --from wheel``: a published wheel with the patches in it.

Choose and pin the wheel, apply the patches to the few files that they touch, write a new wheel of
the changed files and of everything else as it lies compressed in the old one. The wheel is named by
a key of all that enters. It is not stored a second time: to write it again takes as long as to copy
it, so that the cache holds only a note of it, and a wheel that lies in place is left alone.
"""

from __future__ import annotations

import json
import posixpath
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from typing import TYPE_CHECKING

from buildkit import __version__
from buildkit.cache import require_cache
from buildkit.digest import Digest, digest_file, digest_value
from buildkit.errors import JobError, Location, PatchError, RequestError, SourceError
from buildkit.fs import locked, staged_file, write_atomic
from buildkit.patches.apply import Draft, apply_one
from buildkit.patches.load import files_of, load_patch
from buildkit.patches.parse import ENCODING
from buildkit.patches.select import known_patches, select_patches
from buildkit.sizes import render_number
from buildkit.sources.fetch import find_archive
from buildkit.sources.published import resolve_wheel
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.python import probe_python
from buildkit.values import AlreadyUpstream, PinnedArchive
from buildkit.wheels.provenance import outcome_of, render_patched
from buildkit.wheels.respin import Change, OpenWheel, respin_wheel
from buildkit.wheels.rewrite import file_name, local_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.kit import Kit, Supply
    from buildkit.patches.load import Patch
    from buildkit.request import WheelRequest
    from buildkit.values import Applied, SelectedPatch

__all__ = ["PatchedWheel", "make_patched"]

#: Part of every key; raised when a change of the kit changes the bytes of a patched wheel.
KEY_FORMAT = "1"

#: Files of a ``.dist-info`` that the kit writes itself.
_OWN = ("METADATA", "WHEEL", "RECORD")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedWheel:
    """The outcome."""

    path: Path
    """In the output directory."""
    key: Digest
    source: PinnedArchive
    patches: dict[str, str]
    """Outcome by name of the patch: applied, already upstream, or not applicable."""
    is_cached: bool
    """Whether the wheel lay in the output directory already."""


def make_patched(request: WheelRequest, kit: Kit) -> PatchedWheel:
    """Make the patched wheel that a request asks for.

    :raises BuildkitError: of the family of the stage that failed; the output directory is then as
        it was.
    """
    patches = select_patches(known_patches(request.folder), request.folder)
    if not patches:
        raise RequestError(
            f"There are no patches for {request.package} in {request.folder}.",
            where=Location(file="command line"),
            remedy="Give --patches DIR, or the name of a package that has some.",
        )
    require_cache(kit.paths)
    settings = read_index_settings(kit.environment)
    supply = kit.supply(settings, is_offline=request.is_offline)
    source = _local(request) if request.wheel is not None else _pinned(request, kit, supply)
    key = digest_value(
        {
            "format": KEY_FORMAT,
            "kit": __version__,
            "wheel": [source.filename, source.sha256],
            "patches": [[patch.name, patch.digest] for patch in patches],
            "local version": request.has_local_version,
        }
    )

    def tell() -> None:
        kit.events.step("wait", "another make is writing this wheel")

    with locked(kit.paths.patched / f"{key}.lock", waiting=tell):
        known = _known(request, kit, source, key)
        if known is not None:
            return known
        file = request.wheel or find_archive(source, supply)
        made = _make(file, request, source, patches, key, kit.events)
        stamp = _stamp(made.path)
        document = {"wheel": made.path.name, "stamp": stamp, "patches": made.patches}
        write_atomic(kit.paths.patched / f"{key}.json", json.dumps(document, indent=1).encode())
    return made


# --- which wheel ----------------------------------------------------------------------------------


def _pinned(request: WheelRequest, kit: Kit, supply: Supply) -> PinnedArchive:
    python = probe_python(
        request.python, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo
    )
    return resolve_wheel(request.project, request.version or "", python, request.machine, supply)


def _local(request: WheelRequest) -> PinnedArchive:
    """Return a wheel on this machine, pinned to what it is now."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import Version

    file = request.wheel
    if file is None or not file.is_file():
        raise RequestError(
            f"There is no wheel {file}.",
            where=Location(file="command line", key="--wheel"),
            remedy="Give the path of a .whl file.",
        )
    try:
        name, version, _, _ = parse_wheel_filename(file.name)
    except InvalidWheelFilename as error:
        raise RequestError(
            f"{error}.",
            where=Location(file="command line", key="--wheel"),
            remedy="Give the path of a .whl file with the name that it was published under.",
        ) from error
    if request.version is not None and Version(request.version) != version:
        raise RequestError(
            f"Found {request.version}, and the wheel is of version {version}.",
            where=Location(file="command line", key="--version"),
            remedy="Leave --version away.",
        )
    return PinnedArchive(
        kind="wheel",
        name=str(name),
        version=str(version),
        filename=file.name,
        url=None,
        sha256=digest_file(file),
    )


def _known(
    request: WheelRequest, kit: Kit, source: PinnedArchive, key: Digest
) -> PatchedWheel | None:
    """Return the wheel if it lies in the output directory as it was left there."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads((kit.paths.patched / f"{key}.json").read_bytes())
        place = request.out / str(document["wheel"])
        if _stamp(place) == document["stamp"]:
            return PatchedWheel(
                path=place,
                key=key,
                source=source,
                patches={str(name): str(told) for name, told in document["patches"].items()},
                is_cached=True,
            )
    return None


def _stamp(file: Path) -> list[int]:
    """Return what changes with a file; quicker than its digest."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


# --- the new wheel --------------------------------------------------------------------------------


def _make(
    file: Path,
    request: WheelRequest,
    source: PinnedArchive,
    patches: Sequence[SelectedPatch],
    key: Digest,
    events: Events,
) -> PatchedWheel:
    """Write the new wheel while the old one is checked.

    Two threads, because a digest of the whole takes about as long as copying it.
    """
    with ThreadPoolExecutor(max_workers=1) as aside:
        digest = aside.submit(digest_file, file)

        def require_pin() -> None:
            if digest.result() != source.sha256:
                raise _damaged(file, source, request)

        try:
            with file.open("rb") as stream:
                wheel = OpenWheel(stream, source.filename)
                return _write(wheel, request, source, patches, key, events, require_pin)
        except JobError:
            # What is wrong with a damaged file is the damage, not what it looks like.
            require_pin()
            raise
        except OSError as error:
            raise JobError(
                f"The wheel cannot be written to {request.out}: {error.strerror or error}.",
                where=Location(file=str(error.filename or file)),
                remedy="Make the directory writable, free some space, or give another --out.",
            ) from error


def _write(
    wheel: OpenWheel,
    request: WheelRequest,
    source: PinnedArchive,
    patches: Sequence[SelectedPatch],
    key: Digest,
    events: Events,
    require_pin: Callable[[], None],
) -> PatchedWheel:
    _refuse(wheel)
    draft = Draft(lambda name: wheel.read(_spoken(name)))
    version = wheel.version.partition("+")[0]
    outcomes = tuple(_apply(map(load_patch, patches), draft, version, events))
    changes = dict(_changes(draft, wheel))
    if not changes:
        raise PatchError(
            f"{wheel.filename} needs no patch: it has them all already, or is not concerned.",
            remedy="Take the published wheel as it is.",
        )
    for name in wheel.signatures:
        events.warning(f"{name} is left away: the signed RECORD is another one now.")
    if wheel.stated_tags != set(wheel.tags):
        told = f"{', '.join(sorted(wheel.stated_tags))} become {', '.join(wheel.tags)}"
        events.step("tags", f"{told}, as the file name says")
    label = f"patched.k{key[:8]}" if request.has_local_version else ""
    place = request.out / file_name(wheel.filename, local_version(wheel.version, label))
    _refuse_itself(place, request)
    events.step(
        "write", f"{render_number(len(wheel.members), 'file')}, {len(changes)} of them changed"
    )
    provenance = render_patched(wheel.name, wheel.version, key, source, patches, outcomes)
    for stale in request.out.glob(f".{escape(place.name)}.*"):
        stale.unlink()  # of a make that was killed: whoever writes this wheel holds its lock
    with staged_file(place) as target:
        respin_wheel(wheel, target, changes, label=label, provenance=provenance)
        require_pin()
    return PatchedWheel(
        path=place,
        key=key,
        source=source,
        patches={patch.name: outcome_of(patch.name, outcomes) for patch in patches},
        is_cached=False,
    )


def _apply(
    patches: Iterable[Patch], draft: Draft, version: str, events: Events
) -> Iterator[Applied | AlreadyUpstream]:
    """Apply patches to a draft, and tell.

    :raises PatchError: if one does not apply, misses a goal, or changes nothing.
    """
    for patch in patches:
        if any(draft.read(name) is None for name in patch.needs_files):
            events.step("patch", f"{patch.name}: not applicable, the release lacks the file")
            continue
        before = {name: draft.read(name) for name in files_of(patch)}
        modes = dict(draft.modes)
        outcome = apply_one(patch, draft, version)
        if isinstance(outcome, AlreadyUpstream):
            events.step("patch", f"{patch.name}: already upstream")
        elif modes == draft.modes and all(draft.read(name) == before[name] for name in before):
            raise PatchError(
                f"Patch {patch.name} changes nothing: its files are the same with it.",
                remedy="Take it out of the directory, or mend the diff.",
            )
        else:
            events.step("patch", f"{patch.name}: {', '.join(map(_spoken, outcome.files))}")
        yield outcome


def _changes(draft: Draft, wheel: OpenWheel) -> Iterator[tuple[str, Change]]:
    """Yield what becomes of each file.

    :raises PatchError: for a file that no patch may touch.
    """
    for raw, text in draft.contents.items():
        name = _spoken(raw)
        if posixpath.normpath(name) != name or "\\" in name or not name.isprintable():
            raise PatchError(
                f"The patches name {name!r}, which is no plain path in a wheel.",
                remedy="Name the file by its path below site-packages.",
            )
        if name in {f"{wheel.dist_info}/{own}" for own in _OWN}:
            raise PatchError(
                f"The patches change {name}, which the kit writes itself.",
                remedy="Leave it out of the diff.",
            )
        data = None if text is None else text.encode(ENCODING)
        yield name, Change(data=data, is_program=draft.modes.get(raw))


def _spoken(name: str) -> str:
    """Return a file name of a patch, which has one character a byte, as wheels spell it."""
    try:
        return name.encode(ENCODING).decode()
    except UnicodeError:
        return name


def _refuse(wheel: OpenWheel) -> None:
    if wheel.has_provenance:
        raise PatchError(
            f"{wheel.filename} was made by this kit.",
            remedy="Take the published wheel, or name the patches in the recipe of this one.",
        )


def _refuse_itself(place: Path, request: WheelRequest) -> None:
    if request.wheel is not None and place.exists() and place.samefile(request.wheel):
        raise RequestError(
            f"The patched wheel would take the place of {place} itself.",
            where=Location(file="command line", key="--no-local"),
            remedy="Give another directory with --out.",
        )


def _damaged(file: Path, source: PinnedArchive, request: WheelRequest) -> SourceError:
    if request.wheel is not None:
        return SourceError(
            f"{source.filename} changed while it was read.",
            where=Location(file=str(file)),
            remedy="Try again when nobody writes it.",
        )
    file.unlink(missing_ok=True)
    return SourceError(
        f"{source.filename} was damaged in the cache, and was removed.",
        where=Location(file=str(file)),
        remedy="Run it again: the file is fetched anew.",
    )
