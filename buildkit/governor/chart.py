"""The report's chart as SVG: memory under the cap, and below it the calls by lane. Pure.

What enters: a report. What leaves: one ``<svg>`` element whose colours stand in ``page.css``. Both
parts share the axis of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from buildkit.governor.curve import thin
from buildkit.governor.summary import printable, render_seconds
from buildkit.sizes import render_number, render_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildkit.governor.report import Attempt, Report

__all__ = ["SHADES", "render_chart", "shade_limits", "shorten"]

#: Shades by which bars show their peak.
SHADES = 5

#: Units of the drawing; a browser scales it to the page.
WIDTH, LEFT, RIGHT = 1200, 64, 16
MEMORY_TOP, MEMORY_HEIGHT = 22, 170
GAP, AXIS_HEIGHT = 26, 24

#: Heights of a lane: as high as fits into the whole, within these.
LANE_LEAST, LANE_MOST, LANES_HEIGHT = 4.0, 22.0, 640.0

#: Points of the curve: two for each unit of width.
POINTS = 2 * (WIDTH - LEFT - RIGHT)

#: Characters of a name: the longest, and how wide one is.
NAME_LENGTH, LETTER_WIDTH = 100, 6.3

_STEPS_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Where moments, bytes and lanes lie in the drawing."""

    seconds: float
    most_bytes: float
    lanes: int

    @property
    def lane_height(self) -> float:
        return max(LANE_LEAST, min(LANE_MOST, LANES_HEIGHT / self.lanes))

    @property
    def lanes_top(self) -> float:
        return MEMORY_TOP + MEMORY_HEIGHT + GAP

    @property
    def bottom(self) -> float:
        return self.lanes_top + self.lanes * self.lane_height

    def x(self, seconds: float) -> float:
        return LEFT + seconds / self.seconds * (WIDTH - LEFT - RIGHT)

    def y(self, held_bytes: float) -> float:
        return MEMORY_TOP + MEMORY_HEIGHT * (1 - held_bytes / self.most_bytes)

    def lane(self, number: int) -> float:
        return self.lanes_top + number * self.lane_height


def render_chart(report: Report) -> str:
    """Return the drawing."""
    frame = _Frame(
        seconds=report.makespan_seconds or 1.0,
        most_bytes=1.04 * max(report.governed.cap_bytes, report.peak.held_bytes),
        lanes=report.lanes,
    )
    height = frame.bottom + AXIS_HEIGHT
    label = (
        f"{render_number(len(report.attempts), 'compiler call')} in"
        f" {render_number(report.lanes, 'lane')} over"
        f" {render_seconds(report.makespan_seconds)}; memory peaks at"
        f" {render_size(report.peak.held_bytes)} under a cap of"
        f" {render_size(report.governed.cap_bytes)}"
    )
    parts = [
        f'<svg id="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
        f' aria-label="{escape(label)}"'
        f' data-left="{LEFT}" data-right="{WIDTH - RIGHT}" data-seconds="{frame.seconds}"'
        f' data-top="{MEMORY_TOP}" data-height="{MEMORY_HEIGHT}"'
        f' data-bytes="{frame.most_bytes:.0f}">',
        '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"'
        ' patternTransform="rotate(45)"><rect class="hatch-ground" width="5" height="5"/>'
        '<rect class="hatch-line" width="2" height="5"/></pattern></defs>',
        *_time_axis(frame),
        *_memory(report, frame),
        *_lane_labels(frame),
        *_bars(report, frame),
        f'<line id="now" y1="{MEMORY_TOP}" y2="{frame.bottom:.1f}" visibility="hidden"/>',
        "</svg>",
    ]
    return "\n".join(parts)


def shade_limits(report: Report) -> list[float]:
    """Return the bytes up to which each shade goes: the largest peak, its half, and so on."""
    largest = max(attempt.peak_bytes for attempt in report.attempts)
    return [largest / 2 ** (SHADES - 1 - shade) for shade in range(SHADES)]


def shorten(name: str) -> str:
    """Return a name with its middle left out if it is long, without control characters.

    >>> shorten("x" * 500 + "/a.cu")[-9:], len(shorten("x" * 500))
    ('xxxx/a.cu', 100)
    """
    name = printable(name)
    return name if len(name) <= NAME_LENGTH else f"{name[:29]}…{name[30 - NAME_LENGTH :]}"


# --- memory --------------------------------------------------------------------------------------


