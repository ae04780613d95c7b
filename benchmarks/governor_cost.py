"""What the governor costs: the wait of a call that fits, calls that do nothing, a call that waits.

Three parts, each with its own figures from this run: the time from ``ask`` to ``start`` while a
thousand other calls wait and the running ones tell their memory ten times a second; a build of
calls that do nothing under ninja, bare, through bk-launch, and through bk-launch and the governor;
memory and processes of calls that wait. Run: ``python benchmarks/governor_cost.py [--calls 5000]``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from buildkit.arch import parse_arch
from buildkit.environ import base_environment
from buildkit.events import SILENT
from buildkit.governor.capacity import Capacity, read_capacity
from buildkit.governor.estimate import Measured, Prior, UnitKey
from buildkit.governor.govern import governed, offered_jobs
from buildkit.governor.jobs import Limit
from buildkit.governor.knowledge import Knowledge
from buildkit.launcher import Admission, binary, render_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GIB = 1 << 30
CPUS = 192
TARGET_SECONDS = 0.003

#: The cap of the first part, nearly all of it held by the calls that run.
CAP = 400 * GIB


class Launcher:
    """What bk-launch says, without the process."""

    def __init__(self, folder: Path, source: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder / "socket"))
        knowledge = folder / "knowledge"
        self.say(f"ask\t{knowledge}\t{source}\t{source}.o\tf\tcuda\t1\t0")

    def say(self, line: str) -> None:
        """Send a line."""
        self.socket.sendall(line.encode() + b"\n")

    def hear(self) -> bytes:
        """Return what comes next."""
        return self.socket.recv(64)


def knowledge_of(running: int, waiting: int) -> Knowledge:
    """Return what makes the running calls fill the cap but for a little, for a long time."""

    def known(peak: int, seconds: float) -> list[Measured]:
        return [Measured(peak_bytes=int(peak / 1.1), seconds=seconds)]

    return Knowledge(
        limit=Limit(memory_bytes=CAP, cpus=CPUS),
        roots=(),
        history={
            UnitKey("runs.cu", "f"): known((CAP - GIB) // running, 3600.0),
            UnitKey("small.cu", "f"): known(GIB // 4, 1.0),
            **{UnitKey(f"waits/{i}.cu", "f"): known(6 * GIB, 60.0 + i) for i in range(waiting)},
        },
        profile={},
        priors={
            "cuda": Prior(peak_bytes=6 * GIB, seconds=90.0),
            "c++": Prior(peak_bytes=GIB, seconds=20.0),
            "link": Prior(peak_bytes=GIB, seconds=5.0),
        },
    )


def serve(folder: Path, capacity: Capacity) -> None:
    """Govern in a process of its own until it is ended; headroom is read as in a real build."""
    from buildkit.governor.capacity import read_headroom

    with governed(folder, capacity, events=SILENT, headroom=lambda: read_headroom() and 2 * CAP):
        threading.Event().wait()


@contextmanager
def a_governor(folder: Path, capacity: Capacity) -> Iterator[multiprocessing.Process]:
    """Yield the process of a governor that serves."""
    server = multiprocessing.Process(target=serve, args=(folder, capacity), daemon=True)
    server.start()
    while not (folder / "socket").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    try:
        yield server
    finally:
        server.kill()
        server.join()


def answer_times(folder: Path, *, waiting: int, running: int, samples: int) -> list[float]:
    """Return the seconds from ``ask`` to ``start``."""
    (folder / "knowledge").write_text(knowledge_of(running, waiting).render())
    capacity = Capacity(
        memory_bytes=CAP, memory_source="", reserve_bytes=0, cpus=CPUS, cpu_source=""
    )
    with a_governor(folder, capacity) as server, ExitStack() as open_sockets:

        def launcher(source: str) -> Launcher:
            made = Launcher(folder, source)
            open_sockets.enter_context(closing(made.socket))
            return made

        runs = [launcher("runs.cu") for _ in range(running)]
        for run in runs:
            run.hear()
            run.say("began")
        for number in range(waiting):
            launcher(f"waits/{number}.cu")
        over = threading.Event()
        teller = threading.Thread(target=tell, args=(runs, over))
        teller.start()
        time.sleep(1.0)
        before = cpu_seconds(server.pid)
        started = time.monotonic()
        times = [answer_time(folder) for _ in range(samples)]
        share = (cpu_seconds(server.pid) - before) / (time.monotonic() - started)
        over.set()
        teller.join()
        print(f"  the governor took {share:.0%} of a CPU meanwhile")
    return times


def tell(runs: Sequence[Launcher], over: threading.Event) -> None:
    """Tell the memory of each running call ten times a second, as bk-launch does."""
    pause = 0.1 / len(runs)
    for turn, run in cycle(enumerate(runs)):
        if over.wait(pause):
            return
        held = (GIB // 2) + (8 << 20) * ((turn + int(time.monotonic() * 10)) % 2)
        run.say(f"rss\t{held}")


def answer_time(folder: Path) -> float:
    """Let one call that fits come, run and end; return how long it waited."""
    call = Launcher.__new__(Launcher)
    started = time.perf_counter()
    call.__init__(folder, "small.cu")
    if call.hear() != b"start\n":
        raise SystemExit("The governor did not start a call that fits.")
    waited = time.perf_counter() - started
    call.say("began")
    call.say("end\t0\t1000\t0.001")
    call.socket.close()
    time.sleep(0.01)
    return waited


def cpu_seconds(pid: int | None) -> float:
    """Return what a process has used of the CPUs. Source: proc(5), "stat"."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- calls that do nothing -----------------------------------------------------------------------


