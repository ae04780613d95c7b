"""The report as plain text and as a document for scripts. Pure."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from buildkit.sizes import render_number, render_size

if TYPE_CHECKING:
    from buildkit.governor.report import Attempt, Report

__all__ = [
    "CONTENTION",
    "EXPENSIVE",
    "bound_reasons",
    "printable",
    "render_count",
    "render_report",
    "render_seconds",
    "render_status",
    "report_document",
]

#: Units in the table.
EXPENSIVE = 10

CONTENTION = (
    "Times were measured while calls shared the machine. Alone they can be shorter, so the true"
    " bounds may be lower and the true ratio higher."
)

_STATUSES = {
    "ok": "ok",
    "failed": "failed",
    "running": "unfinished: it still runs, or was killed",
}


def bound_reasons(report: Report) -> list[tuple[str, float, str]]:
    """Return name, seconds and reason of each bound that the best one is chosen from."""
    bounds, cpus = report.bounds, report.governed.cpus
    return [
        ("path", bounds.path, "the longest unit"),
        ("cpu", bounds.cpu, f"all CPU time on {render_number(cpus, 'CPU')}"),
        ("memory", bounds.memory, "all peaks times their seconds, packed under the cap"),
        ("big", bounds.big, "units too big to share the cap with enough others"),
        ("pairs", bounds.pairs, "as memory, less the gaps beside big units"),
    ]


def render_seconds(seconds: float) -> str:
    """Return a duration with about three figures.

    >>> [render_seconds(value) for value in (0, 0.04, 12.34, 192.4, 3599.9, 7383)]
    ['0 s', '0.04 s', '12.3 s', '3 min 12 s', '1 h 00 min', '2 h 03 min']
    """
    if seconds < 9.995:
        return f"{seconds:.2f} s" if seconds else "0 s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return f"{round(seconds) // 60} min {round(seconds) % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def render_count(report: Report) -> str:
    """Return how many units and calls there were."""
    units, calls = len(report.units), len(report.attempts)
    return f"{render_number(units, 'unit')} in {render_number(calls, 'call')}"


def render_status(report: Report) -> str:
    """Return how the build ended, in words."""
    return _STATUSES[report.governed.status]


def render_report(report: Report) -> str:
    """Return the report as lines for a terminal."""
    governed, bounds = report.governed, report.bounds
    binding = max(bound_reasons(report), key=lambda reason: reason[1])
    whole = governed.whole_seconds
    lines = [
        f"{report.recipe} {report.version} for {report.arch}: {render_count(report)}, at most"
        f" {report.lanes} at once; {render_status(report)}",
        f"makespan {render_seconds(report.makespan_seconds)} of compiler calls"
        + ("" if whole is None else f"; the whole build {render_seconds(whole)}"),
    ]
    if report.ratio is None:
        lines.append("bound    none: no call succeeded")
    else:
        listed = ", ".join(
            f"{name} {render_seconds(bound)}" for name, bound, _ in bound_reasons(report)
        )
        lines += [
            f"bound    {render_seconds(bounds.best)}: {binding[2]}; the makespan is"
            f" {report.ratio:.2f} x that",
            f"         {listed}",
            f"         for a schedule that also uses what a call lets go of after its peak:"
            f" {render_seconds(bounds.of_any_schedule)}",
            *(f"         {line}" for line in wrap(CONTENTION, 88)),
        ]
    lines += [*_memory_lines(report), "", *_table(report.expensive(EXPENSIVE))]
    return "\n".join(printable(line).rstrip() for line in lines)


def _memory_lines(report: Report) -> list[str]:
    governed, peak, kills = report.governed, report.peak, report.kills
    lines = [
        f"memory   peak {render_size(peak.held_bytes)} after {render_seconds(peak.seconds)},"
        f" {peak.held_bytes / governed.cap_bytes:.0%} of the cap of"
        f" {render_size(governed.cap_bytes)} ({governed.memory_source})",
        f"cpus     {governed.cpus} ({governed.cpu_source})",
        f"killed   {kills['governor']} by the governor, {kills['kernel']} by the kernel,"
        f" {kills['cap']} over the whole cap; {render_seconds(report.lost_seconds)} of work lost",
        f"waited   {render_seconds(report.waited_seconds)} for a slot,"
        f" paused {render_seconds(report.paused_seconds)}, over all calls",
    ]
    if governed.hard_cap:
        lines.insert(1, f"         hard cap {governed.hard_cap}")
    if report.failed:
        count = len(report.failed)
        lines.append(
            f"failed   {count} {'call by itself' if count == 1 else 'calls by themselves'}"
        )
    return lines


def _table(units: list[Attempt]) -> list[str]:
    rows = [
        (
            render_seconds(unit.work_seconds),
            render_seconds(unit.cpu_seconds),
            render_size(unit.peak_bytes),
            unit.name if unit.number == 1 else f"{unit.name} (attempt {unit.number})",
        )
        for unit in units
    ]
    head = ("seconds", "cpu", "peak", "unit, the most expensive first")
    return [f"{row[0]:>10} {row[1]:>10} {row[2]:>10}  {row[3]}" for row in (head, *rows)]


def printable(text: str) -> str:
    r"""Return a text in which control characters, as a file's name may hold, are spelled out.

    >>> printable("a\x1b[31m.cu")
    'a\\x1b[31m.cu'
    """
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def report_document(report: Report) -> dict[str, Any]:
    """Return the report for scripts; everything in bytes and seconds."""
    governed, bounds = report.governed, report.bounds
    return {
        "recipe": report.recipe,
        "version": report.version,
        "arch": report.arch,
        "status": governed.status,
        "units": len(report.units),
        "calls": len(report.attempts),
        "failed": len(report.failed),
        "most_at_once": report.lanes,
        "makespan_seconds": report.makespan_seconds,
        "whole_seconds": governed.whole_seconds,
        "bounds_seconds": {
            **asdict(bounds),
            "best": bounds.best,
            "of_any_schedule": bounds.of_any_schedule,
        },
        "ratio": report.ratio,
        "note": CONTENTION,
        "memory": {
            "peak_bytes": round(report.peak.held_bytes),
            "peak_at_seconds": report.peak.seconds,
            "cap_bytes": governed.cap_bytes,
            "source": governed.memory_source,
            "hard_cap": governed.hard_cap,
        },
        "cpus": governed.cpus,
        "cpu_source": governed.cpu_source,
        "offered_jobs": governed.offered_jobs,
        "killed": report.kills,
        "lost_seconds": report.lost_seconds,
        "paused_seconds": report.paused_seconds,
        "waited_seconds": report.waited_seconds,
        "expensive": [
            {
                "name": unit.name,
                "flags": unit.flags,
                "seconds": unit.work_seconds,
                "cpu_seconds": unit.cpu_seconds,
                "peak_bytes": unit.peak_bytes,
                "attempts": unit.number,
                "outcome": unit.outcome,
            }
            for unit in report.expensive(EXPENSIVE)
        ],
    }
