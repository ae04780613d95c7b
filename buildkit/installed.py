"""The stories of patched installs: apply, status and revert on a package in site-packages.

What is patched is what the distribution's RECORD says was installed, and nothing else. Everything
is computed before anything is written. The originals and a state file go into the ``.dist-info``
first, with what each file will be; then the files are replaced one by one, and RECORD last. A kill
in between leaves a state file whose files are some old, some new, and the next command completes
it: it knows both. ``pip uninstall`` removes what RECORD lists, and the state is listed there.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from buildkit.digest import digest_bytes
from buildkit.errors import Location, PatchError
from buildkit.fs import write_atomic
from buildkit.patches.apply import Draft, apply_one
from buildkit.patches.load import load_patch
from buildkit.patches.parse import ENCODING
from buildkit.patches.select import known_patches, select_patches
from buildkit.values import Applied
from buildkit.wheels.installed import STATE, Installed, find_installed, patches_brought_along

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.values import AlreadyUpstream, SelectedPatch

__all__ = [
    "Installed",
    "Status",
    "apply_installed",
    "find_installed",
    "revert_installed",
    "status_of",
]

ORIGINALS = "buildkit-originals"

Condition = Literal["applied", "drifted", "absent", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of the patches in an installed package."""

    condition: Condition
    patches: tuple[str, ...]
    detail: str = ""
    """For a drift: what differs, and by whom as far as the files tell."""


def apply_installed(
    installed: Installed, folder: Path, names: Sequence[str], events: Events
) -> tuple[Applied | AlreadyUpstream, ...]:
    """Apply patches to an installed distribution, all or none; a second time does nothing.

    :param folder: Directory of the package's patches.
    :param names: Patches to apply; empty for all that have a meaning for this version.
    :raises PatchError: if one does not apply, or a file is not what was installed.
    """
    state = _read_state(installed)
    if state is not None and state["complete"] is False:
        _complete(installed, state)
        state = _read_state(installed)
    record = _read_record(installed)
    selected = _not_in_wheel(installed, select_patches(names or known_patches(folder), folder))
    if not selected and state is None:
        _refuse_drift(installed, _drift_of_wheel(installed, set()))
        return ()
    wanted = {patch.name: str(patch.digest) for patch in selected}
    if state is not None and state["patches"] == wanted and _drift(installed, state) == []:
        return ()
    if state is not None:
        _refuse_drift(installed, _drift(installed, state))
        revert_installed(installed)
        record = _read_record(installed)
    draft = Draft(_recorded(installed, record))
    version = installed.version.split("+")[0]
    outcomes = []
    for patch in map(load_patch, selected):
        if not names and any(draft.read(name) is None for name in patch.needs_files):
            continue
        outcomes.append(apply_one(patch, draft, version))
    for outcome in outcomes:
        told = ", ".join(outcome.files) if isinstance(outcome, Applied) else "already upstream"
        events.step("patch", f"{outcome.patch}: {told}")
    if draft.contents:
        _write(installed, draft, wanted, record)
    return tuple(outcomes)


def status_of(installed: Installed, wanted: dict[str, str] | None = None) -> Status:
    """Tell what is known of the patches in an installed distribution.

    :param wanted: Digest of each patch as it is now, by name; another digest is a drift.
    """
    state = _read_state(installed)
    brought = patches_brought_along(installed)
    if state is None and brought is None:
        return Status(condition="absent", patches=())
    digests = (brought.digests if brought else {}) | (state["patches"] if state else {})
    names = tuple(digests)
    if state is not None and not state["complete"]:
        return Status(condition="interrupted", patches=names, detail="run apply or revert again")
    drift = _drift(installed, state) if state is not None else []
    drift += _drift_of_wheel(installed, set(state["files"]) if state is not None else set())
    if drift:
        return Status(condition="drifted", patches=names, detail="; ".join(drift))
    changed = [name for name in names if wanted is not None and wanted.get(name) != digests[name]]
    if changed:
        told = f"another text of {', '.join(changed)} was applied"
        return Status(condition="drifted", patches=names, detail=told)
    if brought is None:
        return Status(condition="applied", patches=names)
    which = "they" if state is None else ", ".join(brought.digests)
    return Status(condition="applied", patches=names, detail=f"{which} came with the wheel")


