"""The report as one HTML page that needs nothing but itself. Pure, but for its own style sheet.

Names of files are the build's own and are escaped; besides, the page's content security policy
lets no script run but ours, and nothing be loaded.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_bytes
from buildkit.governor.chart import render_chart, shade_limits, shorten
from buildkit.governor.summary import (
    CONTENTION,
    EXPENSIVE,
    bound_reasons,
    printable,
    render_count,
    render_seconds,
    render_status,
)
from buildkit.sizes import render_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from buildkit.governor.report import Attempt, Report

__all__ = ["render_page"]

#: Killed calls in their table.
KILLED = 100


def render_page(report: Report) -> str:
    """Return the page."""
    style, script = (
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    named = escape(shorten(f"{report.recipe} {report.version} for {report.arch}"))
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src 'sha256-{_base64(script)}'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{named}: report of a build</title>
<style>{style}</style>
</head>
<body>
<main>
<header>
<h1>{named}</h1>
<p class="soft">{_subtitle(report)}</p>
</header>
{_tiles(report)}
<section aria-labelledby="time">
<h2 id="time">Memory and calls over time</h2>
<div class="wide" tabindex="0" role="group" aria-label="Chart">{render_chart(report)}</div>
{_keys(report)}
</section>
{_bounds(report)}
{_expensive(report)}
{_killed(report)}
</main>
<div id="tip" hidden></div>
<script>{script}</script>
</body>
</html>
"""


def _base64(script: str) -> str:
    return b64encode(bytes.fromhex(digest_bytes(script.encode()))).decode()


def _subtitle(report: Report) -> str:
    governed = report.governed
    parts = [
        render_count(report),
        f"{governed.cpus} CPUs ({governed.cpu_source})",
        f"cap {render_size(governed.cap_bytes)} ({governed.memory_source})",
        *([f"hard cap {governed.hard_cap}"] if governed.hard_cap else []),
        render_status(report),
    ]
    return escape(printable(" · ".join(parts)))


def _tiles(report: Report) -> str:
    whole = report.governed.whole_seconds
    kills = report.kills
    share = report.peak.held_bytes / report.governed.cap_bytes
    tiles = [
        (
            render_seconds(report.makespan_seconds),
            "makespan of the calls"
            + ("" if whole is None else f"; {render_seconds(whole)} the whole build"),
        ),
        (
            "no bound" if report.ratio is None else f"{report.ratio:.2f} times",
            f"the lower bound of {render_seconds(report.bounds.best)}",
        ),
        (
            f"{share:.0%} of the cap",
            f"peak memory, {render_size(report.peak.held_bytes)} of"
            f" {render_size(report.governed.cap_bytes)}",
        ),
        (
            f"{len(report.killed)} killed",
            f"{kills['governor']} by the governor, {kills['kernel']} by the kernel;"
            f" {render_seconds(report.lost_seconds)} of work lost",
        ),
        (
            render_seconds(report.paused_seconds),
            f"paused, and {render_seconds(report.waited_seconds)} waited for a slot, over all"
            " calls",
        ),
    ]
    items = "".join(
        f"<li><b>{escape(big)}</b><span>{escape(small)}</span></li>" for big, small in tiles
    )
    return f'<ul class="tiles">{items}</ul>'


def _keys(report: Report) -> str:
    keys = [
        (f"p{shade}", f"peak up to {render_size(limit)}")
        for shade, limit in enumerate(shade_limits(report))
    ]
    outcomes = {attempt.outcome for attempt in report.attempts}
    if "killed" in outcomes:
        keys.append(("killed", "killed for memory"))
    if "failed" in outcomes:
        keys.append(("failed", "failed by itself"))
    if report.paused_seconds:
        keys.append(("pause", "was paused for a while"))
    items = "".join(
        f'<li><svg viewBox="0 0 16 12" aria-hidden="true"><rect class="key {look}" width="16"'
        f' height="12"/></svg>{escape(text)}</li>'
        for look, text in keys
    )
    return f'<ul class="keys">{items}</ul>'


def _bounds(report: Report) -> str:
    if report.ratio is None:
        return ""
    makespan = report.makespan_seconds
    longest = max(makespan, report.bounds.best)
    reasons = bound_reasons(report)
    binding = max(reasons, key=lambda reason: reason[1])
    rows = []
    for name, seconds, reason in reasons:
        best = ' class="best"' if name == binding[0] else ""
        rows.append(
            f'<tr{best}><th class="text" scope="row">{name}</th><td>{render_seconds(seconds)}</td>'
            f'<td class="meter">{_meter(seconds / longest)}</td>'
            f'<td class="text">{escape(reason)}</td></tr>'
        )
    rows.append(
        '<tr><th class="text" scope="row">makespan</th>'
        f"<td>{render_seconds(makespan)}</td>"
        f'<td class="meter">{_meter(makespan / longest, "makespan")}</td>'
        '<td class="text">what this build took</td></tr>'
    )
    return f"""<section aria-labelledby="bounds">
<h2 id="bounds">How short it could have been</h2>
<table>
<caption>No schedule that keeps each call's peak free to its end beats the largest bound; one that
also uses what a call lets go of can, down to {render_seconds(report.bounds.of_any_schedule)}.
{CONTENTION}</caption>
<thead><tr><th class="text" scope="col">bound</th><th scope="col">time</th><td class="meter"></td>
<th class="text" scope="col">reason</th></tr></thead>
<tbody>
{chr(10).join(rows)}
</tbody>
</table>
</section>"""


def _meter(share: float, look: str = "") -> str:
    return f'<i class="{look}" style="width:{share:.1%}"></i>'


def _expensive(report: Report) -> str:
    units = report.expensive(EXPENSIVE)
    rows = [
        (
            shorten(unit.name),
            render_seconds(unit.work_seconds),
            render_seconds(unit.cpu_seconds),
            render_size(unit.peak_bytes),
            render_seconds(unit.waited_seconds),
            str(unit.number),
        )
        for unit in units
    ]
    head = ("unit", "time", "CPU time", "peak", "waited", "attempts")
    return _section("expensive", "The most expensive units", head, rows)


def _killed(report: Report) -> str:
    killed: list[Attempt] = sorted(report.killed, key=lambda attempt: attempt.end)
    if not killed:
        return ""
    rows = [
        (
            shorten(attempt.name),
            render_seconds(attempt.end),
            render_seconds(attempt.work_seconds),
            render_size(attempt.peak_bytes),
            shorten(attempt.killed_by),
            str(attempt.number),
        )
        for attempt in killed[:KILLED]
    ]
    head = ("unit", "at", "after", "held", "by", "attempt")
    more = f", the first {KILLED} of {len(killed)}" if len(killed) > KILLED else ""
    return _section("killed", f"Killed for memory{more}", head, rows)


def _section(name: str, title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table under a heading; the first column is text."""
    titles = "".join(f'<th scope="col">{cell}</th>' for cell in head[1:])
    body = "\n".join(
        f'<tr><td class="text">{escape(row[0])}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"""<section aria-labelledby="{name}">
<h2 id="{name}">{title}</h2>
<div class="wide"><table>
<thead><tr><th class="text" scope="col">{head[0]}</th>{titles}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
</section>"""
