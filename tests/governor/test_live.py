"""The live governor with real launchers: order, cap, pressure, and calls that memory ends."""

from __future__ import annotations

import signal

import pytest

from tests.fakes import wait_for
from tests.governor.yard import MIB, load_of, serving, statuses


def test_the_longest_call_starts_first_whatever_came_first(yards):
    yard = yards()
    names = ["a.cu", "b.cu", "c.cu"]
    history = {"first.cu": (50, 1), "a.cu": (50, 25), "b.cu": (50, 99), "c.cu": (50, 50)}
    yard.know(400, cpus=1, history=history)
    gate = yard.root / "gate"
    yard.unit("first.cu", f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)")
    for name in names:
        yard.unit(name, "pass")
    with serving(yard):
        first = yard.launch("first.cu")
        wait_for(lambda: "start first.cu" in yard.log())
        waiting = yard.launch(*names)
        wait_for(lambda: load_of(yard).waiting == 3)
        gate.touch()
        assert statuses(first + waiting) == [0, 0, 0, 0]
    starts = [line for line in yard.log() if line.startswith("start")]
    assert starts[1:] == ["start b.cu", "start c.cu", "start a.cu"]
    assert all(record.waited_seconds > 0 for record in yard.records())


def test_two_that_do_not_fit_run_one_after_the_other_and_a_small_one_beside(yards):
    yard = yards()
    yard.know(400, cpus=3, history={"a.cu": (250, 4), "b.cu": (240, 3), "c.cu": (60, 2)})
    for name in ("a.cu", "b.cu", "c.cu"):
        yard.unit(name, "time.sleep(0.6)")
    with serving(yard):
        assert statuses(yard.launch("a.cu", "b.cu", "c.cu")) == [0, 0, 0]
    log = yard.log()
    assert log.index("start b.cu") > log.index("end a.cu")
    assert log.index("start c.cu") < log.index("end a.cu")


def test_a_wrong_estimate_costs_a_repetition_and_the_build_tool_sees_none(yards):
    yard = yards()
    yard.know(400, history={"old.cu": (100, 9), "big.cu": (60, 5)})
    yard.unit("old.cu", "kept = hold(310, 4.0, steps=80); time.sleep(1)")
    yard.unit("big.cu", "sys.stderr.write('only once\\n'); kept = hold(330, 3.0, steps=60)")
    with serving(yard):
        old = yard.launch("old.cu")
        wait_for(lambda: "start old.cu" in yard.log())
        (big,) = yard.launch("big.cu")
        _, messages = big.communicate(timeout=60)
        assert big.returncode == 0
        assert statuses(old) == [0]
    attempts = [record for record in yard.records() if record.source.endswith("big.cu")]
    assert [record.ended for record in attempts] == ["governor", ""]
    assert [record.attempt for record in attempts] == [1, 2]
    assert attempts[0].status == 128 + signal.SIGKILL
    assert attempts[0].paused_seconds > 0, "it was paused before it was killed"
    log = yard.log()
    assert log.count("start big.cu") == 2
    assert log.index("end old.cu") < log.index("end big.cu"), "the second time it waits for room"
    assert messages == "only once\n", "what the killed attempt said is not passed on"
    assert not yard.left_over(), "each attempt's TMPDIR is removed"


def test_a_job_is_paused_and_goes_on(yards):
    yard = yards()
    yard.know(400, history={"old.cu": (230, 9), "young.cu": (60, 5)})
    yard.unit("old.cu", "kept = hold(200, 0.3); time.sleep(3)")
    yard.unit("young.cu", "kept = hold(250, 4.0, steps=80)")
    with serving(yard):
        old = yard.launch("old.cu")
        wait_for(lambda: "start old.cu" in yard.log())
        young = yard.launch("young.cu")
        assert statuses(old + young) == [0, 0]
    (record,) = [record for record in yard.records() if record.source.endswith("young.cu")]
    assert record.paused_seconds > 0.3
    assert record.ended == ""


def test_what_needs_more_than_the_whole_cap_ends_with_its_name(yards):
    yard = yards()
    yard.know(200, history={})
    yard.unit("huge.cu", "kept = hold(600, 4.0)")
    with serving(yard):
        (launcher,) = yard.launch("huge.cu")
        _, messages = launcher.communicate(timeout=60)
    assert launcher.returncode == 128 + signal.SIGKILL
    assert "huge.cu alone needs more memory" in messages
    (record,) = yard.records()
    assert record.ended == "cap"
    assert record.peak_bytes > 200 * MIB


KILL_CHILD = """\
marks = "{mark}"
if not os.path.exists(marks):
    open(marks, "w").close()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    sys.stderr.write("{text}\\n")
    sys.exit({status})
"""


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Killed", 137),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", 2),
        ("g++: fatal error: Killed signal terminated program cc1plus", 1),
    ],
)
def test_a_compiler_that_the_kernel_kills_is_repeated_alone(yards, text, status):
    yard = yards()
    yard.know(400, cpus=2, history={"a.cu": (50, 9), "b.cu": (50, 8)})
    yard.unit("a.cu", "time.sleep(1.0)")
    yard.unit("b.cu", KILL_CHILD.format(mark=yard.root / "mark", text=text, status=status))
    with serving(yard):
        launched = yard.launch("a.cu", "b.cu")
        assert statuses(launched) == [0, 0]
    attempts = [record for record in yard.records() if record.source.endswith("b.cu")]
    assert [record.ended for record in attempts] == ["kernel", ""]
    log = yard.log()
    second = len(log) - 1 - log[::-1].index("start b.cu")
    assert log.index("end a.cu") < second, "alone: nothing else runs beside it"


def test_a_compile_error_is_no_memory_error(yards):
    yard = yards()
    yard.know(400)
    yard.unit("a.cu", "sys.stderr.write('a.cu(1): error\\n'); sys.exit(2)")
    with serving(yard):
        (launcher,) = yard.launch("a.cu")
        _, messages = launcher.communicate(timeout=30)
    assert (launcher.returncode, messages) == (2, "a.cu(1): error\n")
    assert [record.ended for record in yard.records()] == [""]


def test_a_call_that_is_killed_again_and_again_fails_after_the_third_time(yards):
    yard = yards()
    yard.know(400)
    yard.unit("a.cu", "os.kill(os.getpid(), signal.SIGKILL)")
    with serving(yard):
        assert statuses(yard.launch("a.cu")) == [128 + signal.SIGKILL]
    assert [record.ended for record in yard.records()] == ["kernel"] * 3