def revert_installed(installed: Installed) -> bool:
    """Restore every file byte for byte; tells whether there was anything to do.

    :raises PatchError: if a file was changed since by someone else, or the patches came with the
        wheel.
    """
    state = _read_state(installed)
    if state is None and patches_brought_along(installed) is not None:
        public = installed.version.partition("+")[0]
        raise PatchError(
            f"The patches of {installed.name} {installed.version} came with its wheel.",
            where=Location(file=str(installed.dist_info)),
            remedy=f"Install the published one: `pip install {installed.name}==={public}"
            " --force-reinstall --no-deps`.",
        )
    if state is None:
        return False
    if state["complete"]:
        _refuse_drift(installed, _drift(installed, state))
        # From here on the files may be of either kind, which a later command must know.
        unsure = json.dumps(state | {"complete": False}, indent=1)
        write_atomic(installed.state_file, unsure.encode())
    for name, row in state["files"].items():
        place = installed.root / name
        if row["before"] is None:
            place.unlink(missing_ok=True)
        else:
            write_atomic(place, (installed.dist_info / ORIGINALS / row["before"]).read_bytes())
        _forget_bytecode(place)
    original = installed.dist_info / ORIGINALS / state["record"]
    write_atomic(installed.dist_info / "RECORD", original.read_bytes())
    for row in (installed.dist_info / ORIGINALS).iterdir():
        row.unlink()
    (installed.dist_info / ORIGINALS).rmdir()
    installed.state_file.unlink()
    return True


# --- RECORD ---------------------------------------------------------------------------------------


def _read_record(installed: Installed) -> dict[str, str]:
    """Return the digest field of each file that RECORD lists."""
    file = installed.dist_info / "RECORD"
    try:
        rows = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError) as error:
        raise PatchError(
            f"The RECORD of {installed.name} cannot be read: {error}.",
            where=Location(file=str(file)),
            remedy="Install the package again.",
        ) from error
    return {row[0]: row[1] for row in rows if len(row) == 3}


def _recorded(installed: Installed, record: dict[str, str]) -> Callable[[str], bytes | None]:
    """Return a reader of installed files that refuses one that is not as it was installed."""

    def read(name: str) -> bytes | None:
        if name not in record:
            return None
        place = installed.root / name
        try:
            data = place.read_bytes()
        except OSError:
            return None
        if record[name] and _hash(data) != record[name]:
            raise PatchError(
                f"{name} is not what {installed.name} {installed.version} installed: someone"
                " changed it by hand.",
                where=Location(file=str(place)),
                remedy="Install the package again, then apply the patches.",
            )
        return data

    return read


# --- state ----------------------------------------------------------------------------------------


