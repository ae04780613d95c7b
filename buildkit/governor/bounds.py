"""Lower bounds of a build's makespan: no schedule under the cap is shorter.

What enters: the units with their times alone and their peaks, the cap and the CPUs. What leaves:
one figure for each reason why the build cannot be shorter; the largest is the bound.

``memory``, ``big`` and ``pairs`` bound schedules that reserve each job's peak while it runs. One
that lets jobs peak at different moments can beat them, as the governor does where it knows that a
job has come down from its peak; ``physical`` bounds that one too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bounds", "Load", "bounds_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one unit costs when it runs alone."""

    seconds: float
    peak_bytes: int
    cpu_seconds: float
    byte_seconds: float
    """Integral of its memory over its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Seconds that no schedule beats, by reason."""

    path: float
    """The longest unit."""
    cpu: float
    """All CPU time, shared evenly."""
    memory: float
    """All peaks times their seconds, packed without a gap."""
    big: float
    """Units of which at most k fit at once, for the worst k."""
    pairs: float
    """As ``memory``, but what cannot lie beside a big unit counts as lost."""
    physical: float
    """All memory that is really held, packed without a gap."""

    @property
    def best(self) -> float:
        """The bound for schedules that reserve peaks."""
        return max(self.path, self.cpu, self.memory, self.big, self.pairs)

    @property
    def of_any_schedule(self) -> float:
        """The bound that holds even for one that knows each job's memory over time."""
        return max(self.path, self.cpu, self.physical)


def bounds_for(loads: Sequence[Load], *, cap_bytes: int, cpus: int) -> Bounds:
    """Return the bounds of a set of independent units.

    A unit larger than the cap counts as one of the cap's size, that is, as running alone.
    """
    by_peak = sorted((min(load.peak_bytes, cap_bytes), load.seconds) for load in loads)
    peaks = [peak for peak, _ in by_peak]
    seconds_from = _sums_from([seconds for _, seconds in by_peak])
    area_from = _sums_from([peak * seconds for peak, seconds in by_peak])
    return Bounds(
        path=max((load.seconds for load in loads), default=0.0),
        cpu=sum(load.cpu_seconds for load in loads) / cpus,
        memory=area_from[0] / cap_bytes,
        big=_big(peaks, seconds_from, cap_bytes, cpus),
        pairs=_pairs(peaks, seconds_from, area_from, cap_bytes),
        physical=sum(load.byte_seconds for load in loads) / cap_bytes,
    )


def _sums_from(values: list[float]) -> list[float]:
    """Return for each index the sum of the values from there to the end, and a last 0."""
    return [*accumulate(reversed(values), initial=0.0)][::-1]


def _big(peaks: list[int], seconds_from: list[float], cap_bytes: int, cpus: int) -> float:
    """At most k units with peaks over cap / (k + 1) run at once."""
    return max(
        seconds_from[bisect_right(peaks, cap_bytes / (k + 1))] / k for k in range(1, cpus + 1)
    )


def _pairs(
    peaks: list[int], seconds_from: list[float], area_from: list[float], cap_bytes: int
) -> float:
    """Count units over cap - e as the whole cap and units under e as nothing, for the worst e.

    While a unit over cap - e runs, none of at least e fits beside it; otherwise every unit counts
    for no more than it takes. Hence the sum cannot exceed cap times makespan.
    Source: dual feasible functions, Fekete and Schepers, "New classes of fast lower bounds for bin
    packing problems" (2001).
    """
    best = 0.0
    for e in sorted({peak for peak in peaks if 2 * peak <= cap_bytes}):
        whole = bisect_right(peaks, cap_bytes - e)
        counted = bisect_left(peaks, e)
        area = area_from[counted] - area_from[whole] + cap_bytes * seconds_from[whole]
        best = max(best, area / cap_bytes)
    return best
