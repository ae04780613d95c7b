"""The ledger: arrivals, limits of builds, failures, and what it tells of a build."""

from __future__ import annotations

from buildkit.governor.jobs import Limit, Pause, Resume, Start
from buildkit.governor.ledger import Ledger

CAP = 1000
FREE = 10 * CAP


def a_ledger(*, cpus: int = 4) -> Ledger:
    return Ledger(cap_bytes=CAP, cpus=cpus)


def arrive(ledger: Ledger, peak: int = 100, seconds: float = 10.0, *, build: str = "a") -> int:
    return ledger.arrive(build=build, peak_bytes=peak, seconds=seconds, now=0.0)


def started(ledger: Ledger, now: float = 100.0) -> list[int]:
    decisions = ledger.step(now=now, headroom_bytes=FREE)
    return [decision.job for decision in decisions if isinstance(decision, Start)]


def test_a_job_waits_runs_and_leaves():
    ledger = a_ledger()
    job = arrive(ledger)
    assert (ledger.waiting, ledger.running, ledger.is_running(job)) == (1, 0, False)
    assert started(ledger) == [job]
    assert (ledger.waiting, ledger.running, ledger.is_running(job)) == (0, 1, True)
    ledger.leave(job)
    ledger.leave(job)
    assert (ledger.waiting, ledger.running) == (0, 0)


def test_numbers_are_never_used_twice():
    ledger = a_ledger()
    first = arrive(ledger)
    ledger.leave(first)
    assert arrive(ledger) != first


# --- limits of builds ----------------------------------------------------------------------------


def test_each_build_keeps_to_its_own_limit():
    ledger = a_ledger(cpus=8)
    ledger.limit("a", Limit(memory_bytes=250, cpus=8))
    ledger.limit("b", Limit(memory_bytes=CAP, cpus=3))
    for _ in range(8):
        arrive(ledger, build="a")
        arrive(ledger, build="b")
    jobs = started(ledger)
    assert len(jobs) == 5
    assert (ledger.load("a").running, ledger.load("b").running) == (2, 3)


def test_a_build_may_ask_for_more_jobs_than_there_are_cpus():
    ledger = a_ledger(cpus=2)
    ledger.limit("a", Limit(memory_bytes=CAP, cpus=6))
    for _ in range(9):
        arrive(ledger)
    assert len(started(ledger)) == 6


def test_no_build_may_ask_for_more_memory_than_there_is():
    ledger = a_ledger(cpus=99)
    ledger.limit("a", Limit(memory_bytes=5 * CAP, cpus=99))
    for _ in range(20):
        arrive(ledger)
    assert len(started(ledger)) == CAP // 100


def test_pressure_is_felt_at_the_limit_of_the_only_build():
    """Two jobs outgrow what is expected: the younger is paused within the limit, not at the cap."""
    ledger = a_ledger()
    ledger.limit("a", Limit(memory_bytes=400, cpus=4))
    jobs = [arrive(ledger, 190, 50.0), arrive(ledger, 190, 40.0)]
    assert started(ledger) == jobs
    ledger.measure(jobs[0], 180, 101.0)
    ledger.measure(jobs[1], 180, 101.0)
    assert ledger.step(now=101.0, headroom_bytes=FREE) == ()
    ledger.measure(jobs[1], 202, 102.0)
    assert ledger.step(now=102.0, headroom_bytes=FREE) == (Pause(jobs[1]),)
    ledger.leave(jobs[0])
    assert ledger.step(now=103.0, headroom_bytes=FREE) == (Resume(jobs[1]),)


# --- takeover ------------------------------------------------------------------------------------


def test_a_job_of_another_governor_counts_with_what_it_has_behind_it():
    ledger = a_ledger()
    job = arrive(ledger, 600, 100.0)
    ledger.adopt(job, elapsed_seconds=90.0, now=100.0)
    ledger.measure(job, 400, 100.0)
    assert ledger.is_running(job)
    late = arrive(ledger, 500, 50.0)
    assert started(ledger, now=100.0) == []  # 600 are claimed while it grows
    assert late in started(ledger, now=110.0)  # it has not grown for long, and is nearly done
    assert ledger.load("a").held_bytes == 400


def test_adopted_jobs_do_not_count_as_waiting():
    ledger = a_ledger(cpus=1)
    job, other = arrive(ledger), arrive(ledger)
    ledger.adopt(job, elapsed_seconds=1.0, now=100.0)
    assert started(ledger) == []
    assert (ledger.waiting, ledger.running) == (1, 1)
    ledger.leave(job)
    assert started(ledger) == [other]


# --- out of memory -------------------------------------------------------------------------------


def test_a_job_that_ran_out_is_expected_to_hold_more():
    ledger = a_ledger()
    job = arrive(ledger, 400, 10.0)
    assert started(ledger) == [job]
    ledger.measure(job, 420, 101.0)
    ledger.requeue(job, 102.0)
    assert (ledger.waiting, ledger.running) == (1, 0)
    small = arrive(ledger, 450, 5.0)
    assert started(ledger) == [job]  # it now takes 600, which leaves no room
    ledger.leave(job)
    assert started(ledger) == [small]


