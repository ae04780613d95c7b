"""Installing what recipes make: versions that go together, and what is published."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = """\
name = "{name}"
summary = "A package in plain Python."
default-version = "1.0"
architectures = ["sm120"]
installed-imports = [{imports}]

[build]
backend = "python"
requires = ["scikit-build-core>=1.0", "cmake>=3.31", "ninja>=1.11"]
"""

#: Built by what the lock of the toy holds.
PROJECT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "{name}"
version = "1.0"
[tool.scikit-build]
wheel.cmake = false
wheel.py-api = "py3"
"""

VERSION = """
[[versions]]
version = "{version}"
source = {{ kind = "bundled", path = "{name}" }}
goes-with = {{ {goes} }}
"""


def recipe(world, name: str, *versions: tuple[str, str], imports: str = "", body: str = "") -> None:
    text = RECIPE.format(name=name, imports=imports)
    text += "".join(VERSION.format(version=v, name=name, goes=goes) for v, goes in versions)
    (world.recipes / f"{name}.toml").write_text(text)
    folder = world.recipes / name
    folder.mkdir()
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(body)
    (folder / "pyproject.toml").write_text(PROJECT.format(name=name))
    shutil.copy(world.recipes / "toy.lock", world.recipes / f"{name}.lock")


def environment_of(world) -> Path:
    root = world.root / "env of mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    return root


@pytest.mark.network
class TestRecipes:
    """What is named by a recipe is made first."""

    def test_it_is_made_installed_and_imported(self, world):
        recipe(world, "one", ("1.0", ""), imports='"one"')
        env = environment_of(world)
        args = ("install", "one", "--arch", "sm120", "--python", str(env))
        done = world.run(*args, "--no-make")
        assert done.returncode == 1
        assert "The cache holds no wheel of one 1.0 for sm120" in done.stderr
        done = world.run(*args, "--dry-run")
        assert "to make: one 1.0+k" in done.stdout
        done = world.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["imports"][0]["passed"] is True
        (wheel,) = document["wheels"]
        assert document["changes"] == [{"name": "one", "before": None, "after": wheel["version"]}]
        assert not (world.root / "dist").exists()
        done = world.run(*args, "--no-make", "--offline")
        assert done.returncode == 0, done.stderr

    def test_what_does_not_import_is_taken_back(self, world):
        recipe(world, "one", ("1.0", ""), imports='"one"', body="import nothing_of_the_kind\n")
        env = environment_of(world)
        before = sorted(str(path) for path in env.rglob("*") if path.name != ".lock")
        done = world.run("install", "one", "--arch", "sm120", "--python", str(env))
        assert done.returncode == 1
        assert "No module named 'nothing_of_the_kind'" in done.stderr
        assert sorted(str(path) for path in env.rglob("*") if path.name != ".lock") == before

    def test_versions_that_go_together_are_taken_together(self, world):
        recipe(world, "kernels", ("1.0", ""), ("2.0", ""))
        recipe(world, "serving", ("1.0", 'kernels = "2.0"'), ("3.0", 'kernels = "1.0"'))
        env = environment_of(world)
        args = ("--dry-run", "--json", "--arch", "sm120", "--python", str(env))

        def pair(*names: str) -> list[str]:
            done = world.run("install", *names, *args)
            assert done.returncode == 0, done.stderr
            rows = json.loads(done.stdout)["wheels"]
            return [row["version"].partition("+")[0] for row in rows]

        assert pair("kernels", "serving") == ["2.0", "1.0"]
        assert pair("kernels==1.0", "serving") == ["1.0", "3.0"]
        assert pair("serving==3.0", "kernels") == ["3.0", "1.0"]
        done = world.run("install", "kernels==1.0", "serving==1.0", *args)
        assert done.returncode == 2
        assert "these go together: serving 1.0 with kernels 2.0; serving 3.0 with" in done.stdout
        done = world.run("install", "serving", *args[:1], *args[2:])
        assert "serving 1.0 goes with kernels 2.0, which was not named" in done.stderr

    @pytest.mark.parametrize(
        ("names", "told"),
        [
            (("toy", "toy==1.0"), "toy was named twice"),
            (("toy==",), "Found 'toy==', allowed NAME, NAME==VERSION or the path of a wheel"),
            (("toy", "tox", "--version", "1.0"), "It is not clear of what 1.0 is the version"),
            (("nothing.whl",), "There is no wheel nothing.whl"),
            (("tyo",), "Did you mean 'toy'?"),
        ],
    )
    def test_names_that_say_nothing(self, world, names, told):
        env = environment_of(world)
        done = world.run("install", *names, "--arch", "sm120", "--python", str(env))
        assert done.returncode == (1 if names == ("nothing.whl",) else 2)
        assert told in done.stderr
