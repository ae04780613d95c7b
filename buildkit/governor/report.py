"""The report: what a build did with its time and its memory. Pure.

What enters: the records of one build and the limits that it ran under. What leaves: a
:class:`Report`, from which the text, the page and the trace are drawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from buildkit.errors import RequestError
from buildkit.governor.bounds import Load, bounds_for
from buildkit.governor.curve import Point, curve_of, sum_curves
from buildkit.records import HIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildkit.governor.bounds import Bounds
    from buildkit.governor.governed import Governed
    from buildkit.records import UnitRecord

__all__ = ["KILLERS", "Attempt", "Report", "report_of"]

_MIB = 1 << 20

#: Who ends a call for memory, as records spell it.
KILLERS = ("governor", "kernel", "cap")

#: A record that began longer before its build than clocks differ belongs to an earlier build.
EARLIER_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One compiler call, from its start to its end or to the moment when it was killed."""

    name: str
    """Its source, relative to the build's directories; for a link, its output."""
    flags: str
    tool: str
    start: float
    """Seconds since the first call of the build."""
    seconds: float
    """With pauses."""
    paused_seconds: float
    waited_seconds: float
    cpu_seconds: float
    peak_bytes: int
    byte_seconds: float
    curve: tuple[Point, ...]
    """What it held, on the clock of ``start``."""
    status: int
    killed_by: str
    """One of :data:`KILLERS`, or empty."""
    number: int
    """Counted from 1."""
    lane: int
    """Calls of one lane never overlap; counted from 0."""

    @property
    def end(self) -> float:
        """Seconds since the first call of the build."""
        return _end(self.start, self.seconds)

    @property
    def work_seconds(self) -> float:
        """Without pauses."""
        return max(0.0, self.seconds - self.paused_seconds)

    @property
    def outcome(self) -> Literal["ok", "failed", "killed"]:
        """How it ended."""
        if self.killed_by:
            return "killed"
        return "failed" if self.status else "ok"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one build did."""

    recipe: str
    version: str
    arch: str
    governed: Governed
    attempts: tuple[Attempt, ...]
    """At least one; by their start."""
    bounds: Bounds
    """From times that were measured while calls shared the machine."""
    curve: tuple[Point, ...]
    """What all calls held together."""

    @cached_property
    def makespan_seconds(self) -> float:
        """From the start of the first call to the end of the last."""
        return max(attempt.end for attempt in self.attempts)

    @property
    def ratio(self) -> float | None:
        """The makespan in lower bounds; None if there is no bound."""
        return self.makespan_seconds / self.bounds.best if self.bounds.best else None

    @cached_property
    def peak(self) -> Point:
        """The moment when most was held."""
        return max(self.curve, key=lambda point: point.held_bytes)

    @property
    def lanes(self) -> int:
        """Most calls that ran at the same time."""
        return 1 + max(attempt.lane for attempt in self.attempts)

    @cached_property
    def units(self) -> tuple[Attempt, ...]:
        """The last attempt at each unit."""
        last = {(attempt.name, attempt.flags): attempt for attempt in self.attempts}
        return tuple(last.values())

    @property
    def killed(self) -> tuple[Attempt, ...]:
        """The attempts that were ended for memory."""
        return tuple(attempt for attempt in self.attempts if attempt.killed_by)

    @property
    def failed(self) -> tuple[Attempt, ...]:
        """The calls that said no by themselves; also such that only asked what a compiler can."""
        return tuple(attempt for attempt in self.attempts if attempt.outcome == "failed")

    @property
    def kills(self) -> dict[str, int]:
        """How many attempts each of :data:`KILLERS` ended."""
        count = Counter(attempt.killed_by for attempt in self.killed)
        return {killer: count[killer] for killer in KILLERS}

    @property
    def lost_seconds(self) -> float:
        """Work that was lost with them."""
        return sum(attempt.work_seconds for attempt in self.killed)

    @property
    def paused_seconds(self) -> float:
        """Of all calls together."""
        return sum(attempt.paused_seconds for attempt in self.attempts)

    @property
    def waited_seconds(self) -> float:
        """Of all calls together."""
        return sum(attempt.waited_seconds for attempt in self.attempts)

    @property
    def work_seconds(self) -> float:
        """Of all calls together."""
        return sum(attempt.work_seconds for attempt in self.attempts)

    def expensive(self, count: int) -> list[Attempt]:
        """Return the units that took longest, without pauses."""
        return sorted(self.units, key=lambda unit: (-unit.work_seconds, unit.name))[:count]


def report_of(
    records: Sequence[UnitRecord],
    governed: Governed,
    *,
    recipe: str,
    version: str,
    arch: str,
    roots: Sequence[str] = (),
) -> Report:
    """Return the report of a build.

    :param records: From the build's first record on.
    :param roots: Directories that names become relative to; the first that fits counts.
    :raises RequestError: if the build called no compiler.
    """
    known = sorted(
        (
            record
            for record in records
            if (record.source or record.output)
            and record.start >= governed.started - EARLIER_SECONDS
        ),
        key=lambda record: record.start,
    )
    if not known:
        raise RequestError(
            f"No compiler call of the last build of {recipe} {version} for {arch} has ended: there"
            " is nothing to report.",
            remedy="Make it again, with --clean if every object is there already.",
        )
    zero = known[0].start
    starts = [round(record.start - zero, 6) for record in known]
    ends = [_end(start, record.wall_seconds) for start, record in zip(starts, known, strict=True)]
    lanes = _lanes(list(zip(starts, ends, strict=True)))
    attempts = tuple(
        _attempt(record, start, lane, roots)
        for record, start, lane in zip(known, starts, lanes, strict=True)
    )
    loads = [
        _load(attempt)
        for attempt, record in zip(attempts, known, strict=True)
        if attempt.outcome == "ok" and record.objects != HIT
    ]
    return Report(
        recipe=recipe,
        version=version,
        arch=arch,
        governed=governed,
        attempts=attempts,
        bounds=bounds_for(loads, cap_bytes=governed.cap_bytes, cpus=governed.cpus),
        curve=tuple(sum_curves(attempt.curve for attempt in attempts)),
    )


def _end(start: float, seconds: float) -> float:
    """Return an end in whole microseconds, as records are written: neighbours then just touch."""
    return round(start + seconds, 6)


def _attempt(record: UnitRecord, start: float, lane: int, roots: Sequence[str]) -> Attempt:
    samples = [(when, mib * _MIB) for when, mib in record.memory]
    return Attempt(
        name=_relative(record.source or record.output, roots),
        flags=record.flags,
        tool=PurePosixPath(record.tool).name,
        start=start,
        seconds=record.wall_seconds,
        paused_seconds=record.paused_seconds,
        waited_seconds=record.waited_seconds,
        cpu_seconds=record.cpu_seconds,
        peak_bytes=record.peak_bytes,
        byte_seconds=record.byte_seconds,
        curve=tuple(
            curve_of(
                samples,
                start=start,
                seconds=record.wall_seconds,
                peak_bytes=record.peak_bytes,
            )
        ),
        status=record.status,
        killed_by=record.ended,
        number=record.attempt,
        lane=lane,
    )


def _load(attempt: Attempt) -> Load:
    return Load(
        seconds=attempt.work_seconds,
        peak_bytes=attempt.peak_bytes,
        cpu_seconds=attempt.cpu_seconds,
        byte_seconds=attempt.byte_seconds,
    )


def _relative(name: str, roots: Sequence[str]) -> str:
    for root in roots:
        if name.startswith(f"{root}/"):
            return name.removeprefix(f"{root}/")
    return name


def _lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return a lane for each span, the lowest that is free; as few lanes as there can be.

    :param spans: By their start.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    lanes: list[int] = []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end, lane))
        lanes.append(lane)
    return lanes
