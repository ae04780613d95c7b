"""What ends a make early, by the command line, on a project whose compilers are real."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from buildkit.wheels import read_wheel
from tests.fakes import processes_with, wait_for
from tests.machine import needs_memory_group
from tests.world import World

pytestmark = pytest.mark.network

PROJECTS = Path(__file__).parent / "projects"


def slow(world: World, name: str = "two.c") -> Path:
    """Make one unit take until a file appears: its compiler waits on a named pipe."""
    pipe = world.root / "gate"
    os.mkfifo(pipe)
    (world.source / "src" / name).write_text(f'#include "{pipe}"\nint two(void) {{ return 2; }}\n')
    return pipe


def let_one_pass(pipe: Path) -> None:
    """Let a compiler that waits on the pipe go on, if there is one."""
    with suppress(OSError):
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    time.sleep(0.02)


def is_waiting(world: World) -> bool:
    """Tell whether ninja, too, knows that the other unit is compiled."""
    logs = (world.cache / "builds").glob("*/build/.ninja_log")
    return any("one.c" in file.read_text() for file in logs)


def test_a_unit_that_does_not_compile_shows_its_own_error(world):
    (world.source / "src" / "two.c").write_text("int two(void) { return nothing; }\n")
    done = world.make()
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert "undeclared" in done.stderr
    assert "could not compile src/two.c" in done.stderr
    assert "Traceback" not in done.stderr
    assert not world.entries()
    assert not world.out.exists()
    as_json = json.loads(world.make("--json").stdout)
    assert as_json["slug"] == "compile"
    shutil.copy(PROJECTS / "toy" / "src" / "two.c", world.source / "src" / "two.c")
    mended = world.make()
    assert mended.returncode == 0, mended.stderr
    assert world.compiled().count("one.c") == 1, "the object of the first try is taken"


def test_a_compiler_that_met_a_full_disk_is_told_so(world):
    (world.source / "src" / "two.c").write_text("#error No space left on device\n")
    done = world.make()
    assert done.returncode == 1
    assert "could not compile src/two.c" in done.stderr
    assert "The disk was full" in done.stderr


def test_after_a_compile_error_nothing_more_is_started(world):
    pipe = slow(world)
    others = [f"src/{kind}{n}.c" for n in range(20) for kind in ("bad", "waits")]
    for name in others:
        text = "int x = ;" if "bad" in name else f'#include "{pipe}"'
        (world.source / name).write_text(f"{text}\n")
    project = world.source / "CMakeLists.txt"
    project.write_text(project.read_text().replace("src/one.c", f"src/one.c {' '.join(others)}"))
    make = world.start("--jobs", "2")

    def told(text: str) -> bool:
        logs = list((world.cache / "builds").glob("*/build.log"))
        return any(text in log.read_text(errors="replace") for log in logs)

    while not told("FAILED: "):
        let_one_pass(pipe)
        assert make.poll() is None
    wait_for(lambda: told("not started, because the build has failed"), 60)
    while make.poll() is None:
        let_one_pass(pipe)
    _, shown = make.communicate()
    assert make.returncode == 1
    assert "error: expected expression" in shown
    assert re.search(r"could not compile src/bad\d+\.c", shown)
    assert len(world.compiled()) < len(others)


@needs_memory_group
def test_a_build_that_the_kernel_ends_for_memory_is_told_so(world):
    done = world.make("--memory", "6MiB", "--hard-cap", "on")
    assert done.returncode == 1
    assert "killed by signal 9" in done.stderr
    assert "may use 6.0 MiB" in done.stderr
    assert "--memory" in done.stderr


def test_a_unit_that_needs_more_than_the_cap_is_named_with_its_peak_and_the_flag(world):
    numbers = "1," * 3_000_000
    (world.source / "src" / "two.c").write_text(
        f"static const int big[] = {{{numbers}}};\nint two(void) {{ return big[1] + 1; }}\n"
    )
    done = world.make("--memory", "128MiB", "--hard-cap", "off")
    assert done.returncode == 1
    assert "src/two.c" in done.stderr
    assert "the build may use 128.0 MiB; give --memory more than that" in done.stderr
    assert "Traceback" not in done.stderr
    mended = world.make("--memory", "2GiB")
    assert mended.returncode == 0, mended.stderr
    assert world.compiled().count("one.c") == 1, "the other object is taken"


def test_a_kill_leaves_no_entry_and_the_next_make_goes_on(world):
    slow(world)
    make = world.start()
    wait_for(lambda: is_waiting(world), 60)
    make.kill()
    make.communicate()
    wait_for(lambda: not processes_with(str(world.cache)), 20)
    assert not world.entries()
    assert not world.out.exists()
    (world.root / "gate").unlink()
    (world.root / "gate").write_text("")
    done = world.make()
    assert done.returncode == 0, done.stderr
    assert world.compiled().count("one.c") == 1, "no object is compiled twice"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_every_child_and_says_so_in_one_line(world, number):
    slow(world)
    make = world.start()
    wait_for(lambda: is_waiting(world), 60)
    make.send_signal(number)
    _, told = make.communicate(timeout=60)
    assert make.returncode == 130
    assert told.strip().splitlines()[-1] == "buildkit: interrupted"
    wait_for(lambda: not processes_with(str(world.cache)), 20)
    assert not (world.slot / "tmp").exists()
    assert json.loads((world.slot / "governed.json").read_text())["status"] == "failed"


def test_the_second_of_two_makes_waits_and_takes_the_result(world):
    slow(world)
    first = world.start()
    wait_for(lambda: is_waiting(world), 60)
    second = world.start("--json")
    time.sleep(1)
    assert second.poll() is None
    with (world.root / "gate").open("w"):
        pass
    _, told = first.communicate(timeout=120)
    assert first.returncode == 0, told
    other, told = second.communicate(timeout=120)
    assert second.returncode == 0, told
    assert json.loads(other)["cached"] is True
    assert world.compiled().count("two.c") == 1
    assert len(world.entries()) == 1


def test_a_wheel_that_fails_its_check_is_not_kept(world):
    (world.source / "toy" / "__init__.py").write_text("import no_such_module\n")
    done = world.make()
    assert done.returncode == 1
    assert "No module named 'no_such_module'" in done.stderr
    assert not world.entries()
    assert not world.out.exists()


def test_going_on_from_a_step_that_never_was_is_refused(world):
    for step in ("build", "verify"):
        done = world.make("--from-step", step)
        assert done.returncode == 2, done.stderr
        assert "Leave" in done.stderr


def test_a_damaged_cache_entry_is_built_again(world):
    world.make()
    (entry,) = world.entries()
    (wheel,) = entry.parent.glob("*.whl")
    wheel.write_bytes(b"damaged")
    done = world.make("--json")
    assert json.loads(done.stdout)["cached"] is False
    read_wheel(Path(json.loads(done.stdout)["wheel"]))


def test_an_output_that_is_no_directory_is_refused_and_the_wheel_is_kept(world):
    world.out.write_text("a file")
    done = world.make()
    assert done.returncode == 1
    assert "Output directory" in done.stderr
    assert len(world.entries()) == 1
    assert world.out.read_text() == "a file"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["make", "toy"], "No GPU target was named"),
        (["make", "toy", "--arch", "sm12"], "GPU target"),
        (["make", "toy", "--arch", "sm90"], "does not support sm90"),
        (["make", "tow", "--arch", "sm120"], "Did you mean 'toy'"),
        (["make", "toy", "--arch", "sm120", "--version", "2"], "no version '2'"),
        (["make", "toy", "--arch", "sm120", "--jobs", "0"], "from 1 to 4096"),
        (["make", "toy", "--arch", "sm120", "--memory", "lots"], "size such as 12GiB"),
        (["make", "toy", "--arch", "sm120", "--with", "!!"], "allowed a requirement"),
        (["make", "toy", "--arch", "sm120", "--env", "/none"], "no interpreter"),
        (["make", "toy", "--arch", "sm120", "--recipes", "/none"], "directory of recipes"),
        (["mak", "toy"], "Did you mean 'make'"),
        (["show", "./none.toml"], "no such file"),
        (["pin", "none"], "no recipe 'none'"),
    ],
)
def test_wrong_input_is_one_clear_error_with_status_2(world, args, told):
    done = world.run(*args)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_that_does_not_exist_fails_the_job(world):
    done = world.make("--python", "/no/such/python")
    assert done.returncode == 1
    assert "no such interpreter" in done.stderr


def test_a_cache_that_cannot_be_written_is_told(world):
    blocked = world.root / "blocked"
    blocked.write_text("a file")
    done = world.make(BUILDKIT_CACHE=str(blocked / "cache"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "foresee" not in done.stderr
