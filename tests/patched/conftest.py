"""The world of the tests of patched wheels, in the place of the one for builds."""

from __future__ import annotations

import pytest

from tests.patched.world import PATCH, World
from tests.wheels.toy import a_zip, complete


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World(tmp_path)
    world.publish(a_zip(complete()))
    world.patch(two=PATCH)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{tmp_path / 'index'}")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILDKIT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("BUILDKIT_ARCH", "sm120")  # speaks of builds, and must not matter
    return world
