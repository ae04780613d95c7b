"""The live governor with real launchers: faults that really happen, and several builds at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildkit.events import SILENT
from buildkit.governor.govern import give_up, governed, read_load
from tests.fakes import processes_with, wait_for
from tests.governor.yard import Yard, load_of, machine, serving, statuses
from tests.machine import needs_other_user


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
@needs_other_user
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
