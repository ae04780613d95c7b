"""Sums of memory curves against sums at single moments."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.governor.curve import Point, curve_of, sum_curves, tail_of, thin


def at(curve: list[Point], moment: float) -> float:
    """What a curve says between two of its points; nothing outside."""
    for one, other in pairwise(curve):
        if one.seconds < moment < other.seconds:
            share = (moment - one.seconds) / (other.seconds - one.seconds)
            return one.held_bytes + share * (other.held_bytes - one.held_bytes)
    return 0.0


curves = st.builds(
    lambda samples, start, seconds: curve_of(
        samples, start=float(start), seconds=float(seconds), peak_bytes=7.0
    ),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1000)), max_size=6),
    st.integers(0, 20),
    st.integers(1, 20),
)


@given(st.lists(curves, min_size=1, max_size=5), st.integers(0, 40))
def test_the_sum_is_what_the_parts_say(parts, moment):
    total = sum_curves(parts)
    between = moment + 0.37
    assert at(total, between) == pytest.approx(sum(at(part, between) for part in parts), abs=1e-6)
    assert total == sorted(total, key=lambda point: point.seconds)
    assert all(point.held_bytes >= 0 for point in total)
    assert total[0].held_bytes == total[-1].held_bytes == 0


def test_one_call_rises_from_nothing_and_keeps_its_last_sample():
    assert curve_of([(2.0, 8.0)], start=10, seconds=5, peak_bytes=9) == [
        Point(10, 0),
        Point(12, 8),
        Point(15, 8),
    ]


def test_a_call_without_samples_holds_its_peak():
    assert curve_of([], start=1, seconds=2, peak_bytes=9) == [Point(1, 9), Point(3, 9)]


def test_samples_that_are_wrong_are_mended():
    curve = curve_of([(9.0, 4.0), (-1.0, -2.0)], start=0, seconds=5, peak_bytes=9)
    assert curve == [Point(0, 0), Point(5, 4), Point(5, 4)]


def test_one_call_after_another_leaves_no_spike():
    total = sum_curves([[Point(0, 5), Point(1, 5)], [Point(1, 5), Point(2, 5)]])
    assert max(point.held_bytes for point in total) == 5


def test_nothing_has_no_curve():
    assert sum_curves([]) == []
    assert sum_curves([[]]) == []


@given(st.lists(st.integers(0, 100), min_size=2, max_size=300), st.integers(4, 50))
def test_thin_keeps_the_ends_and_the_peak(heights, count):
    points = [Point(moment / 3, height) for moment, height in enumerate(heights)]
    kept = thin(points, count)
    assert len(kept) <= count + 4
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert max(point.held_bytes for point in kept) == max(heights)
    assert kept == sorted(kept, key=lambda point: point.seconds)


@pytest.mark.parametrize(
    ("held", "tail"),
    [
        ([10, 50, 100, 30, 40, 20], 40),
        ([10, 50, 92, 100, 49], 49),
        ([10, 50, 100, 60, 55], None),  # stays above half
        ([100], None),
        ([], None),
        ([60, 20, 100, 90], None),  # what comes before the peak does not count
        ([95, 10, 100, 10], 100),  # two passes
        ([95, 10, 100], 100),
    ],
)
def test_the_tail_is_what_is_held_after_the_first_fall(held, tail):
    assert tail_of(held, 100) == tail
