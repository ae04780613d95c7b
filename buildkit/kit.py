"""The outside world as a story sees it: directories, environment, processes, listener.

One frozen value that the command line makes once and hands down, so that no room reads globals and
each test brings a world of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from buildkit.holds import Holds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.mirrored import Mirror
    from buildkit.paths import Paths
    from buildkit.remote import Remote
    from buildkit.run import Runner
    from buildkit.values import IndexSettings

__all__ = ["Kit", "Supply"]


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
    holds: Holds = field(default_factory=Holds)
    """What this process uses of the cache."""
    mirror: Mirror | None = None
    """Holds what builds fetch; asked before the network."""
    remote: Remote | None = None
    """Holds wheels of other machines; asked before a build."""

    def supply(self, settings: IndexSettings, *, is_offline: bool) -> Supply:
        """Return what fetching needs of it."""
        return Supply(
            paths=self.paths,
            environment=self.environment,
            runner=self.runner,
            events=self.events,
            settings=settings,
            is_offline=is_offline,
            holds=self.holds,
            mirror=self.mirror,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What fetching, resolving and installing need of the outside."""

    paths: Paths
    environment: Mapping[str, str]
    runner: Runner
    events: Events
    settings: IndexSettings
    is_offline: bool
    """Use only what was fetched before, or lies in the mirror."""
    holds: Holds = field(default_factory=Holds)
    """What this process uses of the cache."""
    mirror: Mirror | None = None
