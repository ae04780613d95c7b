"""The live governor with real launchers: order, cap, pressure, and faults that really happen."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from buildkit.events import SILENT
from buildkit.governor.govern import give_up, governed, read_load
from buildkit.governor.ledger import Load
from buildkit.launcher import binary
from tests.fakes import processes_with
from tests.governor.yard import MIB, Yard, machine, statuses, wait_for


@pytest.fixture
def yards(tmp_path):
    """Make yards under one governor's directory, whose path no socket address could hold."""
    made: list[Yard] = []
    governor = tmp_path / ("a long directory" * 8) / "governor"

    def make(name: str = "build", **changes: int) -> Yard:
        yard = Yard(root=tmp_path / name, governor=governor, name=name, **changes)
        made.append(yard)
        return yard

    yield make
    for yard in made:
        yard.clear()


def load_of(yard: Yard) -> Load:
    """Ask how a yard's build is doing; while no governor answers, nothing runs."""
    load = read_load(yard.governor, str(yard.root / "knowledge.json"))
    nothing = Load(running=0, paused=0, waiting=-1, held_bytes=0, cap_bytes=1, seconds_left=0.0)
    return load or nothing


@contextmanager
def serving(yard: Yard, mib: int = 4096, cpus: int = 4, headroom: int = 1 << 40):
    with governed(yard.governor, machine(mib, cpus), events=SILENT, headroom=lambda: headroom):
        wait_for(lambda: read_load(yard.governor, "x") is not None)
        yield


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


# --- faults ---------------------------------------------------------------------------------------


