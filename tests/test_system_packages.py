"""Real packages of the distribution, for projects that need a library which is not installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from buildkit.wheels import read_provenance
from tests.conftest import PROJECTS

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get"),
    pytest.mark.skipif(Path("/usr/include/numa.h").exists(), reason="libnuma-dev is installed"),
]


@pytest.fixture
def numa(world):
    for name in ("numa-cmake", "numa-setuptools"):
        shutil.copytree(PROJECTS / name, world.recipes / name)
        shutil.copy(PROJECTS / f"{name}.toml", world.recipes)
        done = world.run("pin", name)
        assert done.returncode == 0, done.stderr
    return world


def a_make(world, name: str, *args: str):
    return world.run("make", name, "--arch", "sm120", "--out", str(world.out), *args)


def test_a_library_that_is_not_installed_is_found_by_every_way(numa, tmp_path):
    """By find_path and find_library, by pkg-config, and by the linker alone."""
    refused = a_make(numa, "numa-cmake", "--system-packages", "never")
    assert refused.returncode == 1
    assert "apt-get install libnuma-dev" in refused.stderr
    for name in ("numa-cmake", "numa-setuptools"):
        if name == "numa-setuptools":
            # setuptools takes a compiler's path apart at blanks.
            numa.cache = tmp_path / "cache"
        done = a_make(numa, name)
        assert done.returncode == 0, done.stderr
        assert "needs libnuma.so.1 of package libnuma1" in done.stderr
        packages = read_provenance(Path(done.stdout.strip()))["system_packages"]
        assert set(packages) == {"libnuma-dev", "libnuma1"}
        assert all(len(package["sha256"]) == 64 for package in packages.values())
    planned = numa.run("plan", "numa-setuptools", "--arch", "sm120", "--offline", "--json")
    document = json.loads(planned.stdout)
    assert document["cached"] is True
    assert "for the build alone from libnuma-dev" in document["system"]["notes"][-1]


def test_a_mirror_brings_the_packages(numa, tmp_path):
    mirror = str(tmp_path / "mirror")
    assert numa.run("fetch", "numa-setuptools", "--to", mirror).returncode == 0
    numa.cache = tmp_path / "other-cache"
    done = a_make(numa, "numa-setuptools", "--mirror", mirror, "--offline")
    assert done.returncode == 0, done.stderr
