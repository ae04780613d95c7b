"""What a build did, from its records."""

from __future__ import annotations

import json

import pytest

from buildkit.errors import RequestError
from buildkit.governor.bounds import Load, bounds_for
from buildkit.governor.summary import render_report, report_document
from buildkit.launcher import read_records
from tests.governor.builds import HOSTILE, STARTED, a_build, a_record, a_report

GIB = 1 << 30


def test_makespan_bounds_and_ratio():
    report = a_report(
        a_record("/src/a.cu", start=STARTED + 1, wall_seconds=10, cpu_seconds=9),
        a_record("/src/b.cu", start=STARTED + 6, wall_seconds=15, paused_seconds=5, cpu_seconds=8),
        cpus=1,
        ended=STARTED + 30,
    )
    assert report.makespan_seconds == 20
    assert report.governed.whole_seconds == 30
    load = {"seconds": 10, "peak_bytes": 2 * GIB, "byte_seconds": 15.0 * GIB}
    assert report.bounds == bounds_for(
        [Load(cpu_seconds=9, **load), Load(cpu_seconds=8, **load)], cap_bytes=14 * GIB, cpus=1
    )
    assert report.ratio == pytest.approx(20 / 17)  # one CPU, 17 seconds of it
    assert [attempt.name for attempt in report.attempts] == ["a.cu", "b.cu"]
    assert report.paused_seconds == 5


def test_the_memory_of_all_calls_is_their_sum():
    flat = ((0.0, 1024), (10.0, 1024))
    report = a_report(
        a_record("a.cu", memory=flat),
        a_record("b.cu", memory=flat, start=STARTED + 9),
        a_record("c.cu", memory=(), peak_bytes=3 * GIB, start=STARTED + 30),
    )
    assert report.peak.held_bytes == 3 * GIB
    assert report.peak.seconds == 30
    assert max(p.held_bytes for p in report.curve if p.seconds < 29) == 2 * GIB


def test_kills_are_counted_by_kind_and_their_work_is_lost():
    report = a_report(
        a_record(wall_seconds=4, paused_seconds=1, status=137, ended="governor"),
        a_record(start=STARTED + 5, wall_seconds=2, status=137, ended="kernel", attempt=2),
        a_record(start=STARTED + 8, attempt=3, waited_seconds=1.5),
        a_record("probe.c", start=STARTED + 8, status=1),
    )
    assert report.kills == {"governor": 1, "kernel": 1, "cap": 0}
    assert report.lost_seconds == 5
    assert [unit.number for unit in report.units] == [3, 1]
    assert [attempt.outcome for attempt in report.attempts] == ["killed", "killed", "ok", "failed"]
    assert report.bounds.path == 10
    text = render_report(report)
    assert "2 units in 4 calls, at most 2 at once; ok" in text
    assert "1 by the governor, 1 by the kernel, 0 over the whole cap; 5.00 s of work lost" in text
    assert "failed   1 call by itself" in text


def test_the_most_expensive_units_are_ten_and_in_order():
    report = a_report(*(a_record(f"{n}.cu", wall_seconds=float(n)) for n in range(1, 13)))
    names = [unit["name"] for unit in report_document(report)["expensive"]]
    assert names == [f"{n}.cu" for n in range(12, 2, -1)]


@pytest.mark.parametrize("count", [1, 400])
def test_lanes_never_overlap_and_are_as_few_as_calls_at_once(count):
    report = a_build(count, cpus=16, cap_gib=48)
    ends = [0.0] * report.lanes
    for attempt in report.attempts:
        assert attempt.start >= ends[attempt.lane]
        ends[attempt.lane] = attempt.end
    assert report.lanes <= 16


def test_a_made_up_build_keeps_what_no_build_can_break():
    report = a_build(400, cpus=16, cap_gib=48)
    assert report.ratio is not None
    assert report.ratio >= 1
    assert report.peak.held_bytes <= 48 * GIB
    assert sum(report.kills.values()) == len(report.attempts) - len(report.units) > 0
    json.dumps(report_document(report), allow_nan=False)


def test_a_build_of_which_nothing_succeeded_has_no_bound():
    report = a_report(a_record(status=1), status="failed")
    assert report.ratio is None
    assert "bound    none" in render_report(report)
    assert report_document(report)["ratio"] is None


def test_a_build_that_was_killed_says_so():
    report = a_report(a_record(), ended=None, status="running")
    text = render_report(report)
    assert "unfinished: it still runs, or was killed" in text
    assert "the whole build" not in text


def test_records_of_earlier_builds_and_of_no_unit_do_not_count():
    report = a_report(
        a_record("old.cu", start=STARTED - 60), a_record("", output=""), a_record("new.cu")
    )
    assert [attempt.name for attempt in report.attempts] == ["new.cu"]


def test_no_record_is_one_clear_error():
    with pytest.raises(RequestError, match=r"No compiler call .* has ended.*--clean"):
        a_report()


def test_times_are_said_to_be_measured_under_contention():
    report = a_report(a_record())
    assert "while calls shared the machine" in " ".join(render_report(report).split())
    assert "while calls shared the machine" in report_document(report)["note"]


def test_a_hostile_name_does_not_reach_the_terminal():
    text = render_report(a_report(a_record(HOSTILE)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "onerror" in text


def test_records_of_the_launcher_old_and_new(tmp_path):
    file = tmp_path / "records.jsonl"
    old = {
        "source": "a.cu",
        "output": "a.o",
        "tool": "nvcc",
        "decision": "pinned",
        "start": STARTED,
        "wall_seconds": 1.0,
        "cpu_seconds": 1.0,
        "peak_bytes": 1,
        "status": 0,
    }
    new = {**old, "memory": [[0.0, 5], [0.5, 7]], "ended": "kernel", "attempt": 2}
    lines = [old, new, {**new, "memory": "many"}, {**new, "memory": [[0, 1e999]]}]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"torn')
    first, second = read_records(file)
    assert (first.memory, first.attempt, first.ended) == ((), 1, "")
    assert (second.memory, second.attempt, second.ended) == (((0.0, 5), (0.5, 7)), 2, "kernel")
    assert read_records(file, first_line=1) == (second,)


def test_what_the_cache_of_objects_answered_bounds_nothing():
    compiled = a_record("a.cu", objects="miss")
    report = a_report(compiled, a_record("b.cu", objects="hit", start=STARTED + 5))
    assert report.bounds == a_report(compiled).bounds
    assert len(report.units) == 2
    # Also where every object came from there.
    told = a_report(a_record("b.cu", objects="hit"))
    assert told.ratio is None
    assert "b.cu" in render_report(told)
