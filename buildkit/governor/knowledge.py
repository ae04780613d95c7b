"""What is known of a build's units before they run, and what it shows while they do.

What enters: the history, the recipe's profile and priors. What leaves: an estimate per call. It
travels as a file, because the governor that serves a build may live in the ``make`` of another.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, get_args

from buildkit.governor.estimate import (
    Call,
    Language,
    Measured,
    Nearest,
    Prior,
    UnitKey,
    estimate,
)
from buildkit.governor.jobs import Limit
from buildkit.governor.profile import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buildkit.governor.estimate import Estimate
    from buildkit.governor.protocol import Ask

__all__ = ["Knowledge", "read_knowledge", "unit_of"]

#: How many calls that have ended tell what to expect of one that comes.
SHOWN = 200


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
    shown: defaultdict[tuple[str, int], deque[tuple[frozenset[str], Measured]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=SHOWN))
    )
    """What the last calls have taken in this build, with the words of their names, by kind."""

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

    def expect(self, call: Call, nearest: Nearest | None = None) -> Estimate:
        """Return what a call is expected to take.

        :param nearest: What :meth:`nearest` has told, kept up to date by the caller.
        """
        return estimate(
            call,
            history=self.history.get(call.unit, ()),
            profile=self.profile.get(call.unit.source, ()),
            shown=nearest or self.nearest(call),
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
                    [
                        *(unit.source, unit.flags, run.peak_bytes, run.seconds),
                        *(run.tail_bytes, run.ran_out),
                    ]
                    for unit, runs in self.history.items()
                    for run in runs
                ],
                "profile": [
                    [
                        *(unit.source, unit.flags, unit.seconds, unit.cpu_seconds),
                        *(unit.peak_bytes, unit.tail_bytes),
                    ]
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
    try:
        return _knowledge(json.loads(file.read_text()))
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"no knowledge of a build in {file}") from error


def _knowledge(document: Any) -> Knowledge:
    """Return what a document holds; each figure is looked at, as the governor serves others too."""
    history: dict[UnitKey, list[Measured]] = {}
    for source, flags, peak, seconds, tail, ran_out in document["history"]:
        run = Measured(
            peak_bytes=_bytes(peak),
            seconds=_number(seconds),
            tail_bytes=None if tail is None else _bytes(tail),
            ran_out=bool(ran_out),
        )
        history.setdefault(UnitKey(_text(source), _text(flags)), []).append(run)
    profile: dict[str, list[Unit]] = {}
    for source, flags, seconds, cpu_seconds, peak, tail in document["profile"]:
        unit = Unit(
            source=_text(source),
            flags=_text(flags),
            seconds=_number(seconds),
            cpu_seconds=_number(cpu_seconds),
            peak_bytes=_bytes(peak),
            tail_bytes=None if tail is None else _bytes(tail),
        )
        profile.setdefault(unit.source, []).append(unit)
    priors = document["priors"]
    return Knowledge(
        limit=Limit(
            memory_bytes=max(1, _bytes(document["memory_bytes"])),
            cpus=max(1, _bytes(document["cpus"])),
        ),
        roots=tuple(_text(root) for root in document["roots"]),
        history=history,
        profile=profile,
        priors={language: _prior(*priors[language]) for language in get_args(Language)},
    )


def _prior(peak: object, seconds: object) -> Prior:
    return Prior(peak_bytes=_bytes(peak), seconds=_number(seconds))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _bytes(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(value)
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    if not math.isfinite(value) or value < 0:
        raise TypeError(value)
    return value
