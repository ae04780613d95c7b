"""The outside world as a story sees it: directories, environment, processes, listener.

One frozen value that the command line makes once and hands down, so that no room reads globals and
each test brings a world of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.paths import Paths
    from buildkit.run import Runner

__all__ = ["Kit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What every story needs of the outside."""

    paths: Paths
    environment: Mapping[str, str]
    """The environment that the kit was started with; children get an excerpt."""
    runner: Runner
    events: Events
    recipe_folders: tuple[Path, ...]
    """Where recipes are looked for, first match wins."""
