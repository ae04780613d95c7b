"""What was patched in place, noted outside of it: a reinstall wipes every note that lies inside.

What enters: a distribution that was patched or restored. What leaves: for one that bears no patches
any more, how it lost them. A note that cannot be written or read says nothing, and harms nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.digest import digest_value
from buildkit.fs import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.wheels.installed import Installed

__all__ = ["Lost", "forget_patched", "lost_patches", "note_patched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Patches that a distribution had and has no more."""

    patches: tuple[str, ...]
    detail: str
    """By what, as far as the versions tell."""


def note_patched(folder: Path, installed: Installed, patches: Sequence[str]) -> None:
    """Note that a distribution bears patches.

    :param folder: Of the notes; made if it is missing.
    """
    text = json.dumps({"version": installed.version, "patches": list(patches)})
    with suppress(OSError):
        write_atomic(_note(folder, installed), text.encode())


def forget_patched(folder: Path, installed: Installed) -> None:
    """Note that a distribution bears no patches, by the user's own will."""
    with suppress(OSError):
        _note(folder, installed).unlink(missing_ok=True)


def lost_patches(folder: Path, installed: Installed) -> Lost | None:
    """Tell how a distribution without patches lost them; None if it never had any."""
    try:
        note = json.loads(_note(folder, installed).read_text())
        version, patches = str(note["version"]), tuple(map(str, note["patches"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if version == installed.version:
        return Lost(patches=patches, detail="gone: it was reinstalled")
    return Lost(
        patches=patches, detail=f"gone: it was changed from {version} to {installed.version}"
    )


def _note(folder: Path, installed: Installed) -> Path:
    """Return the note of a distribution: one per environment and name, whatever its version."""
    return folder / f"{digest_value([str(installed.root.resolve()), installed.name])[:16]}.json"