def write_build(folder: Path, calls: int, command: str) -> None:
    """Write a ninja file of so many calls."""
    lines = ["rule cc", f"  command = {command} -c $out.c -o $out"]
    lines += [f"build {number}.o: cc" for number in range(calls)]
    (folder / "build.ninja").write_text("\n".join([*lines, ""]))


def build_seconds(folder: Path, jobs: int, config: Path | None) -> float:
    """Return how long ninja takes."""
    env = base_environment(os.environ)
    if config is not None:
        env = {**env, "BK_LAUNCH_CONFIG": str(config)}
    started = time.perf_counter()
    subprocess.run(
        [str(shutil.which("ninja")), "-C", str(folder), "--quiet", f"-j{jobs}"],
        env=env,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def write_config(folder: Path, admission: Admission | None) -> Path:
    """Write what bk-launch is told."""
    file = folder / "launch.conf"
    text = render_config(
        target=parse_arch("sm120"),
        without_code="keep",
        rules=(),
        tools={},
        records=folder / "records",
        admission=admission,
    )
    file.write_text(text)
    return file


def admission_in(folder: Path, capacity: Capacity) -> Admission:
    """Return the admission to the governor in a folder."""
    return Admission(
        folder=folder,
        knowledge=folder / "knowledge",
        slots=capacity.cpus,
        cap_bytes=capacity.cap_bytes,
        jobs=offered_jobs(capacity),
    )


def trivial_calls(folder: Path, calls: int) -> None:
    """Print what calls that do nothing take, in three ways."""
    capacity = read_capacity()
    jobs = offered_jobs(capacity)
    nothing = str(shutil.which("true"))
    write_build(folder, calls, nothing)
    seconds = {"bare": build_seconds(folder, jobs, None)}
    write_build(folder, calls, f"{binary('bk-launch')} {nothing}")
    seconds["bk-launch"] = build_seconds(folder, jobs, write_config(folder, None))
    (folder / "knowledge").write_text(a_knowledge(capacity).render())
    config = write_config(folder, admission_in(folder, capacity))
    with governed(folder, capacity, events=SILENT):
        seconds["bk-launch, governor"] = build_seconds(folder, jobs, config)
    print(f"{calls} calls that do nothing, ninja -j{jobs}, {capacity.cpus} CPUs")
    for name, taken in seconds.items():
        ratio = taken / seconds["bare"]
        print(f"  {name:20} {taken:6.2f} s {taken / calls * 1e3:6.2f} ms per call {ratio:5.2f}")


def a_knowledge(capacity: Capacity) -> Knowledge:
    """Return what is known of a build that nobody has built."""
    known = knowledge_of(1, 0)
    limit = Limit(memory_bytes=capacity.cap_bytes, cpus=capacity.cpus)
    return Knowledge(limit=limit, roots=(), history={}, profile={}, priors=known.priors)


# --- calls that wait -----------------------------------------------------------------------------


def waiting_calls(folder: Path, calls: int) -> None:
    """Print what a call costs that waits under ninja."""
    capacity = read_capacity()
    write_build(folder, calls, f"{binary('bk-launch')} true")
    config = write_config(folder, admission_in(folder, capacity))
    (folder / "socket").unlink(missing_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as deaf:
        deaf.bind(str(folder / "socket"))
        deaf.listen(calls)
        ninja = subprocess.Popen(
            [str(shutil.which("ninja")), "-C", str(folder), "--quiet", f"-j{calls}"],
            env={**base_environment(os.environ), "BK_LAUNCH_CONFIG": str(config)},
            stdout=subprocess.DEVNULL,
        )
        time.sleep(2.0 + calls / 200)
        below = [int(pid) for pid in descendants(ninja.pid)]
        pss = sum(figure(pid, "smaps_rollup", "Pss") for pid in below)
        tables = sum(figure(pid, "status", "VmPTE") for pid in below)
        ninja.kill()
        ninja.wait()
    print(f"{calls} calls that wait, each")
    print(f"  {pss / calls:.0f} KiB of memory and {tables / calls:.0f} KiB of page tables")
    print(f"  {len(below) / calls:.2f} processes")


def descendants(pid: int) -> Iterator[str]:
    """Yield the processes below one. Source: proc(5)."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield child
        yield from descendants(int(child))


def figure(pid: int, file: str, key: str) -> int:
    """Return a figure of a process in KiB."""
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=200)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as name:
        for running in (1, 64):
            folder = Path(name) / f"running-{running}"
            folder.mkdir()
            print(f"from ask to start, {given.waiting} wait, {running} run")
            times = answer_times(
                folder, waiting=given.waiting, running=running, samples=given.samples
            )
            usual, late = median(times), quantiles(times, n=20)[-1]
            verdict = "within" if usual <= TARGET_SECONDS else "above"
            print(f"  median {usual * 1e3:.2f} ms, 95 % {late * 1e3:.2f} ms: {verdict} 3 ms")
        (Path(name) / "calls").mkdir()
        trivial_calls(Path(name) / "calls", given.calls)
        (Path(name) / "waits").mkdir()
        waiting_calls(Path(name) / "waits", 200)


if __name__ == "__main__":
    main()
