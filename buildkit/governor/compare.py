"""The comparison: one profile under the governor and under the rules that people use today.

What enters: a profile and a machine. What leaves: a table of how each build ends.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from buildkit.governor.bounds import bounds_for
from buildkit.governor.simulate import (
    Finished,
    exactly,
    load_of,
    off_by,
    replay_fixed,
    replay_governed,
)
from buildkit.sizes import render_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from buildkit.governor.bounds import Bounds
    from buildkit.governor.profile import Unit
    from buildkit.governor.simulate import Machine, Outcome

__all__ = ["RULES", "Comparison", "Row", "Rule", "compare", "render_comparison"]

_GIB = 1 << 30

#: How wrong the estimates of the second governed replay are.
ERROR = 0.3

#: Characters of the longest bar.
BAR = 24


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to choose a fixed ``-j``."""

    name: str
    jobs: Callable[[Machine], int]


RULES = (
    # ninja 1.11 src/ninja.cc, GuessParallelism.
    Rule("ninja's default", lambda machine: machine.cpus + 2 if machine.cpus > 2 else 3),
    # vLLM setup.py, compute_num_jobs; also `cmake --build --parallel $(nproc)`.
    Rule("vLLM: one per core", lambda machine: machine.cpus),
    Rule("one per 9 GiB", lambda machine: max(1, machine.memory_bytes // (9 * _GIB))),
    # flash-attention 2.8.3 setup.py, NinjaBuildExtension.
    Rule(
        "flash-attention 2.8.3",
        lambda machine: max(1, min(machine.cpus // 2, machine.memory_bytes // (9 * _GIB))),
    ),
    # flash-attention pull request 2079, with its default of 4 nvcc threads.
    Rule(
        "flash-attention, later",
        lambda machine: max(1, min(machine.cpus // 2, machine.memory_bytes // (20 * _GIB))),
    ),
    # FlashInfer aot.py.
    Rule(
        "FlashInfer AOT",
        lambda machine: max(1, min(machine.cpus, (machine.memory_bytes - 16 * _GIB) // (8 * _GIB))),
    ),
)
"""Rules of today, each with where it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How the builds of one rule end, one outcome per seed."""

    rule: str
    jobs: int | None
    """None: decided while it runs."""
    outcomes: tuple[Outcome, ...]

    @property
    def finished(self) -> list[Finished]:
        """The builds that did not run out of memory."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Finished)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rows, and the bound that no build beats."""

    machine: Machine
    units: int
    unit_seconds: float
    """Of all units together."""
    bounds: Bounds
    rows: tuple[Row, ...]


def compare(units: Sequence[Unit], machine: Machine, *, seeds: int) -> Comparison:
    """Replay a profile under each rule, once per seed.

    A seed shuffles the order in which a fixed rule meets the units, as a build tool's order has
    nothing to do with their cost, and draws the errors of the estimates.
    """
    chances = [random.Random(seed) for seed in range(seeds)]  # noqa: S311 - repeatable on purpose
    orders = [chance.sample(list(units), len(units)) for chance in chances]
    known = tuple(replay_governed(order, exactly(order), machine) for order in orders)
    wrong = tuple(
        replay_governed(order, off_by(order, ERROR, chance), machine)
        for order, chance in zip(orders, chances, strict=True)
    )
    fixed = [
        Row(
            rule=rule.name,
            jobs=rule.jobs(machine),
            outcomes=tuple(replay_fixed(order, rule.jobs(machine), machine) for order in orders),
        )
        for rule in RULES
    ]
    return Comparison(
        machine=machine,
        units=len(units),
        unit_seconds=sum(unit.seconds for unit in units),
        bounds=bounds_for(
            [load_of(unit) for unit in units], cap_bytes=machine.cap_bytes, cpus=machine.cpus
        ),
        rows=(
            Row(rule="governor, costs known", jobs=None, outcomes=known),
            Row(rule=f"governor, ±{ERROR:.0%} wrong", jobs=None, outcomes=wrong),
            *fixed,
        ),
    )


def render_comparison(comparison: Comparison) -> str:
    """Return the table, with bars for the makespans."""
    machine, bounds = comparison.machine, comparison.bounds
    lines = [
        f"{render_number(comparison.units, 'unit')},"
        f" {comparison.unit_seconds / 3600:.1f} h of work;"
        f" {render_number(machine.cpus, 'CPU')}, {machine.memory_bytes / _GIB:.0f} GiB, of"
        f" which the governor uses {machine.cap_bytes / _GIB:.1f}",
        f"no schedule that keeps each peak free to the unit's end takes less than"
        f" {_clock(bounds.best)}, none at all less than {_clock(bounds.of_any_schedule)}",
        "",
        f"{'rule':<24}{'jobs':>5}{'makespan':>10}{'x bound':>9}{'peak':>7}",
    ]
    longest = max((_makespan(row) for row in comparison.rows if row.finished), default=1.0)
    lines += [_render_row(row, comparison, longest) for row in comparison.rows]
    return "\n".join(line.rstrip() for line in lines)


def _render_row(row: Row, comparison: Comparison, longest: float) -> str:
    start = f"{row.rule:<24}{row.jobs or '-':>5}"
    died = len(row.outcomes) - len(row.finished)
    if died:
        often = "" if died == len(row.outcomes) else f" in {died} of {len(row.outcomes)}"
        return f"{start}  killed for lack of memory{often}"
    makespan = _makespan(row)
    peak = max(outcome.peak_bytes for outcome in row.finished)
    kills = fmean(outcome.kills for outcome in row.finished)
    wasted = fmean(outcome.wasted_seconds for outcome in row.finished)
    note = (
        f"  {kills:.1f} killed, {wasted / comparison.unit_seconds:.1%} of work repeated"
        if kills
        else ""
    )
    return (
        f"{start}{_clock(makespan):>10}{makespan / comparison.bounds.best:>9.2f}"
        f"{peak / comparison.machine.memory_bytes:>7.0%}  "
        f"{'█' * max(1, round(BAR * makespan / longest))}{note}"
    )


def _makespan(row: Row) -> float:
    return fmean(outcome.makespan_seconds for outcome in row.finished)


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
