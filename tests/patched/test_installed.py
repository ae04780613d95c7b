"""A patched wheel in an environment: what the kit knows of it there; a real pip."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from buildkit.cli.app import run
from tests.patched.world import PATCH
from tests.programs import pip


@pytest.fixture
def installed(world):
    """An environment with the patched wheel in it."""
    assert world.make() == 0
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", world.root / "env"], check=True)
    python = world.root / "env" / "bin" / "python"
    pip("--python", str(python), "install", "-q", "--no-index", world.result())
    (site,) = (world.root / "env" / "lib").glob("python*/site-packages")
    return site, python


def test_an_installed_patched_wheel_is_known_as_applied(world, installed, capsys):
    site, python = installed
    where = ["--python", str(world.root / "env"), "--patches", str(world.patches.parent)]
    assert "No broken requirements" in pip("--python", str(python), "check")
    capsys.readouterr()
    # The package is toy_x, its project toy-x: both names find it.
    assert run(["patch", "status", "toy-x", *where]) == 0
    assert "applied (two): they came with the wheel" in capsys.readouterr().out
    assert run(["patch", "apply", "toy-x", "--installed", *where]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert run(["patch", "revert", "toy-x", *where[:2]]) == 1
    assert "toy_x===1.0" in capsys.readouterr().err
    (site / "toy_x" / "__init__.py").write_text("value = 3\n")
    assert run(["patch", "status", "toy-x", *where]) == 1
    assert "drifted (two): toy_x/__init__.py: edited by hand" in capsys.readouterr().out
    assert run(["patch", "apply", "toy-x", "--installed", *where]) == 1
    (site / "toy_x" / "__init__.py").unlink()
    assert run(["patch", "status", "toy-x", *where]) == 1
    assert "removed" in capsys.readouterr().out
    pip("--python", str(python), "uninstall", "-q", "-y", "toy-x")
    assert not list(site.glob("toy_x*"))


def test_a_further_patch_on_top_of_a_patched_wheel(world, installed, capsys):
    where = ["--python", str(world.root / "env"), "--patches", str(world.patches.parent)]
    world.patch(
        more=PATCH.replace("toy_x/__init__.py", "toy_x/empty")
        .replace("@@ -1 +1 @@\n-value = 1", "@@ -0,0 +1 @@")
        .replace("another value", "more")
    )
    assert run(["patch", "apply", "toy-x", "--installed", *where]) == 0
    capsys.readouterr()
    assert run(["patch", "status", "toy-x", *where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(found["patches"]) == ["more", "two"]
    assert found["detail"] == "two came with the wheel"
    assert run(["patch", "revert", "toy-x", *where[:2]]) == 0
    assert run(["patch", "status", "toy-x", *where]) == 0
    world.patch(two=PATCH.replace("another", "a second"))
    capsys.readouterr()
    assert run(["patch", "status", "toy-x", *where]) == 1
    assert "another text of two was applied" in capsys.readouterr().out
