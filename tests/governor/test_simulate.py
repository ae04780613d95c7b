"""Replays: what the governor promises of whole builds, and what fixed rules do."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.governor.bounds import bounds_for
from buildkit.governor.profile import Unit
from buildkit.governor.simulate import (
    Died,
    Expected,
    Finished,
    Machine,
    exactly,
    load_of,
    off_by,
    replay_fixed,
    replay_governed,
)

CAP = 1000
MACHINE = Machine(memory_bytes=1050, cap_bytes=CAP, cpus=4)


def unit(seconds: float, peak: int, cpus: int = 1, tail: float | None = None) -> Unit:
    return Unit(
        source="a.cu",
        flags="",
        seconds=seconds,
        cpu_seconds=seconds * cpus,
        peak_bytes=peak,
        tail_bytes=None if tail is None else int(peak * tail),
    )


tails = st.none() | st.floats(0, 0.45)

any_units = st.lists(
    st.builds(unit, st.integers(1, 100).map(float), st.integers(1, CAP), st.integers(1, 2), tails),
    min_size=1,
    max_size=30,
)


@given(any_units)
@settings(max_examples=100)
def test_true_estimates_never_pass_the_cap_and_no_job_starves(units):
    done = replay_governed(units, exactly(units), MACHINE)
    assert isinstance(done, Finished)
    assert done.peak_bytes <= CAP
    assert (done.kills, done.paused_seconds) == (0, 0.0)
    bounds = bounds_for([load_of(unit) for unit in units], cap_bytes=CAP, cpus=4)
    assert bounds.of_any_schedule <= done.makespan_seconds + 1e-6
    # Any list schedule stays below 3 times the bound. Source: Garey and Graham (1975).
    assert done.makespan_seconds <= 3 * bounds.best + 1


#: Units that grow by no more between two samples than lies between the cap and the machine's end:
#: what happens within one sample nobody can answer.
slow_units = st.lists(
    st.builds(unit, st.integers(35, 200).map(float), st.integers(1, CAP), st.integers(1, 2), tails),
    min_size=1,
    max_size=30,
)


@given(slow_units, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_wrong_estimates_are_survived(units, chance):
    done = replay_governed(units, off_by(units, 0.3, chance), MACHINE)
    assert isinstance(done, Finished)
    assert done.peak_bytes <= MACHINE.memory_bytes


@given(any_units)
@settings(max_examples=50)
def test_even_wild_underestimates_end_after_two_kills_each_at_most(units):
    endless = Machine(memory_bytes=1 << 40, cap_bytes=CAP, cpus=4)
    done = replay_governed(units, [Expected(peak_bytes=1, seconds=1.0) for _ in units], endless)
    assert isinstance(done, Finished)
    assert done.kills <= 2 * len(units)


def test_same_replay_twice_is_the_same():
    units = [unit(10 + number % 7, 50 + 40 * number % 600) for number in range(50)]
    wishes = off_by(units, 0.3, random.Random(1))
    assert replay_governed(units, wishes, MACHINE) == replay_governed(units, wishes, MACHINE)


def test_a_kill_is_counted_and_repeated():
    units = [unit(100, 700), unit(90, 600)]
    wishes = [Expected(peak_bytes=400, seconds=100), Expected(peak_bytes=400, seconds=90)]
    done = replay_governed(units, wishes, MACHINE)
    assert isinstance(done, Finished)
    assert done.kills == 1
    assert done.wasted_seconds > 0
    assert done.makespan_seconds > 190


def test_fixed_jobs_die_where_the_governor_does_not():
    units = [unit(10, 400)] * 8
    died = replay_fixed(units, 4, MACHINE)
    assert isinstance(died, Died)
    assert died.finished_units == 0
    fixed = replay_fixed(units, 2, MACHINE)
    governed = replay_governed(units, exactly(units), MACHINE)
    assert isinstance(fixed, Finished)
    assert isinstance(governed, Finished)
    assert fixed.makespan_seconds == 40
    assert governed.makespan_seconds < 41


def test_more_jobs_than_cpus_share_them():
    done = replay_fixed([unit(10, 1)] * 8, 8, MACHINE)
    assert isinstance(done, Finished)
    assert abs(done.makespan_seconds - 20) < 1e-6


def test_what_comes_down_from_its_peak_makes_room_for_the_next():
    units = [unit(100, 800, tail=1 / 16)] * 4
    done = replay_governed(units, exactly(units), MACHINE)
    assert isinstance(done, Finished)
    assert done.kills == 0
    assert done.peak_bytes <= CAP
    # Each peak ends after 40 seconds, and only then may the next begin.
    assert 3 * 40 + 100 <= done.makespan_seconds < 3 * 42 + 101
    alone = [unit(100, 800)] * 4
    assert replay_governed(alone, exactly(alone), MACHINE).makespan_seconds >= 400
