"""The output directory of ``make --from wheel``: a whole wheel or none, whatever happens."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time

import pytest

import buildkit.patched as story
from buildkit.digest import digest_file
from tests.machine import needs_no_root
from tests.patched.world import World
from tests.wheels.toy import a_zip, complete


def test_an_output_directory_that_cannot_be_is_told(world, capsys):
    world.out.write_text("a file")
    assert world.make() == 1
    assert "cannot be written to" in capsys.readouterr().err


@needs_no_root
def test_a_read_only_output_directory_is_told(world, capsys):
    world.out.mkdir(mode=0o555)
    assert world.make() == 1
    assert "Permission denied" in capsys.readouterr().err


def large(world: World, size_bytes: int) -> None:
    contents = complete(**{"toy_x/large.bin": os.urandom(1 << 20) * (size_bytes >> 20)})
    world.publish(a_zip(contents))


def test_a_full_disk_leaves_nothing(world):
    large(world, 4 << 20)
    assert world.make() == 0  # fetched; from here on the limit hits the new wheel alone
    world.result().unlink()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run(
        world.command(),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot be written to" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(world.out.iterdir()) == []


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_at_any_moment_there_is_a_whole_wheel_or_none(world, blow):
    large(world, 64 << 20)
    assert world.make() == 0
    expected = digest_file(world.result())
    name = world.result().name
    world.result().unlink()
    process = subprocess.Popen(
        world.command(),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while process.poll() is None:
        if any(file.stat().st_size > 1 << 20 for file in world.out.iterdir()):
            process.send_signal(blow)
            break
        time.sleep(0.001)
    process.wait()
    for file in world.out.glob("*.whl"):
        assert digest_file(file) == expected
    assert world.make() == 0
    assert world.result() == world.out / name  # what a killed make left is gone
    assert digest_file(world.result()) == expected


def test_the_second_of_two_makes_at_once_takes_the_first_one_s_wheel(world):
    large(world, 32 << 20)
    command = world.command("--json")
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [json.loads(process.communicate()[0]) for process in both]
    assert sorted(document["cached"] for document in told) == [False, True]
    assert told[0]["sha256"] == told[1]["sha256"] == digest_file(world.result())


def test_interrupted_within_the_writing_nothing_is_left(world, monkeypatch):
    def interrupted(wheel, target, changes, **values):
        target.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(story, "respin_wheel", interrupted)
    assert world.make() == 130
    assert list(world.out.iterdir()) == []
