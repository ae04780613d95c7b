"""What a running job is expected to hold from now on."""

from __future__ import annotations

from dataclasses import replace

from buildkit.governor.policy import decide
from tests.governor.test_policy import running, starts, state, waiting


def test_a_job_that_came_down_from_its_peak_frees_what_it_held():
    past = {"tail_bytes": 200, "seen_bytes": 880, "rss_bytes": 150, "is_growing": False}
    assert starts(decide(state([waiting(2, 700, 50)], [running(1, 900, 100, **past)]))) == [2]
    assert starts(decide(state([waiting(2, 850, 50)], [running(1, 900, 100, **past)]))) == []
    for unknown in ({"tail_bytes": None}, {"seen_bytes": 700}, {"rss_bytes": 500}):
        job = running(1, 900, 100, **{**past, **unknown})
        assert starts(decide(state([waiting(2, 700, 50)], [job]))) == []


def test_a_guessed_peak_need_not_be_reached():
    past = {"tail_bytes": 200, "seen_bytes": 500, "rss_bytes": 150, "is_growing": False}
    job = running(1, 900, 100, **past)
    assert starts(decide(state([waiting(2, 700, 50)], [job]))) == []
    assert starts(decide(state([waiting(2, 700, 50)], [replace(job, is_guess=True)]))) == [2]
    small = replace(job, is_guess=True, seen_bytes=400)
    assert starts(decide(state([waiting(2, 700, 50)], [small]))) == []


def test_a_job_beyond_its_tail_is_taken_at_what_it_holds():
    job = running(1, 900, 100, tail_bytes=100, seen_bytes=900, rss_bytes=400, is_growing=True)
    assert job.claim_bytes == 440
    assert replace(job, is_growing=False).claim_bytes == 400
