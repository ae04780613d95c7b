"""What a build takes from the distribution, beside what the machine has installed.

Frozen and free of behaviour, as all values that travel between the stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buildkit.digest import Digest

__all__ = ["SystemChoice", "SystemPackage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPackage:
    """A package of the distribution that is unpacked for builds, not installed."""

    name: str
    version: str
    architecture: str
    sha256: Digest
    filename: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemChoice:
    """Where the headers and libraries that a recipe needs of the system come from."""

    packages: tuple[SystemPackage, ...] = ()
    """What is unpacked for the build; empty when the machine has everything."""
    files: tuple[str, ...] = ()
    """The headers and libraries that the packages have to bring."""
    notes: tuple[str, ...] = ()
    """What was found, and where; for people, not in the key."""
    lacks: str = ""
    """What cannot be had; a plan shows it, a make refuses it."""
    remedy: str = ""
    """The command that installs what is missing."""
