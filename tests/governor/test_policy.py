"""The policy: its promises as properties, its choices by example."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.governor.jobs import (
    Kill,
    Limit,
    Pause,
    Resume,
    Running,
    Start,
    State,
    TooBig,
    Waiting,
)
from buildkit.governor.policy import decide, raised_peak

CAP = 1000


def waiting(job: int, peak: int, seconds: float, **changes: object) -> Waiting:
    wish = Waiting(job=job, build="a", peak_bytes=peak, seconds=seconds, arrived_seconds=0.0)
    return replace(wish, **changes)


def running(job: int, peak: int, seconds: float, **changes: object) -> Running:
    """A job that has half of its peak and time behind it, and grows."""
    active = Running(
        job=job,
        build="a",
        peak_bytes=peak,
        seconds=seconds,
        elapsed_seconds=seconds / 2,
        rss_bytes=peak // 2,
        seen_bytes=peak // 2,
        is_growing=True,
    )
    return replace(active, **changes)


def state(
    waits: list[Waiting], runs: list[Running] | None = None, *, cpus: int = 4, headroom: int = 9999
) -> State:
    return State(
        now_seconds=100.0,
        waiting=tuple(waits),
        running=tuple(runs or ()),
        cap_bytes=CAP,
        headroom_bytes=headroom,
        cpus=cpus,
    )


def starts(decisions: tuple[object, ...]) -> list[int]:
    return [decision.job for decision in decisions if isinstance(decision, Start)]


# --- properties ----------------------------------------------------------------------------------

wishes = st.builds(
    lambda build, peak, seconds, cpus: (build, peak, seconds, cpus),
    st.sampled_from("ab"),
    st.integers(1, 2 * CAP),
    st.integers(1, 100),
    st.integers(1, 3),
)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Any state: jobs within and beyond their estimates, paused, ending, too big."""
    waits = [
        waiting(number, peak, seconds, build=build, cpus=cpus)
        for number, (build, peak, seconds, cpus) in enumerate(draw(st.lists(wishes, max_size=8)))
    ]
    runs = []
    for number, (build, peak, seconds, cpus) in enumerate(draw(st.lists(wishes, max_size=5)), 100):
        rss = draw(st.integers(0, 600))
        runs.append(
            running(
                number,
                min(peak, CAP),
                seconds,
                build=build,
                cpus=cpus,
                elapsed_seconds=draw(st.integers(0, 150)),
                rss_bytes=rss,
                seen_bytes=rss + draw(st.integers(0, 100) | st.integers(0, CAP)),
                tail_bytes=draw(st.none() | st.integers(0, CAP // 2)),
                is_guess=draw(st.booleans()),
                is_growing=draw(st.booleans()),
                is_paused=draw(st.booleans()),
                is_ending=draw(st.integers(0, 9)) == 0,
            )
        )
    cpus, headroom = draw(st.integers(1, 6)), draw(st.integers(0, 1500))
    return state(waits, runs, cpus=cpus, headroom=headroom)


@given(states(), st.integers())
@settings(max_examples=300)
def test_same_input_same_decisions_in_whatever_order_it_comes(given_state, seed):
    shuffled = replace(
        given_state,
        waiting=tuple(random.Random(seed).sample(given_state.waiting, len(given_state.waiting))),
        running=tuple(random.Random(seed).sample(given_state.running, len(given_state.running))),
    )
    assert decide(shuffled) == decide(given_state)


@given(states())
@settings(max_examples=300)
def test_starts_fit_in_cap_headroom_and_cpus_or_run_alone(given_state):
    started = set(starts(decide(given_state)))
    jobs = [job for job in given_state.waiting if job.job in started]
    if not jobs or (len(jobs) == 1 and not given_state.running):
        return
    peaks = sum(job.peak_bytes for job in jobs)
    assert peaks + sum(job.claim_bytes for job in given_state.running) <= CAP
    owed = sum(job.owed_bytes for job in given_state.running)
    # The first of them may have started because nothing ran, whatever the headroom said.
    if given_state.running:
        assert peaks + owed <= given_state.headroom_bytes
    assert sum(job.cpus for job in (*jobs, *given_state.running)) <= given_state.cpus


@given(states())
@settings(max_examples=300)
def test_never_idle_while_a_job_waits(given_state):
    idle = replace(given_state, running=())
    assert not idle.waiting or starts(decide(idle))


@given(states())
@settings(max_examples=300)
def test_pressure_spares_the_oldest_and_kills_one_at_a_time(given_state):
    decisions = decide(given_state)
    active = [job for job in given_state.running if not job.is_ending]
    hit = [d.job for d in decisions if isinstance(d, (Pause, Kill))]
    if hit:
        oldest = min(active, key=lambda job: (-job.elapsed_seconds, job.job))
        assert oldest.job not in hit
    if any(isinstance(decision, Kill) for decision in decisions):
        assert len(decisions) == 1
        assert len(active) == len(given_state.running)


@given(states())
@settings(max_examples=300)
def test_nothing_starts_beside_a_paused_job(given_state):
    if any(job.is_paused and not job.is_ending for job in given_state.running):
        assert not starts(decide(given_state))


@given(states())
@settings(max_examples=300)
def test_the_oldest_job_never_stays_paused(given_state):
    active = [job for job in given_state.running if not job.is_ending]
    decisions = decide(given_state)
    if not active or any(isinstance(decision, (Kill, TooBig)) for decision in decisions):
        return
    oldest = min(active, key=lambda job: (-job.elapsed_seconds, job.job))
    assert not oldest.is_paused or Resume(oldest.job) in decisions


@given(states())
@settings(max_examples=300)
def test_what_fits_and_ends_before_the_reservation_does_not_wait(given_state):
    """Work-conserving: a job is held back only by lack of room, or for the head's sake."""
    decisions = decide(given_state)
    started = set(starts(decisions))
    if not started:
        return
    after = replace(
        given_state,
        waiting=tuple(job for job in given_state.waiting if job.job not in started),
        running=(
            *given_state.running,
            *(
                running(
                    job.job,
                    min(job.peak_bytes, CAP),
                    job.seconds,
                    build=job.build,
                    cpus=min(job.cpus, given_state.cpus),
                    elapsed_seconds=0.0,
                    rss_bytes=0,
                    seen_bytes=0,
                )
                for job in given_state.waiting
                if job.job in started
            ),
        ),
    )
    again = [job for job in after.waiting if job.job in starts(decide(after))]
    # A second look may see a build as served that was not; within one build it finds nothing.
    if len({job.build for job in (*given_state.waiting, *given_state.running)}) == 1:
        assert not again


# --- choices -------------------------------------------------------------------------------------


def test_longest_first_as_far_as_memory_goes():
    wait = [waiting(1, 300, 10), waiting(2, 300, 30), waiting(3, 300, 20), waiting(4, 300, 40)]
    assert starts(decide(state(wait))) == [4, 2, 3]


def test_growth_still_owed_counts_against_headroom():
    """400 are free, but the job that runs will take 300 of them."""
    runs = [running(1, 600, 100, rss_bytes=300)]
    assert starts(decide(state([waiting(2, 200, 5)], runs, headroom=400))) == []
    assert starts(decide(state([waiting(2, 200, 5)], runs, headroom=500))) == [2]


def test_a_job_may_pass_the_blocked_head_only_if_it_ends_before():
    runs = [running(1, 700, 100)]  # 50 s to go
    head = waiting(2, 900, 300)
    assert starts(decide(state([head, waiting(3, 200, 40)], runs))) == [3]
    assert starts(decide(state([head, waiting(3, 200, 60)], runs))) == []


def test_or_if_it_leaves_the_room_that_the_head_needs():
    runs = [running(1, 700, 100)]
    head = waiting(2, 800, 300)
    long = [waiting(3, 150, 200), waiting(4, 100, 190)]
    assert starts(decide(state([head, *long], runs))) == [3]


def test_collects_arrivals_briefly_before_the_first_decision():
    late = [waiting(1, 10, 100, arrived_seconds=99.9)]
    assert decide(state(late)) == ()
    assert starts(decide(state(late, [running(9, 10, 10)]))) == [1]


def test_collecting_does_not_hold_up_short_calls():
    """One hundredth of the longest call at most: a serial build must not feel it."""
    assert starts(decide(state([waiting(1, 10, 1, arrived_seconds=99.98)]))) == [1]


def test_a_build_of_which_nothing_runs_comes_first():
    wait = [waiting(1, 100, 100), waiting(2, 100, 90), waiting(3, 100, 5, build="b")]
    runs = [running(9, 100, 100)]
    assert starts(decide(state(wait, runs, cpus=2))) == [3]
    assert starts(decide(state(wait, runs, cpus=3))) == [3, 1]


def test_a_job_of_several_cpus_takes_them():
    wait = [waiting(1, 10, 50, cpus=3), waiting(2, 10, 40), waiting(3, 10, 30)]
    assert starts(decide(state(wait, cpus=4))) == [1, 2]
    assert starts(decide(state([waiting(1, 10, 50, cpus=64)], cpus=4))) == [1]


def test_pauses_the_youngest_that_would_not_fit():
    runs = [
        running(1, 500, 100, rss_bytes=480),
        running(2, 480, 80, rss_bytes=250),
        running(3, 300, 60, rss_bytes=250),
    ]
    assert decide(state([waiting(4, 1, 1)], runs)) == (Pause(2), Pause(3))


def test_resumes_when_there_is_room_again():
    runs = [running(1, 500, 100), running(2, 400, 80, is_paused=True)]
    assert decide(state([], runs)) == (Resume(2),)


def test_kills_the_cheapest_to_repeat_when_the_last_room_goes():
    runs = [
        running(1, 400, 100, rss_bytes=450),
        running(2, 300, 80, rss_bytes=290, elapsed_seconds=40),
        running(3, 300, 80, rss_bytes=250, elapsed_seconds=20),
    ]
    assert decide(state([], runs)) == (Kill(3),)
    ending = [*runs[:2], replace(runs[2], is_ending=True)]
    assert Kill not in {type(decision) for decision in decide(state([], ending))}


def test_a_job_that_outgrows_the_cap_alone_ends_the_build():
    assert decide(state([], [running(1, 900, 100, rss_bytes=1001)])) == (TooBig(1, 1001),)


def test_a_settled_job_frees_what_it_will_not_use():
    runs = [running(1, 900, 100, elapsed_seconds=80, is_growing=False, seen_bytes=500)]
    assert starts(decide(state([waiting(2, 400, 5)], runs))) == [2]


def test_after_the_last_shared_attempt_a_job_runs_alone():
    assert raised_peak(300, 310, 1, CAP) == 450
    assert raised_peak(300, 500, 1, CAP) == 625
    assert raised_peak(450, 460, 2, CAP) == CAP


# --- limits of builds ----------------------------------------------------------------------------


def limited(given_state: State, **limits: tuple[int, int]) -> State:
    return replace(
        given_state,
        limits={build: Limit(memory_bytes=m, cpus=c) for build, (m, c) in limits.items()},
    )


@st.composite
def limited_states(draw: st.DrawFn) -> State:
    """States whose builds have limits of their own, which their running jobs keep to."""
    given_state = draw(states())
    limits = {
        build: Limit(memory_bytes=draw(st.integers(1, 2 * CAP)), cpus=draw(st.integers(1, 6)))
        for build in draw(st.sets(st.sampled_from("ab")))
    }
    return replace(given_state, limits=limits)


@given(limited_states())
@settings(max_examples=500)
def test_a_start_keeps_its_build_within_its_limit_or_is_alone_in_it(given_state):
    started = set(starts(decide(given_state)))
    for build in given_state.limits:
        limit = given_state.limit_of(build)
        new = [w for w in given_state.waiting if w.job in started and w.build == build]
        old = [r for r in given_state.running if r.build == build]
        if not new or len(new) + len(old) == 1:
            continue
        claims = sum(job.claim_bytes for job in old)
        peaks = sum(min(job.peak_bytes, limit.memory_bytes) for job in new)
        assert claims + peaks <= limit.memory_bytes
        cpus = sum(job.cpus for job in old) + sum(min(job.cpus, limit.cpus) for job in new)
        assert cpus <= limit.cpus


@given(limited_states(), st.integers(1, CAP), st.integers(1, 6))
@settings(max_examples=500)
def test_a_build_that_uses_its_limit_up_holds_up_no_other(given_state, memory, cpus):
    """Whatever waits of it: the other build starts what it would start if that were not there."""
    own = running(500, memory, 100, build="c", rss_bytes=memory, seen_bytes=memory, cpus=cpus)
    crowded = replace(
        given_state,
        running=(*given_state.running, own),
        limits={**given_state.limits, "c": Limit(memory_bytes=memory, cpus=cpus)},
    )
    stuck = tuple(waiting(600 + i, memory, 1000, build="c") for i in range(3))
    with_them = replace(crowded, waiting=(*crowded.waiting, *stuck))
    assert starts(decide(with_them)) == starts(decide(crowded))


@given(limited_states())
@settings(max_examples=300)
def test_never_idle_whatever_the_limits(given_state):
    idle = replace(given_state, running=())
    assert not idle.waiting or starts(decide(idle))


def test_the_limit_of_the_only_build_changes_nothing():
    """Every real build has one; the head needs its reservation all the same."""
    runs = [running(1, 700, 100)]
    head = waiting(2, 800, 300)
    long = [waiting(3, 150, 200), waiting(4, 100, 190)]
    free = state([head, *long], runs)
    assert starts(decide(limited(free, a=(CAP, 4)))) == starts(decide(free)) == [3]


def test_small_jobs_of_a_build_do_not_starve_a_big_one_within_its_limit():
    runs = [running(1, 300, 100), running(9, 100, 100, build="b")]
    wait = [waiting(2, 400, 300), waiting(3, 100, 60), waiting(4, 100, 40)]
    other = waiting(5, 100, 250, build="b")
    busy = limited(state([*wait, other], runs, cpus=8), a=(400, 8), b=(400, 8))
    assert starts(decide(busy)) == [5, 4]  # 3 would be in the way of 2 for ten seconds


def test_a_job_beyond_its_builds_limit_runs_alone_in_its_build():
    wait = [waiting(1, 900, 50), waiting(2, 100, 40), waiting(3, 500, 30, build="b")]
    busy = limited(state(wait), a=(400, 4))
    assert starts(decide(busy)) == [1, 3]
