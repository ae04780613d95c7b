"""The report as a trace that Perfetto and chrome://tracing open. Pure.

Source: "Trace Event Format", Google, 2016: complete events (``X``), counters (``C``), metadata
(``M``); times in microseconds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from buildkit.governor.curve import thin
from buildkit.governor.summary import render_status

if TYPE_CHECKING:
    from buildkit.governor.report import Attempt, Report

__all__ = ["render_trace"]

#: Points of the memory curve.
POINTS = 4000

_PROCESS = 1

#: Names of Chrome's own palette.
_COLOURS = {"killed": "terrible", "failed": "bad"}


def render_trace(report: Report) -> str:
    """Return the trace as JSON."""
    named = f"{report.recipe} {report.version} for {report.arch}"
    events: list[dict[str, Any]] = [_meta("process_name", 0, {"name": named})]
    for lane in range(report.lanes):
        events.append(_meta("thread_name", lane + 1, {"name": f"lane {lane + 1}"}))
        events.append(_meta("thread_sort_index", lane + 1, {"sort_index": lane + 1}))
    events += [_call(attempt) for attempt in report.attempts]
    for point in thin(report.curve, POINTS):
        events.append(_counter("memory (bytes)", point.seconds, round(point.held_bytes)))
    for seconds in (0.0, report.makespan_seconds):
        events.append(_counter("cap (bytes)", seconds, report.governed.cap_bytes))
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "status": render_status(report),
            "memory": report.governed.memory_source,
            "cpus": str(report.governed.cpus),
        },
    }
    return json.dumps(document, separators=(",", ":"))


def _meta(name: str, thread: int, arguments: dict[str, str | int]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": _PROCESS, "tid": thread, "args": arguments}


def _counter(name: str, seconds: float, value: int) -> dict[str, Any]:
    return {
        "ph": "C",
        "name": name,
        "pid": _PROCESS,
        "ts": _microseconds(seconds),
        "args": {"value": value},
    }


def _call(attempt: Attempt) -> dict[str, Any]:
    start = _microseconds(attempt.start)
    event: dict[str, Any] = {
        "ph": "X",
        "name": attempt.name,
        "cat": attempt.outcome,
        "pid": _PROCESS,
        "tid": attempt.lane + 1,
        "ts": start,
        # Both ends rounded the same way, so that neighbours in a lane never overlap.
        "dur": _microseconds(attempt.end) - start,
        "args": {
            "tool": attempt.tool,
            "peak_bytes": attempt.peak_bytes,
            "cpu_seconds": attempt.cpu_seconds,
            "waited_seconds": attempt.waited_seconds,
            "paused_seconds": attempt.paused_seconds,
            "attempt": attempt.number,
            "killed_by": attempt.killed_by,
            "status": attempt.status,
        },
    }
    if attempt.outcome in _COLOURS:
        event["cname"] = _COLOURS[attempt.outcome]
    return event


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
