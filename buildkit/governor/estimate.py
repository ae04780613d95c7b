"""Estimates: how much memory and time a compiler call will take. Pure.

What enters: what is known of the call. What leaves: an :class:`Estimate`, and what it rests on:
earlier builds here, else the profile that ships with the recipe, else what this build has shown so
far, mixed with the recipe's prior.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import median
from typing import TYPE_CHECKING, Literal

from buildkit.digest import digest_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildkit.governor.profile import Unit

__all__ = [
    "Call",
    "Estimate",
    "Measured",
    "Prior",
    "UnitKey",
    "digest_flags",
    "estimate",
    "passes_at_once",
]

Language = Literal["cuda", "c++", "link"]

#: Added to a measured peak: the same compiler on the same source differs by some per cent.
#: Source: our own choice.
MARGIN = 1.1

#: A job that ran out of memory would have held at least half as much again.
RAN_OUT_FACTOR = 1.5

#: Of the peaks that this build has shown, the one that so many stay below is expected of the next.
QUANTILE = 0.9

#: How many shown units weigh as much as the prior: the first to end are the small ones.
PRIOR_WEIGHT = 5

#: Arguments that name files. Everything else of a command line is a flag.
_PATH = re.compile(r"/|\.(?:o|d|obj|a|so|cu|cc|cpp|cxx|c)$")


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
    def group(self) -> tuple[str, str, int]:
        """Calls that are likely alike: same directory, language and passes."""
        return str(PurePosixPath(self.unit.source).parent), self.language, self.passes

    @property
    def kin(self) -> tuple[str, str, int]:
        """Calls that are alike at least in kind: whatever the directory."""
        return "*", self.language, self.passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run of a unit took."""

    peak_bytes: int
    seconds: float
    ran_out: bool = False
    """It was ended for memory: it would have held more."""

    @property
    def likely_peak_bytes(self) -> float:
        """The peak, or for a run that was cut short what it would have been at least."""
        return self.peak_bytes * RAN_OUT_FACTOR if self.ran_out else self.peak_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What to expect of a call of one language when nothing is known, for one pass."""

    peak_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What to expect of a call, and what that rests on."""

    peak_bytes: int
    seconds: float
    basis: Literal["history", "profile", "this build", "prior"]


def estimate(
    call: Call,
    *,
    history: Sequence[Measured],
    profile: Sequence[Unit],
    shown: Sequence[Measured],
    prior: Prior,
) -> Estimate:
    """Return what to expect of a call.

    :param history: Its last runs on this machine.
    :param profile: Units of the recipe's profile with its source.
    :param shown: What calls of its group, else of its kin, have taken in this build.
    :param prior: Of its language.
    """
    if history:
        complete = [run.seconds for run in history if not run.ran_out]
        return Estimate(
            peak_bytes=int(max(run.likely_peak_bytes for run in history) * MARGIN),
            seconds=median(complete or [run.seconds for run in history]),
            basis="history",
        )
    if profile:
        alike = [unit for unit in profile if unit.flags == call.unit.flags] or profile
        return Estimate(
            peak_bytes=int(max(unit.peak_bytes for unit in alike) * MARGIN),
            seconds=max(unit.seconds for unit in alike),
            basis="profile",
        )
    prior_peak = prior.peak_bytes * call.passes
    if not shown:
        return Estimate(peak_bytes=prior_peak, seconds=prior.seconds, basis="prior")
    usual = _quantile([run.likely_peak_bytes for run in shown])
    return Estimate(
        peak_bytes=int(max(usual, _mix(usual, prior_peak, len(shown)))),
        seconds=_mix(median(run.seconds for run in shown), prior.seconds, len(shown)),
        basis="this build",
    )


def passes_at_once(threads: int, passes: int) -> int:
    """Return how many passes of an nvcc call run at the same time.

    :param threads: Value of ``--threads``; 0 means as many as there are CPUs.
    :param passes: Number of targets. For a single one nvcc ignores ``--threads``.

    Source: nvcc manual, "--threads".

    >>> passes_at_once(32, 1), passes_at_once(2, 4), passes_at_once(0, 4)
    (1, 2, 4)
    """
    return max(1, passes if threads == 0 else min(threads, passes))


def digest_flags(argv: Sequence[str]) -> str:
    """Return a digest of a command line's flags: of all arguments that name no file.

    The same call from another directory, or of another source, has the same digest.

    >>> digest_flags(["nvcc", "-O3", "-I/x", "-c", "a.cu"]) == digest_flags(
    ...     ["/usr/bin/nvcc", "-O3", "-c", "b/a.cu", "-o", "a.o"])
    True
    """
    flags = [argument for argument in argv[1:] if not _PATH.search(argument)]
    return digest_value([flag for flag in flags if flag not in _BEFORE_PATH])[:12]


#: Options whose value, a path, is the next argument: the value is gone, so they say nothing.
_BEFORE_PATH = frozenset({"-o", "-MF", "-MT", "-MQ", "-I", "-isystem", "-include", "-L"})


def _quantile(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(QUANTILE * len(values)) - 1]


def _mix(shown: float, prior: float, count: int) -> float:
    return (count * shown + PRIOR_WEIGHT * prior) / (count + PRIOR_WEIGHT)
