"""The twin of sgl-kernel, made once for all tests of it."""

from __future__ import annotations

import shutil
import tomllib

import pytest
import tomlkit

from tests.sgl_kernel.twin import MAKE, Twin, read_recipe, serve, write_recipe
from tests.world import World


@pytest.fixture(scope="session")
def twin(tmp_path_factory, locked):
    root = tmp_path_factory.mktemp("twin")
    world = World(root, root / "cache")
    world.cache.mkdir()
    (world.cache / "uv").symlink_to(locked.cache / "uv")
    with serve(root / "server") as served:
        write_recipe(read_recipe(), served, world)
        pinned = world.run("pin", "sgl-kernel")
        assert pinned.returncode == 0, pinned.stderr
        made = world.run(*MAKE)
        assert made.returncode == 0, made.stderr
        yield Twin(served, world, made)


@pytest.fixture(scope="session")
def warm(twin, tmp_path_factory):
    """A CMake that knows its compilers: to find them takes most of a configuration's time."""
    root = tmp_path_factory.mktemp("warm")
    cmake = twin.cmake(root / "work")
    lists = cmake.source / "CMakeLists.txt"
    text = lists.read_text()
    lists.write_text("cmake_minimum_required(VERSION 3.26)\nproject(x LANGUAGES CXX CUDA)\n")
    found = cmake.configure(without=".*")
    assert found.status == 0, found.errors
    lists.write_text(text)
    shutil.copytree(root / "work", root / "kept")
    return cmake


@pytest.fixture
def cmake(warm):
    """The same at its beginning, where it was: a build directory cannot be moved."""
    work = warm.build.parent
    shutil.rmtree(work)
    shutil.copytree(work.parent / "kept", work)
    return warm


@pytest.fixture
def numa(tmp_path):
    """As much of libnuma as CMake looks for."""
    for name in ("include/numa.h", "lib/libnuma.so"):
        file = tmp_path / "numa" / name
        file.parent.mkdir(parents=True)
        file.touch()
    return tmp_path / "numa"


@pytest.fixture
def another(twin, tmp_path):
    """A world over the same sources in which recipe and project can be changed."""
    world = World(tmp_path, tmp_path / "cache")
    world.cache.mkdir()
    for shared in ("environments", "git", "uv"):
        (world.cache / shared).symlink_to(twin.world.cache / shared)
    shutil.copytree(twin.world.recipes, world.recipes)
    shutil.copytree(twin.served.upstream, tmp_path / "upstream")
    recipe = tomllib.loads((world.recipes / "sgl-kernel.toml").read_text())
    recipe["versions"][0]["source"] = {"kind": "local", "path": "../upstream"}
    (world.recipes / "sgl-kernel.toml").write_text(tomlkit.dumps(recipe))
    return world
