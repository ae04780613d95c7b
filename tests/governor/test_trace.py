"""The trace: what Perfetto and chrome://tracing ask of one."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import pytest

from buildkit.governor.trace import render_trace
from tests.governor.builds import HOSTILE, a_build, a_record, a_report

#: Keys of each phase. Source: "Trace Event Format", sections on X, C and M events.
KEYS = {
    "X": {"name": str, "cat": str, "ph": str, "ts": int, "dur": int, "pid": int, "tid": int},
    "C": {"name": str, "ph": str, "ts": int, "pid": int, "args": dict},
    "M": {"name": str, "ph": str, "pid": int, "tid": int, "args": dict},
}


@pytest.fixture(scope="module")
def report():
    return a_build(400, cpus=16, cap_gib=48)


@pytest.fixture(scope="module")
def events(report):
    document = json.loads(render_trace(report))
    assert document["displayTimeUnit"] == "ms"
    return document["traceEvents"]


def test_every_event_has_what_its_phase_asks_for(events):
    for event in events:
        for key, kind in KEYS[event["ph"]].items():
            assert isinstance(event[key], kind), (event, key)
        assert event.get("dur", 0) >= 0
        assert event.get("ts", 0) >= 0


def test_each_call_is_one_event_in_the_lane_that_is_named(report, events):
    calls = [event for event in events if event["ph"] == "X"]
    assert len(calls) == len(report.attempts)
    names = {event["tid"]: event["args"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in calls} == set(names)
    assert names[1] == {"name": "lane 1"}
    assert sum(event["cat"] == "killed" for event in calls) == len(report.killed)


def test_events_of_a_lane_do_not_overlap(events):
    lanes = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lanes[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(spans))


def test_memory_is_a_counter_that_ends_at_nothing(report, events):
    held = [e for e in events if e["ph"] == "C" and e["name"].startswith("memory")]
    assert held == sorted(held, key=lambda event: event["ts"])
    assert max(event["args"]["value"] for event in held) == round(report.peak.held_bytes)
    assert held[-1]["args"]["value"] == 0
    caps = [e["args"]["value"] for e in events if e["ph"] == "C" and e["name"].startswith("cap")]
    assert caps == [48 << 30, 48 << 30]


def test_a_hostile_name_is_a_plain_string():
    events = json.loads(render_trace(a_report(a_record(HOSTILE))))["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == [HOSTILE]
