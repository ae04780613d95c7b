"""What stands in ``entry.json`` beside a cached wheel: its digest, and everything its key covers.

What enters: text from a disk or an archive. What leaves: an :class:`EntryNote`, or a reason.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from buildkit.digest import Digest, digest_value
from buildkit.values import KeyField

if TYPE_CHECKING:
    from buildkit.values import Plan, VerifiedWheel

__all__ = [
    "ENTRY",
    "MAX_NOTE_BYTES",
    "EntryNote",
    "is_key",
    "is_recipe",
    "note_of",
    "parse_note",
    "render_note",
]

ENTRY = "entry.json"

#: Largest note that is read from elsewhere; a real one has some ten KiB.
MAX_NOTE_BYTES = 4 << 20

_KEY = re.compile(r"[0-9a-f]{64}")
_RECIPE = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_WHEEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+-]*\.whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryNote:
    """What is known of a cached wheel."""

    recipe: str
    key: Digest
    wheel: str
    """File name of the wheel."""
    sha256: Digest
    verdict: str
    targets: tuple[str, ...]
    fields: tuple[KeyField, ...]
    origin: str = ""
    """Address of the remote that it came from; empty: it was made or imported here."""

    @property
    def travelling(self) -> EntryNote:
        """The note as it leaves this cache, or enters it: where a wheel was before is not told."""
        return replace(self, origin="")

    @property
    def is_keyed(self) -> bool:
        """Whether the key is the digest of the fields."""
        return digest_value([[field.name, field.value] for field in self.fields]) == self.key

    def field(self, name: str) -> str:
        """Return the value of a key field, or an empty text."""
        return next((field.value for field in self.fields if field.name == name), "")


def is_key(text: str) -> bool:
    """Tell whether a text may be a key."""
    return _KEY.fullmatch(text) is not None


def is_recipe(text: str) -> bool:
    """Tell whether a text may be the name of a recipe."""
    return _RECIPE.fullmatch(text) is not None


def note_of(plan: Plan, wheel: VerifiedWheel) -> EntryNote:
    """Return the note of a wheel that was made by a plan."""
    return EntryNote(
        recipe=plan.recipe,
        key=plan.key,
        wheel=wheel.path.name,
        sha256=wheel.sha256,
        verdict=wheel.verdict,
        targets=tuple(sorted({name for library in wheel.gpu_code for name in library.sass})),
        fields=plan.key_fields,
    )


def render_note(note: EntryNote) -> bytes:
    """Return the contents of ``entry.json``."""
    document: dict[str, object] = {
        "wheel": note.wheel,
        "sha256": note.sha256,
        "verdict": note.verdict,
        "targets": list(note.targets),
        "fields": [[field.name, field.value] for field in note.fields],
    }
    if note.origin:
        document["origin"] = note.origin
    return json.dumps(document, indent=1).encode()


def parse_note(recipe: str, key: str, data: bytes) -> EntryNote:
    """Return the note that ``entry.json`` holds.

    :raises ValueError: if it is damaged.
    """
    try:
        document: dict[str, Any] = json.loads(data)
        note = EntryNote(
            recipe=recipe,
            key=Digest(key),
            wheel=str(document["wheel"]),
            sha256=Digest(str(document["sha256"])),
            verdict=str(document["verdict"]),
            targets=tuple(str(name) for name in document["targets"]),
            fields=tuple(
                KeyField(name=str(name), value=str(value)) for name, value in document["fields"]
            ),
            origin=str(document.get("origin", "")),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{ENTRY} is damaged: {type(error).__name__} {error}") from error
    if not _WHEEL.fullmatch(note.wheel):
        raise ValueError(f"{ENTRY} names {note.wheel!r}, which is no wheel beside it")
    return note