def test_after_the_second_time_it_runs_alone():
    ledger = a_ledger()
    job = arrive(ledger, 10, 10.0)
    for now in (100.0, 110.0):
        assert started(ledger, now) == [job]
        ledger.requeue(job, now + 5)
    arrive(ledger, 1, 5.0)
    assert started(ledger, 120.0) == [job]


def test_a_job_that_the_kernel_killed_runs_alone_at_once():
    ledger = a_ledger()
    job, small = arrive(ledger, 10, 10.0), arrive(ledger, 1, 5.0)
    assert started(ledger) == [job, small]
    ledger.requeue(job, 101.0, is_alone=True)
    assert started(ledger, now=101.0) == []
    ledger.leave(small)
    another = arrive(ledger, 1, 5.0)
    assert started(ledger, now=102.0) == [job]
    ledger.leave(job)
    assert started(ledger, now=103.0) == [another]


# --- revised estimates ---------------------------------------------------------------------------


def test_what_waits_can_be_expected_otherwise():
    ledger = a_ledger()
    jobs = [arrive(ledger, 900, 10.0), arrive(ledger, 900, 10.0)]
    for job in jobs:
        ledger.revise(job, peak_bytes=300, seconds=10.0)
    assert started(ledger) == jobs


def test_what_runs_or_has_gone_is_not_revised():
    ledger = a_ledger()
    job = arrive(ledger, 900, 10.0)
    assert started(ledger) == [job]
    ledger.revise(job, peak_bytes=1, seconds=1.0)
    ledger.revise(job + 1, peak_bytes=1, seconds=1.0)
    arrive(ledger, 900, 1.0)
    assert started(ledger) == []


def test_a_peak_raised_after_a_failure_stays():
    ledger = a_ledger()
    job = arrive(ledger, 400, 10.0)
    assert started(ledger) == [job]
    ledger.requeue(job, 101.0)
    ledger.revise(job, peak_bytes=10, seconds=10.0)
    arrive(ledger, 450, 5.0)
    assert started(ledger) == [job]


# --- load ----------------------------------------------------------------------------------------


def test_the_load_of_a_build_is_its_own():
    ledger = a_ledger(cpus=2)
    ledger.limit("a", Limit(memory_bytes=600, cpus=2))
    jobs = [arrive(ledger, 100, 40.0), arrive(ledger, 100, 30.0), arrive(ledger, 100, 20.0)]
    assert started(ledger) == jobs[:2]
    arrive(ledger, 900, 5.0, build="b")
    ledger.measure(jobs[0], 70, 100.0)
    load = ledger.load("a")
    assert (load.running, load.paused, load.waiting) == (2, 0, 1)
    assert (load.held_bytes, load.cap_bytes) == (70, 600)
    assert load.seconds_left == (40 + 30 + 20) / 2


def test_the_time_left_knows_the_longest_job_and_the_memory():
    ledger = a_ledger(cpus=99)
    arrive(ledger, 100, 40.0)
    assert ledger.load("a").seconds_left == 40.0
    for _ in range(4):
        arrive(ledger, CAP, 40.0)
    assert ledger.load("a").seconds_left == 40.0 * 4.1
    assert ledger.load("unknown").seconds_left == 0.0


def test_pauses_do_not_count_as_running_time():
    ledger = a_ledger()
    jobs = [arrive(ledger, 500, 50.0), arrive(ledger, 480, 40.0)]
    assert started(ledger) == jobs
    ledger.measure(jobs[0], 480, 110.0)
    ledger.measure(jobs[1], 490, 110.0)
    assert ledger.step(now=110.0, headroom_bytes=FREE) == (Pause(jobs[1]),)
    ledger.step(now=130.0, headroom_bytes=FREE)
    load = ledger.load("a")
    assert (load.running, load.paused) == (1, 1)
    assert load.seconds_left == 30.0  # the paused one has 30 s to go, the other 20


def test_a_job_is_remembered_with_what_it_held_after_its_peak():
    ledger = a_ledger()
    job = arrive(ledger, 500)
    assert started(ledger) == [job]
    for now, held in enumerate((100, 480, 90, 120), 101):
        ledger.measure(job, held, float(now))
    assert ledger.tail_bytes(job) == 120


def test_a_job_that_was_ended_for_memory_promises_no_tail_any_more():
    ledger = a_ledger()
    job = ledger.arrive(build="a", peak_bytes=600, seconds=10.0, tail_bytes=50, now=0.0)
    assert started(ledger) == [job]
    ledger.measure(job, 580, 101.0)
    ledger.requeue(job, 101.0)
    assert started(ledger, 102.0) == [job]
    ledger.measure(job, 1000, 103.0)
    ledger.measure(job, 10, 104.0)
    assert arrive(ledger, 900) not in started(ledger, 110.0)
