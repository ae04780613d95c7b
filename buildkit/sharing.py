"""Wheels through a remote: pulled before a build, pushed after it.

A remote holds ``RECIPE/KEY/entry.json`` and ``RECIPE/KEY/SHA256/WHEEL``. The wheel's name holds its
digest, so that builds of one key whose bytes differ never mix; the note is written last and names a
wheel that is there, so that a reader finds a whole entry or none.

What is pulled is checked as a built wheel is: the key fields are those of the plan at hand, the
wheel has the note's digest, agrees with its own RECORD, names the key, and holds the GPU code that
the recipe asks for. What is not so is refused and named. Nothing here fails a ``make``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from buildkit.cache.note import ENTRY, MAX_NOTE_BYTES, parse_note, render_note
from buildkit.cache.store import add_entry, look_up, stored_entry
from buildkit.digest import digest_file
from buildkit.errors import JobError, RemoteError, VerifyError
from buildkit.wheels import read_provenance, read_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.cache.note import EntryNote
    from buildkit.cache.store import StoredEntry
    from buildkit.kit import Kit
    from buildkit.recipe.model import Recipe
    from buildkit.remote import Remote
    from buildkit.values import CacheEntry, Plan
    from buildkit.wheels import WheelContents

__all__ = ["offer", "pull", "push", "push_all", "require_sound", "shared_note"]


def require_sound(note: EntryNote, wheel: Path) -> WheelContents:
    """Refuse an entry that does not agree with itself.

    :param wheel: Its wheel, whose digest was compared already.
    :raises VerifyError: with the reason.
    """
    if not note.is_keyed:
        raise VerifyError("The key is not the digest of the key fields.")
    contents = read_wheel(wheel)
    stated = read_provenance(wheel).get("key")
    if stated != note.key:
        raise VerifyError(f"The wheel says that its key is {stated}.")
    return contents


# --- pull -----------------------------------------------------------------------------------------


def shared_note(plan: Plan, kit: Kit) -> EntryNote | None:
    """Return the note that the remote has for a plan, or None; its wheel was not read."""
    remote = kit.remote
    if remote is None or remote.is_given_up:
        return None
    name = _note_name(plan.recipe, plan.key)
    try:
        data = remote.objects.read(name, MAX_NOTE_BYTES)
        if data is None:
            return None
        note = parse_note(plan.recipe, plan.key, data)
        _require_plan(note, plan)
    except RemoteError as error:
        remote.give_up(error)
        return None
    except ValueError as error:
        remote.refuse(name, str(error))
        return None
    return replace(note, origin=remote.url)


def pull(plan: Plan, recipe: Recipe, kit: Kit) -> CacheEntry | None:
    """Take the wheel of a plan from the remote into the cache; None where that cannot be."""
    note, remote = shared_note(plan, kit), kit.remote
    if note is None or remote is None:
        return None
    kit.events.step("pull", f"{remote.url}/{_wheel_name(note)}")

    def write(place: Path) -> None:
        with place.open("wb") as file:
            remote.objects.fetch(_wheel_name(note), file)
        found = digest_file(place)
        if found != note.sha256:
            raise VerifyError(f"{note.wheel} has sha256 {found}, allowed {note.sha256}.")
        _require_code(note, place, plan, recipe, kit)

    try:
        return add_entry(kit.paths, note, write, kit.holds)
    except RemoteError as error:
        remote.give_up(error)
    except (ValueError, JobError) as error:
        told = error.what if isinstance(error, JobError) else str(error)
        remote.refuse(_note_name(plan.recipe, plan.key), told)
    return None


def _require_plan(note: EntryNote, plan: Plan) -> None:
    """Refuse a note that is not of the plan, whose key was computed here.

    :raises ValueError: with the reason.
    """
    if note.fields != plan.key_fields:
        raise ValueError("its key fields are not those of this key")
    if not all(text.isprintable() and len(text) < 100 for text in (note.verdict, *note.targets)):
        raise ValueError("its verdict is no line of text")


def _require_code(note: EntryNote, wheel: Path, plan: Plan, recipe: Recipe, kit: Kit) -> None:
    """Refuse a wheel that a build would not have made.

    :raises VerifyError: with the reason.
    """
    from packaging.utils import canonicalize_name

    from buildkit.verify import require_code

    contents = require_sound(note, wheel)
    if canonicalize_name(contents.name) != canonicalize_name(plan.project):
        raise VerifyError(f"It is a wheel of {contents.name}, allowed {plan.project}.")
    codes = require_code(contents, plan, recipe, kit, is_offline=False)
    if note.targets != tuple(sorted({name for code in codes for name in code.sass})):
        raise VerifyError("Its note tells of other GPU code than the wheel holds.")


# --- push -----------------------------------------------------------------------------------------


def offer(plan: Plan, kit: Kit) -> None:
    """Push the wheel that was made for a plan, if the remote is for that."""
    remote = kit.remote
    if remote is None or remote.is_given_up or not remote.is_writable:
        return
    entry = stored_entry(kit.paths, plan.recipe, plan.key)
    if entry is None:
        return
    try:
        is_new = push(entry, remote)
        kit.events.step("push", f"{remote.url}{'' if is_new else ' has it already'}")
    except RemoteError as error:
        remote.give_up(error)


def push(entry: StoredEntry, remote: Remote) -> bool:
    """Write an entry to the remote unless one of its key is there; return whether it was written.

    :param entry: Is sound: the caller has just stored it, or looked it up.
    :raises RemoteError: if the remote fails; readers find what they found before.
    """
    note = entry.note.travelling
    name = _note_name(note.recipe, note.key)
    if name not in remote.refused and _has(remote, name, note):
        return False
    remote.objects.send(_wheel_name(note), entry.wheel)
    remote.objects.send(name, render_note(note))
    return True


def push_all(entries: Sequence[StoredEntry], kit: Kit) -> tuple[int, int]:
    """Push entries; a damaged one is set aside, told and left out.

    :returns: Entries that were written, and entries that were there already.
    :raises RemoteError: at the first failure; what was pushed before it stays.
    """
    remote = kit.remote
    if remote is None:
        return 0, 0
    kit.holds.hold(kit.paths.wheels)
    states = []
    for entry in entries:
        if look_up(kit.paths, entry.note.recipe, entry.note.key) is None:
            kit.events.warning(f"{entry.note.wheel} is damaged or gone, and is left out.")
            continue
        states.append(push(entry, remote))
    return sum(states), len(states) - sum(states)


def _has(remote: Remote, name: str, note: EntryNote) -> bool:
    try:
        data = remote.objects.read(name, MAX_NOTE_BYTES)
        return data is not None and parse_note(note.recipe, note.key, data).fields == note.fields
    except ValueError:
        return False


def _note_name(recipe: str, key: str) -> str:
    return f"{recipe}/{key}/{ENTRY}"


def _wheel_name(note: EntryNote) -> str:
    return f"{note.recipe}/{note.key}/{note.sha256}/{note.wheel}"
