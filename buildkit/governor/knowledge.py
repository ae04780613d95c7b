"""What is known of a build's units before they run, and what it shows while they do.

What enters: the history, the recipe's profile and priors. What leaves: an estimate per call. It
travels as a file, because the governor that serves a build may live in the ``make`` of another.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from buildkit.governor.estimate import Call, Measured, Nearest, Prior, UnitKey, estimate
from buildkit.governor.policy import Limit
from buildkit.governor.profile import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buildkit.governor.estimate import Estimate, Language
    from buildkit.governor.protocol import Ask

__all__ = ["Knowledge", "read_knowledge", "unit_of"]


def unit_of(source: str, output: str, flags: str, roots: Sequence[str]) -> UnitKey:
    """Return the name of a unit that is the same on every machine.

    :param source: Of the call; empty for a link, which its output names.
    :param roots: Directories that move from machine to machine: of the source, of the build.
    """
    path = PurePosixPath(source or output)
    for root in roots:
        if path.is_relative_to(root):
            path = path.relative_to(root)
            break
    return UnitKey(str(path), flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Of one build: its limit, and what its calls are expected to take."""

    limit: Limit
    roots: tuple[str, ...]
    history: Mapping[UnitKey, Sequence[Measured]]
    profile: Mapping[str, Sequence[Unit]]
    """Units of the recipe's profile, by source."""
    priors: Mapping[Language, Prior]
    shown: defaultdict[tuple[str, int], list[tuple[frozenset[str], Measured]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """What calls have taken in this build, with the words of their names, by kind; grows."""

    def call_of(self, ask: Ask) -> Call:
        """Return the call that a launcher asks for."""
        unit = unit_of(ask.source, ask.output, ask.flags, self.roots)
        return Call(unit=unit, language=ask.language, passes=ask.passes)

    def nearest(self, call: Call) -> Nearest:
        """Return what this build has shown of the calls that are most like one."""
        nearest = Nearest(call.words)
        for words, run in self.shown.get(call.kind, ()):
            nearest.hear(words, run)
        return nearest

    def expect(self, call: Call, nearest: Nearest) -> Estimate:
        """Return what a call is expected to take."""
        return estimate(
            call,
            history=self.history.get(call.unit, ()),
            profile=self.profile.get(call.unit.source, ()),
            shown=nearest,
            prior=self.priors[call.language],
        )

    def is_guess(self, call: Call) -> bool:
        """Tell whether what is expected of a call rests on this build alone."""
        return call.unit not in self.history and call.unit.source not in self.profile

    def show(self, call: Call, run: Measured) -> None:
        """Learn from a call that has ended."""
        self.shown[call.kind].append((call.words, run))

    def render(self) -> str:
        """Return the text of its file."""
        return json.dumps(
            {
                "memory_bytes": self.limit.memory_bytes,
                "cpus": self.limit.cpus,
                "roots": self.roots,
                "history": [
                    [unit.source, unit.flags, run.peak_bytes, run.seconds, run.ran_out]
                    for unit, runs in self.history.items()
                    for run in runs
                ],
                "profile": [
                    [unit.source, unit.flags, unit.seconds, unit.cpu_seconds, unit.peak_bytes]
                    for units in self.profile.values()
                    for unit in units
                ],
                "priors": {
                    language: [prior.peak_bytes, prior.seconds]
                    for language, prior in self.priors.items()
                },
            }
        )


def read_knowledge(file: Path) -> Knowledge:
    """Return what a file of :meth:`Knowledge.render` holds.

    :raises OSError: if it cannot be read.
    :raises ValueError: if it is not such a file.
    """
    document: Any = json.loads(file.read_text())
    history: dict[UnitKey, list[Measured]] = {}
    profile: dict[str, list[Unit]] = {}
    try:
        for source, flags, peak, seconds, ran_out in document["history"]:
            history.setdefault(UnitKey(source, flags), []).append(
                Measured(peak_bytes=peak, seconds=seconds, ran_out=ran_out)
            )
        for source, flags, seconds, cpu_seconds, peak in document["profile"]:
            profile.setdefault(source, []).append(
                Unit(
                    source=source,
                    flags=flags,
                    seconds=seconds,
                    cpu_seconds=cpu_seconds,
                    peak_bytes=peak,
                )
            )
        return Knowledge(
            limit=Limit(memory_bytes=document["memory_bytes"], cpus=document["cpus"]),
            roots=tuple(document["roots"]),
            history=history,
            profile=profile,
            priors={
                language: Prior(peak_bytes=peak, seconds=seconds)
                for language, (peak, seconds) in document["priors"].items()
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no knowledge of a build in {file}") from error