def governor_process(yard: Yard, mib: int = 4096) -> subprocess.Popen[bytes]:
    """Start a governor in a process of its own, that a test may kill."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from buildkit.events import SILENT\n"
        "from buildkit.governor.govern import governed\n"
        "from tests.governor.yard import machine\n"
        f"with governed(Path(sys.argv[1]), machine({mib}), events=SILENT,\n"
        "              headroom=lambda: 1 << 40):\n"
        "    time.sleep(120)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(yard.governor)], cwd=Path(__file__).parents[2]
    )
    wait_for(lambda: read_load(yard.governor, "x") is not None)
    return process


def test_without_a_governor_the_slots_hold(yards):
    yard = yards(slots=2)
    yard.know(400, cpus=8)
    names = [f"{number}.cu" for number in range(6)]
    for name in names:
        yard.unit(name, "time.sleep(0.3)")
    assert statuses(yard.launch(*names)) == [0] * 6
    assert 1 <= yard.most_at_once() <= 2


def test_where_no_directory_can_be_the_calls_run_one_by_one(yards, tmp_path):
    yard = yards()
    (tmp_path / "file").write_text("")
    yard.governor = tmp_path / "file" / "governor"
    yard.know(400, cpus=8)
    names = [f"{number}.cu" for number in range(3)]
    for name in names:
        yard.unit(name, "time.sleep(0.3)")
    assert statuses(yard.launch(*names)) == [0] * 3
    assert yard.most_at_once() == 1


def test_a_killed_governor_leaves_no_call_waiting_and_no_stampede(yards):
    yard = yards(slots=2)
    yard.know(400, cpus=2)
    names = [f"{number}.cu" for number in range(8)]
    for name in names:
        yard.unit(name, "time.sleep(0.4)")
    process = governor_process(yard)
    launched = yard.launch(*names)
    wait_for(lambda: len(yard.log()) >= 2)
    process.kill()
    process.wait()
    assert statuses(launched) == [0] * 8
    assert yard.most_at_once() <= 2


def test_a_killed_governor_leaves_no_call_paused(yards):
    yard = yards()
    yard.know(400, history={"old.cu": (230, 9), "young.cu": (60, 5)})
    yard.unit("old.cu", "kept = hold(200, 0.3); time.sleep(20)")
    yard.unit("young.cu", "kept = hold(250, 4.0, steps=80)")
    process = governor_process(yard)
    old = yard.launch("old.cu")
    wait_for(lambda: "start old.cu" in yard.log())
    young = yard.launch("young.cu")
    wait_for(
        lambda: (
            (load := read_load(yard.governor, str(yard.root / "knowledge.json"))) is not None
            and (load.paused or len(yard.records()) > 0)
        )
    )
    process.kill()
    process.wait()
    assert statuses(young) == [0], "long before the one for whose sake it was paused"
    assert old[0].poll() is None


def test_the_next_governor_takes_over_what_runs_and_what_waits(yards):
    yard = yards(slots=4)
    yard.know(400, cpus=1, history={f"{number}.cu": (50, 9.0 - number) for number in range(4)})
    names = [f"{number}.cu" for number in range(4)]
    for name in names:
        yard.unit(name, "time.sleep(1.0)")
    first = governor_process(yard)
    launched = yard.launch(*names)
    wait_for(lambda: "start 0.cu" in yard.log())
    with governed(yard.governor, machine(4096), events=SILENT, headroom=lambda: 1 << 40):
        time.sleep(0.3)  # it waits for the first one to end
        first.kill()
        first.wait()
        wait_for(lambda: load_of(yard).running == 1)
        assert statuses(launched) == [0] * 4
    assert yard.most_at_once() == 1, "the running call was counted by the second governor"


def test_ctrl_z_of_the_make_that_serves_holds_up_no_other(yards):
    yard = yards()
    yard.know(400, cpus=1)
    yard.unit("a.cu", "pass")
    yard.unit("b.cu", "pass")
    first = governor_process(yard)
    try:
        with governed(yard.governor, machine(4096), events=SILENT, headroom=lambda: 1 << 40):
            first.send_signal(signal.SIGTSTP)
            os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
            assert statuses(yard.launch("a.cu"), 30) == [0]
            first.send_signal(signal.SIGCONT)
        wait_for(lambda: read_load(yard.governor, "x") is not None)
        assert statuses(yard.launch("b.cu"), 30) == [0]
        assert all(record.ended == "" for record in yard.records())
    finally:
        first.kill()
        first.wait()


def test_a_killed_launcher_takes_its_whole_compiler_along(yards):
    yard = yards()
    yard.know(400, cpus=1)
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    yard.unit(
        "a.cu",
        f"subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', {mark!r}])",
    )
    yard.unit("b.cu", "pass")
    with serving(yard):
        (first,) = yard.launch("a.cu")
        wait_for(lambda: processes_with(mark))
        (second,) = yard.launch("b.cu")
        first.kill()
        wait_for(lambda: not processes_with(mark), 10)
        assert statuses([second]) == [0], "its slot is free again"


def test_a_stopped_compiler_hears_ctrl_c(yards):
    yard = yards()
    yard.know(400)
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    yard.unit(
        "a.cu", f"subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', {mark!r}])"
    )
    with serving(yard):
        (launcher,) = yard.launch("a.cu")
        wait_for(lambda: processes_with(mark))
        for pid in processes_with(mark):
            os.kill(int(pid), signal.SIGSTOP)
        launcher.send_signal(signal.SIGTERM)
        assert statuses([launcher], 10) == [128 + signal.SIGTERM]
        wait_for(lambda: not processes_with(mark), 10)


def test_a_waiting_launcher_ends_at_once(yards):
    yard = yards()
    yard.know(400, cpus=1, history={"a.cu": (300, 9), "b.cu": (300, 8)})
    yard.unit("a.cu", "time.sleep(2)")
    yard.unit("b.cu", "pass")
    with serving(yard):
        first = yard.launch("a.cu")
        wait_for(lambda: "start a.cu" in yard.log())
        (second,) = yard.launch("b.cu")
        wait_for(lambda: load_of(yard).waiting == 1)
        second.send_signal(signal.SIGTERM)
        assert statuses([second], 5) == [-signal.SIGTERM]
        wait_for(lambda: load_of(yard).waiting == 0)
        assert statuses(first) == [0]


def test_a_build_that_has_failed_starts_nothing_more(yards):
    yard, other = yards(), yards("other")
    gate = yard.root / "gate"
    for one in (yard, other):
        one.know(400, cpus=1, history={"a.cu": (300, 9), "b.cu": (300, 8), "c.cu": (300, 7)})
        one.unit("a.cu", f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)")
        one.unit("b.cu", "pass")
        one.unit("c.cu", "pass")
    with serving(yard, mib=400):
        running = yard.launch("a.cu")
        wait_for(lambda: "start a.cu" in yard.log())
        waiting = yard.launch("b.cu", "c.cu")
        others = other.launch("b.cu")
        wait_for(lambda: load_of(yard).waiting == 2 and load_of(other).waiting == 1)
        give_up(yard.governor, str(yard.root / "knowledge.json"))
        messages = [launcher.communicate(timeout=20)[1] for launcher in waiting]
        assert [launcher.returncode for launcher in waiting] == [1, 1]
        assert all("the build has failed" in text for text in messages)
        gate.touch()
        assert statuses(running + others) == [0, 0]
    assert yard.log() == ["start a.cu", "end a.cu"]
    assert len(yard.records()) == 1


# --- several builds -------------------------------------------------------------------------------


def test_two_builds_share_one_budget_and_each_keeps_its_own_limit(yards):
    wide, narrow = yards("wide"), yards("narrow")
    wide.know(1000, cpus=3, history={f"{n}.cu": (100, 5) for n in range(4)})
    narrow.know(120, cpus=3, history={f"{n}.cu": (100, 5) for n in range(4)})
    for yard in (wide, narrow):
        for number in range(4):
            yard.unit(f"{number}.cu", "time.sleep(0.5)")
    names = [f"{number}.cu" for number in range(4)]
    with serving(wide, mib=1000, cpus=3):
        assert statuses(wide.launch(*names) + narrow.launch(*names)) == [0] * 8
    assert narrow.most_at_once() == 1
    assert 1 <= wide.most_at_once() <= 3


REPORT = """\
import os, socket, sys
folder = os.open(sys.argv[1], os.O_PATH)
peer = socket.socket(socket.AF_UNIX)
peer.connect(f"/proc/self/fd/{folder}/socket")
peer.sendall(b"report\\tx\\n")
print(peer.recv(1000))
"""


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs to become another user"
)
def test_another_user_is_not_served(yards, tmp_path):
    yard = yards()
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o755)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    answers = []
    with serving(yard):
        yard.governor.parent.chmod(0o777)
        yard.governor.chmod(0o777)
        (yard.governor / "socket").chmod(0o777)
        for become in ([], other):
            command = [*become, "/usr/bin/python3", "-c", REPORT, yard.governor]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
            answers.append(done.stdout + done.stderr)
    assert '"waiting": 0' in answers[0]
    assert "waiting" not in answers[1]
    assert "PermissionError" not in answers[1], "the governor refused, not the file system"


# --- build tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("ninja", ["-v", "-j", "4"], ["-j64", "-v"]),
        ("ninja", ["-C", "build", "-j4", "-l", "2.5", "all"], ["-j64", "-C", "build", "all"]),
        ("make", ["-j", "install"], ["-j64", "install"]),
        ("make", ["--jobs=8", "--load-average=3", "-k"], ["-j64", "-k"]),
        ("make", ["-j4", "--", "-j9"], ["-j64", "--", "-j9"]),
    ],
)
def test_a_build_tool_offers_as_many_calls_as_the_governor_wants(tmp_path, tool, given, expected):
    real = tmp_path / f"real {tool}"
    real.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    real.chmod(0o755)
    (tmp_path / "launch.conf").write_text(f"tool {tool}\t{real}\njobs 64\n")
    (tmp_path / tool).symlink_to(binary("bk-launch"))
    done = subprocess.run(
        [tmp_path / tool, *given],
        env={"BK_LAUNCH_CONFIG": str(tmp_path / "launch.conf")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == expected
