"""Bounds against the best schedule, found by trying every order."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.governor.bounds import Load, bounds_for

CAP = 12


def load(seconds: float, peak: int) -> Load:
    """A unit that holds its peak from start to end, on one CPU."""
    return Load(seconds=seconds, peak_bytes=peak, cpu_seconds=seconds, byte_seconds=seconds * peak)


def shortest_makespan(loads: list[Load], cpus: int) -> float:
    """The best of all orders, each job at the earliest moment that it fits through to its end.

    Such schedules contain an optimal one. Source: R. Kolisch, "Serial and parallel
    resource-constrained project scheduling methods revisited" (1996).
    """
    return min(_makespan(order, cpus) for order in permutations(loads))


def _makespan(order: tuple[Load, ...], cpus: int) -> float:
    placed: list[tuple[float, float, int]] = []
    for job in order:
        start = min(
            moment
            for moment in (0.0, *(end for _, end, _ in placed))
            if _fits(placed, moment, job, cpus)
        )
        placed.append((start, start + job.seconds, job.peak_bytes))
    return max((end for _, end, _ in placed), default=0.0)


def _fits(placed: list[tuple[float, float, int]], start: float, job: Load, cpus: int) -> bool:
    end = start + job.seconds
    for moment in (start, *(begin for begin, _, _ in placed if start < begin < end)):
        beside = [peak for begin, stop, peak in placed if begin <= moment < stop]
        if len(beside) >= cpus or sum(beside) + job.peak_bytes > CAP:
            return False
    return True


@given(
    st.lists(
        st.builds(load, st.integers(1, 9).map(float), st.integers(1, CAP)), min_size=1, max_size=5
    ),
    st.integers(1, 4),
)
@settings(max_examples=200)
def test_no_schedule_beats_a_bound(loads, cpus):
    bounds = bounds_for(loads, cap_bytes=CAP, cpus=cpus)
    assert max(bounds.best, bounds.of_any_schedule) <= shortest_makespan(loads, cpus) + 1e-9


def test_each_bound_where_it_is_the_one_that_tells():
    def of(loads: list[Load], cpus: int) -> dict[str, float]:
        bounds = bounds_for(loads, cap_bytes=CAP, cpus=cpus)
        return {name: getattr(bounds, name) for name in ("path", "cpu", "memory", "big", "pairs")}

    assert of([load(9, 1), load(1, 1)], 2)["path"] == 9
    assert of([load(3, 1)] * 4, 2)["cpu"] == 6
    assert of([load(3, 6)] * 4, 4)["memory"] == 6
    assert of([load(3, 7)] * 2, 4)["big"] == 6
    assert of([load(3, 9), load(3, 4)], 4)["pairs"] == 4


def test_tight_bounds_are_reached():
    """Two of 7 cannot share 12, nor can 9 and 4: the bound equals the optimum."""
    loads = [load(3, 7), load(3, 7), load(2, 9), load(2, 5)]
    assert bounds_for(loads, cap_bytes=CAP, cpus=4).best == 8
    assert shortest_makespan(loads, 4) == 8


def test_memory_over_time_bounds_what_peaks_do_not():
    ramp = Load(seconds=4, peak_bytes=12, cpu_seconds=4, byte_seconds=24)
    bounds = bounds_for([ramp, ramp], cap_bytes=CAP, cpus=2)
    assert (bounds.best, bounds.of_any_schedule) == (8, 4)


def test_nothing_takes_no_time():
    assert bounds_for([], cap_bytes=CAP, cpus=2).best == 0
