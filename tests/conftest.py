"""Fixtures that several modules share: a locked environment, and worlds that take it along."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests.world import World

# A machine under load is no fault of the code.
settings.register_profile("kit", deadline=None)
settings.load_profile("kit")

PROJECTS = Path(__file__).parent / "projects"


@pytest.fixture(scope="session")
def locked(tmp_path_factory):
    """A cache that holds the environment of the project, and the lock."""
    root = tmp_path_factory.mktemp("locked")
    shutil.copytree(PROJECTS / "toy", root / "my recipes" / "toy")
    shutil.copy(PROJECTS / "toy.toml", root / "my recipes")
    world = World(root, root / "cache")
    done = world.run("pin", "toy")
    assert done.returncode == 0, done.stderr
    done = world.make()
    assert done.returncode == 0, done.stderr
    return world


@pytest.fixture
def world(tmp_path, locked):
    shutil.copytree(locked.recipes, tmp_path / "my recipes")
    cache = tmp_path / "a cache"
    cache.mkdir()
    for shared in ("environments", "uv"):
        (cache / shared).symlink_to(locked.cache / shared)
    return World(tmp_path, cache)
