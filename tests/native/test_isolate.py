"""bk-isolate, the built program; what a system does not allow is skipped by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from buildkit.launcher import Isolation, binary, isolated, probe_isolation
from buildkit.run import ProcessRunner
from tests.fakes import processes_with, wait_for
from tests.machine import (
    HAS_NETWORK_NAMESPACE,
    HAS_PID_NAMESPACE,
    needs_network_namespace,
    needs_pid_namespace,
)

ENV = {"PATH": os.environ["PATH"]}

CONNECT = """\
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), timeout=5)
print(sorted(name for _, name in socket.if_nameindex()))
"""


def run(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary("bk-isolate"), *args],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_what_the_system_allows_is_found():
    found = probe_isolation(ProcessRunner(), ENV)
    assert found == Isolation(network=HAS_NETWORK_NAMESPACE, pid=HAS_PID_NAMESPACE)


@needs_network_namespace
def test_only_the_loopback_is_there_and_it_works():
    done = run("--no-network", "--", sys.executable, "-c", CONNECT)
    assert (done.returncode, done.stdout) == (0, "['lo']\n"), done.stderr


@needs_network_namespace
def test_a_file_system_socket_works_across(tmp_path):
    import socket

    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        done = run(
            *("--no-network", "--", sys.executable, "-c"),
            f"import socket; socket.socket(socket.AF_UNIX).connect({path!r}); print('ok')",
        )
    assert done.stdout == "ok\n", done.stderr


@pytest.mark.parametrize("flags", [[], ["--no-network"], ["--no-network", "--pid"]])
def test_status_and_arguments_are_passed_on(flags):
    done = run(*flags, "--best-effort", "--", "sh", "-c", "echo $1; exit 7", "sh", "a b")
    assert (done.returncode, done.stdout) == (7, "a b\n")


@needs_pid_namespace
def test_a_signal_of_the_command_shows_in_the_status():
    done = run("--pid", "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL


@needs_pid_namespace
def test_everything_ends_when_the_program_is_killed(tmp_path):
    mark = f"{time.time_ns()}"
    keeper = subprocess.Popen(
        [
            *(binary("bk-isolate"), "--pid", "--", sys.executable, "-c"),
            "import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(100)",
            mark,
        ],
        env=ENV,
    )
    wait_for(lambda: len(processes_with(mark)) >= 3)
    keeper.kill()
    keeper.wait()
    wait_for(lambda: not processes_with(mark))


@pytest.mark.parametrize("flags", [[], ["--no-network", "--best-effort"]])
def test_without_a_process_namespace_nothing_outlives_the_parent(flags):
    mark = f"{time.time_ns()}"
    stubborn = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(100)"
    )
    command = [str(binary("bk-isolate")), *flags, "--", sys.executable, "-c", stubborn, mark]
    starter = f"import subprocess; subprocess.run({command!r})"
    parent = subprocess.Popen([sys.executable, "-c", starter], env=ENV)
    wait_for(lambda: len(processes_with(mark)) >= 4)
    parent.kill()
    parent.wait()
    wait_for(lambda: not processes_with(mark))


def test_what_a_command_leaves_behind_ends_with_it():
    mark = f"{time.time_ns()}"
    code = "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(100)"
    assert run("--", sys.executable, "-c", code, mark).returncode == 0
    assert processes_with(mark) == []


def test_wrong_use_is_told():
    assert run().returncode == 2
    assert run("--nonsense", "--", "true").returncode == 2
    assert run("--", "/no/such/program").returncode == 127


def test_the_command_line_follows_what_is_possible():
    line = isolated(["a"], Isolation(network=False, pid=False))
    assert line == [str(binary("bk-isolate")), "--", "a"]
    line = isolated(["a"], Isolation(network=True, pid=False))
    assert line == [str(binary("bk-isolate")), "--no-network", "--", "a"]
