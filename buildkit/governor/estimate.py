"""Estimates: how much memory and time a compiler call will take. Pure.

What enters: what is known of the call. What leaves: an :class:`Estimate`, and what it rests on:
earlier builds here, else the profile that ships with the recipe, else what this build has shown so
far, mixed with the recipe's prior.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Literal

from buildkit.governor.curve import tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildkit.governor.profile import Unit
    from buildkit.records import UnitRecord

__all__ = [
    "Call",
    "Estimate",
    "Measured",
    "Nearest",
    "Prior",
    "UnitKey",
    "estimate",
    "measured_of",
]

Language = Literal["cuda", "c++", "link"]

#: Added to a peak that was measured here: units of flash-attn differed by less than 1 % from run to
#: run; and to one that was measured elsewhere. Source: docs/measurements.md; our own choice.
MARGIN = 1.05
MARGIN_ELSEWHERE = 1.1

#: A job that ran out of memory would have held at least half as much again.
RAN_OUT_FACTOR = 1.5

#: Of the peaks that this build has shown, the one that so many stay below is expected of the next.
QUANTILE = 0.9

#: How many shown units of quite another name weigh as much as the prior: the first to end are the
#: small ones. The more alike the names, the less the prior counts.
#: Source: our own choice; a wrong guess costs a pause or a repetition.
PRIOR_WEIGHT = 2

#: Such as ``hdim128`` and ``bf16`` of ``flash_bwd_hdim128_bf16_sm80.cu``.
_WORD = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, order=True)
class UnitKey:
    """What tells one compiler call of a package from another, on every machine."""

    source: str
    """Relative to the source tree; for a link, its output."""
    flags: str
    """Digest of the flags without paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A compiler call before it runs."""

    unit: UnitKey
    language: Language
    passes: int = 1
    """Compiler passes that run at the same time."""

    @property
    def kind(self) -> tuple[str, int]:
        """Calls of another kind tell nothing of this one."""
        return self.language, self.passes

    @property
    def words(self) -> frozenset[str]:
        """The words of its name: generated sources tell by them what they instantiate."""
        return frozenset(_WORD.findall(self.unit.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run of a unit took."""

    peak_bytes: int
    seconds: float
    tail_bytes: int | None = None
    """The most that it held once it had come down from its peak; None: it did not."""
    ran_out: bool = False
    """It was ended for memory: it would have held more."""

    @property
    def tail_share(self) -> float:
        """The part of its peak that it kept to its end."""
        return 1.0 if self.tail_bytes is None else self.tail_bytes / max(1, self.peak_bytes)

    @property
    def likely_peak_bytes(self) -> float:
        """The peak, or for a run that was cut short what it would have been at least."""
        return self.peak_bytes * RAN_OUT_FACTOR if self.ran_out else self.peak_bytes


def measured_of(record: UnitRecord) -> Measured:
    """Return what a call took that ended well or ran out of memory."""
    tail = tail_of((mib << 20 for _, mib in record.memory), record.peak_bytes)
    return Measured(
        peak_bytes=record.peak_bytes,
        seconds=record.wall_seconds - record.paused_seconds,
        tail_bytes=None if tail is None or record.ended else int(tail),
        ran_out=bool(record.ended),
    )


@dataclass(slots=True)
class Nearest:
    """What this build has shown of the units whose names are most like one unit's."""

    words: frozenset[str]
    likeness: float = -1.0
    """Share of words that the names have in common."""
    runs: list[Measured] = field(default_factory=list)

    def hear(self, words: frozenset[str], run: Measured) -> bool:
        """Learn of a unit that has ended; return whether that changes what is expected."""
        shared = len(words & self.words) / max(len(words), len(self.words), 1)
        if shared < self.likeness:
            return False
        if shared > self.likeness:
            self.runs = []
        self.likeness = shared
        self.runs.append(run)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What to expect of a call of one language when nothing is known, for one pass."""

    peak_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What to expect of a call, and what that rests on."""

    peak_bytes: int
    tail_bytes: int | None
    """The most that it holds once it has come down from its peak; None: nobody knows that it
    does."""
    seconds: float
    basis: Literal["history", "profile", "this build", "prior"]

    @property
    def is_guess(self) -> bool:
        """Whether nothing is known of this very unit."""
        return self.basis in ("this build", "prior")


def estimate(
    call: Call,
    *,
    history: Sequence[Measured],
    profile: Sequence[Unit],
    shown: Nearest,
    prior: Prior,
) -> Estimate:
    """Return what to expect of a call.

    :param history: Its last runs on this machine.
    :param profile: Units of the recipe's profile with its source.
    :param shown: What the calls that are most like it have taken in this build.
    :param prior: Of its language.
    """
    if history:
        complete = [run.seconds for run in history if not run.ran_out]
        peak = int(max(run.likely_peak_bytes for run in history) * MARGIN)
        return Estimate(
            peak_bytes=peak,
            tail_bytes=_tail(peak, history),
            seconds=median(complete or [run.seconds for run in history]),
            basis="history",
        )
    if profile:
        alike = [unit for unit in profile if unit.flags == call.unit.flags] or profile
        peak = int(max(unit.peak_bytes for unit in alike) * MARGIN_ELSEWHERE)
        return Estimate(
            peak_bytes=peak,
            tail_bytes=_tail(peak, [unit.measured for unit in alike]),
            seconds=max(unit.seconds for unit in alike),
            basis="profile",
        )
    prior_peak = prior.peak_bytes * call.passes
    if not shown.runs:
        return Estimate(
            peak_bytes=prior_peak, tail_bytes=None, seconds=prior.seconds, basis="prior"
        )
    usual = _quantile([run.likely_peak_bytes for run in shown.runs])
    weight = PRIOR_WEIGHT * (1 - shown.likeness)
    count = len(shown.runs)
    peak = int(max(usual, _mix(usual, prior_peak, count, weight)))
    return Estimate(
        peak_bytes=peak,
        tail_bytes=_tail(peak, shown.runs),
        seconds=_mix(median(run.seconds for run in shown.runs), prior.seconds, count, weight),
        basis="this build",
    )


def _tail(peak_bytes: int, runs: Sequence[Measured]) -> int | None:
    """Return what a call keeps of its peak if it is like these runs; one that kept all decides."""
    share = max(run.tail_share for run in runs)
    return int(peak_bytes * share) if share < 1 else None


def _quantile(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(QUANTILE * len(values)) - 1]


def _mix(shown: float, prior: float, count: int, weight: float) -> float:
    return (count * shown + weight * prior) / (count + weight)