def _memory(report: Report, frame: _Frame) -> Iterator[str]:
    right = WIDTH - RIGHT
    for value, text in _byte_ticks(frame.most_bytes):
        y = frame.y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    points = " ".join(
        f"{frame.x(point.seconds):.1f},{frame.y(point.held_bytes):.1f}"
        for point in thin(report.curve, POINTS)
    )
    yield f'<polyline id="held" class="held" points="{points}"/>'
    cap = frame.y(report.governed.cap_bytes)
    yield f'<line class="cap" x1="{LEFT}" x2="{right}" y1="{cap:.1f}" y2="{cap:.1f}"/>'
    yield (
        f'<text class="cap-label" x="{right}" y="{cap - 5:.1f}" text-anchor="end">cap'
        f" {render_size(report.governed.cap_bytes)}</text>"
    )
    yield f'<text class="title" x="{LEFT}" y="{MEMORY_TOP - 8}">memory of all calls</text>'
    peak = report.peak
    yield (
        f'<circle class="peak" cx="{frame.x(peak.seconds):.1f}" cy="{frame.y(peak.held_bytes):.1f}"'
        f' r="3.5"><title>peak {render_size(peak.held_bytes)}</title></circle>'
    )


def _byte_ticks(most_bytes: float) -> list[tuple[float, str]]:
    unit, name = (1 << 30, "GiB") if most_bytes >= 2 << 30 else (1 << 20, "MiB")
    most = most_bytes / unit
    step = next(
        digit * 10.0**power
        for power in range(-3, 9)
        for digit in (1, 2, 5)
        if digit * 10.0**power >= most / 5
    )
    return [
        (number * step * unit, f"{number * step:g} {name}" if number else "0")
        for number in range(int(most / step) + 1)
    ]


def _time_axis(frame: _Frame) -> Iterator[str]:
    steps = (*_STEPS_SECONDS, *(3600.0 * 2**power for power in range(1, 20)))
    step = next((step for step in steps if step >= frame.seconds / 10), frame.seconds)
    for number in range(int(frame.seconds / step) + 1):
        moment = number * step
        x = frame.x(moment)
        yield (
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{MEMORY_TOP}"'
            f' y2="{frame.bottom:.1f}"/>'
        )
        yield (
            f'<text class="tick" x="{x:.1f}" y="{frame.bottom + 16:.1f}"'
            f' text-anchor="middle">{_moment(moment, step)}</text>'
        )


def _moment(seconds: float, step: float) -> str:
    if seconds == 0:
        return "0"
    if step < 60:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if step < 3600 else f"{seconds / 3600:g} h"


# --- calls ---------------------------------------------------------------------------------------


def _lane_labels(frame: _Frame) -> Iterator[str]:
    yield (
        f'<text class="title" x="{LEFT}" y="{frame.lanes_top - 8:.1f}">compiler calls; those'
        " that ran at the same time lie in lanes of their own</text>"
    )
    every = next(count for count in (1, 5, 10, 50, 100, 1000) if count * frame.lane_height >= 14)
    for number in range(frame.lanes):
        if number == 0 or (number + 1) % every == 0:
            y = frame.lane(number) + frame.lane_height / 2 + 4
            yield (
                f'<text class="tick" x="{LEFT - 8}" y="{y:.1f}" text-anchor="end">'
                f"{number + 1}</text>"
            )


def _bars(report: Report, frame: _Frame) -> Iterator[str]:
    limits = shade_limits(report)
    height = frame.lane_height - (2 if frame.lane_height >= 8 else 0.5)
    for attempt in report.attempts:
        x, y = frame.x(attempt.start), frame.lane(attempt.lane)
        width = max(0.6, frame.x(attempt.end) - x)
        look: str = attempt.outcome
        if look == "ok":
            look = f"p{next(i for i, limit in enumerate(limits) if attempt.peak_bytes <= limit)}"
        yield (
            f'<rect class="bar {look}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
            f' height="{height:.1f}"><title>{escape(_told(attempt))}</title></rect>'
        )
        if attempt.paused_seconds > 0 and height > 3:
            yield (
                f'<rect class="pause" x="{x:.1f}" y="{y + height - 2:.1f}" width="{width:.1f}"'
                ' height="2"/>'
            )
        name = shorten(PurePosixPath(attempt.name).name)
        if frame.lane_height >= 14 and len(name) * LETTER_WIDTH + 8 <= width:
            yield (
                f'<text class="name {look}" x="{x + 4:.1f}" y="{y + height / 2 + 4:.1f}">'
                f"{escape(name)}</text>"
            )


def _told(attempt: Attempt) -> str:
    """Return what a bar says when it is pointed at."""
    lines = [
        shorten(attempt.name),
        f"{render_seconds(attempt.seconds)}, CPU {render_seconds(attempt.cpu_seconds)},"
        f" peak {render_size(attempt.peak_bytes)}",
    ]
    if attempt.waited_seconds:
        lines.append(f"waited {render_seconds(attempt.waited_seconds)}")
    if attempt.paused_seconds:
        lines.append(f"paused {render_seconds(attempt.paused_seconds)}")
    if attempt.killed_by:
        lines.append(f"killed for memory ({printable(attempt.killed_by)})")
    elif attempt.status:
        lines.append(f"failed with status {attempt.status}")
    if attempt.number > 1:
        lines.append(f"attempt {attempt.number}")
    return "\n".join(lines)
