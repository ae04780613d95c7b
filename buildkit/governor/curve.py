"""Memory over time: the curves of single calls, and their sum. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["DOWN_SHARE", "NEAR_SHARE", "Point", "curve_of", "sum_curves", "tail_of", "thin"]

#: A call has come down from its peak when it has held the first of these shares of it and then
#: holds less than the second. Source: nvcc's optimiser (cicc) holds the peak of a unit and ends
#: before ptxas starts, which held a sixth to a third of it for flash-attn; docs/measurements.md.
NEAR_SHARE = 0.9
DOWN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Point:
    """What is held at one moment. Two points of one moment are a step."""

    seconds: float
    held_bytes: float


def curve_of(
    samples: Sequence[tuple[float, float]], *, start: float, seconds: float, peak_bytes: float
) -> list[Point]:
    """Return what one call holds from its start to its end.

    It rises from nothing to its first sample and keeps its last one to the end. A call that ended
    before it was sampled counts with its peak throughout: rather too much than too little.

    :param samples: Seconds since the start, and bytes; out of order or beyond the end is mended.
    """
    inside = sorted((min(max(when, 0.0), seconds), max(held, 0.0)) for when, held in samples)
    if not inside:
        inside = [(0.0, peak_bytes)]
    elif inside[0][0] > 0:
        inside.insert(0, (0.0, 0.0))
    inside.append((seconds, inside[-1][1]))
    return [Point(start + when, held) for when, held in inside]


def sum_curves(curves: Iterable[Sequence[Point]]) -> list[Point]:
    """Return the sum of curves that are straight between their points and nothing outside."""
    turns: list[tuple[float, float, float, int]] = []  # moment, step, change of slope, curves more
    for curve in curves:
        if not curve:
            continue
        turns.append((curve[0].seconds, curve[0].held_bytes, 0.0, 1))
        for one, other in pairwise(curve):
            lasts = other.seconds - one.seconds
            rise = other.held_bytes - one.held_bytes
            if lasts > 0:
                turns.append((one.seconds, 0.0, rise / lasts, 0))
                turns.append((other.seconds, 0.0, -rise / lasts, 0))
            else:
                turns.append((one.seconds, rise, 0.0, 0))
        turns.append((curve[-1].seconds, -curve[-1].held_bytes, 0.0, -1))
    return _sweep(turns)


def _sweep(turns: list[tuple[float, float, float, int]]) -> list[Point]:
    points: list[Point] = []
    now = held = slope = 0.0
    count = 0
    for moment, group in groupby(sorted(turns), key=lambda turn: turn[0]):
        held += slope * (moment - now)
        now = moment
        points.append(Point(now, max(0.0, held)))
        before = held
        for _, step, change, more in group:
            held, slope, count = held + step, slope + change, count + more
        if count == 0:
            held = slope = 0.0  # what rounding left must not pile up
        if held != before:
            points.append(Point(now, max(0.0, held)))
    return points


def tail_of(held: Iterable[float], peak_bytes: float) -> float | None:
    """Return the most that a call holds after it has come down from its peak the first time.

    One that comes near its peak twice, as of several nvcc passes, has a tail as high as that: it
    promises nothing.

    :param held: What it holds, one sample after the other.
    :returns: None if it does not come down before it ends.
    """
    was_near = False
    tail: float | None = None
    for bytes_ in held:
        if tail is not None:
            tail = max(tail, bytes_)
        elif bytes_ >= NEAR_SHARE * peak_bytes:
            was_near = True
        elif was_near and bytes_ < DOWN_SHARE * peak_bytes:
            tail = bytes_
    return tail


def thin(points: Sequence[Point], count: int) -> list[Point]:
    """Return some ``count`` points that look the same: of each short while its least and its most.

    The first, the last and the highest point stay.
    """
    if len(points) <= count:
        return list(points)
    first, last = points[0].seconds, points[-1].seconds
    whiles = max(1, count // 2)
    width = (last - first) / whiles or 1.0
    kept = [points[0]]
    for _, group in groupby(points[1:-1], key=lambda point: int((point.seconds - first) / width)):
        alike = list(group)
        least = min(alike, key=lambda point: point.held_bytes)
        most = max(alike, key=lambda point: point.held_bytes)
        pair = {id(least): least, id(most): most}.values()
        kept += sorted(pair, key=lambda point: point.seconds)
    return [*kept, points[-1]]