def _read_state(installed: Installed) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads(installed.state_file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PatchError(
            f"The state of the patches in {installed.name} cannot be read: {error}.",
            where=Location(file=str(installed.state_file)),
            remedy="Install the package again.",
        ) from error
    return state


def _write(
    installed: Installed, draft: Draft, patches: dict[str, str], record: dict[str, str]
) -> None:
    """Keep the originals, note what will be, replace the files, and RECORD last."""
    originals = installed.dist_info / ORIGINALS
    originals.mkdir(exist_ok=True)
    files: dict[str, dict[str, str | None]] = {}
    for name, text in draft.contents.items():
        place = installed.root / name
        before = None
        if place.exists():
            before = f"{len(files)}"
            write_atomic(originals / before, place.read_bytes())
        after = None
        if text is not None:
            after = f"{len(files)}.new"
            write_atomic(originals / after, text.encode(ENCODING))
        files[name] = {
            "before": before,
            "after": after,
            "sha256": None if text is None else digest_bytes(text.encode(ENCODING)),
        }
    write_atomic(originals / "RECORD", (installed.dist_info / "RECORD").read_bytes())
    state: dict[str, Any] = {
        "schema": 1,
        "complete": False,
        "distribution": installed.name,
        "version": installed.version,
        "patches": patches,
        "files": files,
        "record": "RECORD",
    }
    write_atomic(installed.state_file, json.dumps(state, indent=1).encode())
    _complete(installed, state)


def _complete(installed: Installed, state: dict[str, Any]) -> None:
    """Bring every file to what the state says; begun by apply, gone on with after a kill."""
    originals = installed.dist_info / ORIGINALS
    for name, row in state["files"].items():
        place = installed.root / name
        if row["after"] is None:
            place.unlink(missing_ok=True)
        else:
            write_atomic(place, (originals / row["after"]).read_bytes())
        _forget_bytecode(place)
    done = state | {"complete": True}
    # RECORD names the state file, whose own text it must hash: the state is written after it.
    text = json.dumps(done, indent=1).encode()
    write_atomic(installed.dist_info / "RECORD", _new_record(installed, done, text))
    write_atomic(installed.state_file, text)


def _new_record(installed: Installed, state: dict[str, Any], state_text: bytes) -> bytes:
    originals = installed.dist_info / ORIGINALS
    rows = list(csv.reader(io.StringIO((originals / state["record"]).read_text("utf-8"))))
    kept = [row for row in rows if row and row[0] not in state["files"]]
    for name, row in state["files"].items():
        if row["after"] is not None:
            kept.append(_row(name, (originals / row["after"]).read_bytes()))
    folder = installed.dist_info.name
    kept.append(_row(f"{folder}/{STATE}", state_text))
    kept += [
        _row(f"{folder}/{ORIGINALS}/{file.name}", file.read_bytes())
        for file in sorted(originals.iterdir())
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(kept)
    return out.getvalue().encode()


def _drift(installed: Installed, state: dict[str, Any]) -> list[str]:
    """Return what differs from what was applied, and by whom as far as the files tell."""
    if state["version"] != installed.version:
        return [f"upgraded from {state['version']} to {installed.version}"]
    found = []
    for name, row in state["files"].items():
        place = installed.root / name
        now = digest_bytes(place.read_bytes()) if place.is_file() else None
        if now == row["sha256"]:
            continue
        original = installed.dist_info / ORIGINALS / row["before"] if row["before"] else None
        is_original = original is not None and now == digest_bytes(original.read_bytes())
        by = "installed again" if is_original else "edited by hand" if now else "removed"
        found.append(f"{name}: {by}")
    return found


def _not_in_wheel(
    installed: Installed, selected: tuple[SelectedPatch, ...]
) -> tuple[SelectedPatch, ...]:
    """Return the patches that did not come with the wheel, text for text."""
    brought = patches_brought_along(installed)
    known = brought.digests if brought is not None else {}
    return tuple(patch for patch in selected if known.get(patch.name) != patch.digest)


def _drift_of_wheel(installed: Installed, others: set[str]) -> list[str]:
    """Return which files of the wheel's own patches are not as it brought them.

    :param others: Files that were patched after the installation.
    """
    brought = patches_brought_along(installed)
    if brought is None:
        return []
    record = _read_record(installed)
    found = []
    for name in dict.fromkeys(brought.files):
        if name in others or name not in record:
            continue  # a file that a patch removed is in no RECORD
        place = installed.root / name
        if not place.is_file():
            found.append(f"{name}: removed")
        elif record[name] and _hash(place.read_bytes()) != record[name]:
            found.append(f"{name}: edited by hand")
    return found


def _refuse_drift(installed: Installed, drift: list[str]) -> None:
    if drift:
        raise PatchError(
            f"The patched files of {installed.name} are not as they were left: {'; '.join(drift)}.",
            where=Location(file=str(installed.dist_info)),
            remedy=f"Save what you need, then `pip install --force-reinstall {installed.name}`.",
        )


def _forget_bytecode(place: Path) -> None:
    """Remove compiled copies, which Python may prefer to a source of the same time and size."""
    for file in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
        file.unlink(missing_ok=True)


def _row(name: str, data: bytes) -> list[str]:
    return [name, _hash(data), str(len(data))]


def _hash(data: bytes) -> str:
    """Return a digest as RECORD spells it. Source: PyPA "Recording installed projects"."""
    raw = bytes.fromhex(digest_bytes(data))
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
