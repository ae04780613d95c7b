"""A make that pushes and another that pulls, by the command line, on real compilers."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.world import World

pytestmark = pytest.mark.network


@pytest.fixture
def other(world, tmp_path):
    """Another cache, with the same recipes: another machine."""
    cache = tmp_path / "another cache"
    cache.mkdir()
    for shared in ("environments", "uv"):
        (cache / shared).symlink_to(world.cache / shared)
    return World(world.root, cache)


@pytest.fixture
def remote(tmp_path):
    (tmp_path / "shared wheels").mkdir()
    return tmp_path / "shared wheels"


def test_one_machine_makes_the_wheel_and_another_takes_it(world, other, remote):
    settings = {"BUILDKIT_REMOTE": str(remote), "BUILDKIT_REMOTE_MODE": "read-write"}
    first = world.make(**settings)
    assert first.returncode == 0, first.stderr
    assert "push " in first.stderr
    shutil.rmtree(world.out)
    plan = json.loads(other.run("plan", "toy", "--arch", "sm120", "--json", **settings).stdout)
    assert (plan["cached"], plan["origin"]) == (False, remote.as_uri())
    second = other.make("--json", **settings)
    assert second.returncode == 0, second.stderr
    document = json.loads(second.stdout)
    assert (document["cached"], document["origin"]) == (True, remote.as_uri())
    assert not (other.cache / "builds" / "build.log").exists()
    shown = other.run("plan", "toy", "--arch", "sm120").stdout
    assert f"(from {remote.as_uri()})" in shown


def test_offline_never_asks_and_a_remote_that_is_gone_is_one_warning(world, remote):
    gone = {"BUILDKIT_REMOTE": str(remote / "gone"), "BUILDKIT_REMOTE_MODE": "read-write"}
    silent = world.make("--offline", **gone)
    assert silent.returncode == 0, silent.stderr
    assert "remote" not in silent.stderr
    shutil.rmtree(world.cache / "wheels")
    told = world.make(**gone)
    assert told.returncode == 0, told.stderr
    assert told.stderr.count("The remote ") == 1
    assert "no such file or directory" in told.stderr


def test_a_secret_in_the_address_ends_the_command_and_reaches_no_output(world):
    done = world.make("--remote", "https://ann:hunter2@host/x")
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr
