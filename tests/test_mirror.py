"""``fetch`` by the command line, and a make from its mirror in a namespace without network."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from buildkit.launcher import binary
from tests.machine import needs_network_namespace
from tests.programs import kit
from tests.world import World

pytestmark = pytest.mark.network

PROJECTS = Path(__file__).parent / "projects"


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """A world whose recipe is pinned and whose mirror is filled."""
    root = tmp_path_factory.mktemp("mirrored")
    shutil.copytree(PROJECTS / "toy", root / "my recipes" / "toy")
    shutil.copy(PROJECTS / "toy.toml", root / "my recipes")
    world = World(root, root / "cache")
    done = world.run("pin", "toy")
    assert done.returncode == 0, done.stderr
    done = world.run("fetch", "toy", "--to", "mirror", "--json")
    assert done.returncode == 0, done.stderr
    assert all(item["new"] for item in json.loads(done.stdout)["items"])
    return world


def contents(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_second_fetch_changes_nothing_and_needs_no_index(mirrored):
    before = contents(mirrored.root / "mirror")
    done = mirrored.run("fetch", "toy", "--to", "mirror", PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert done.returncode == 0, done.stderr
    assert "nothing was to fetch" in done.stdout
    assert contents(mirrored.root / "mirror") == before


@needs_network_namespace
def test_a_make_from_the_mirror_needs_no_network_and_leaves_it_alone(tmp_path, mirrored):
    mirror = mirrored.root / "mirror"
    before = contents(mirror)
    done = subprocess.run(
        [
            *(binary("bk-isolate"), "--no-network", "--"),
            *kit("make", "toy", "--arch", "sm120", "--mirror", str(mirror), "--offline"),
        ],
        env=mirrored.environment | {"BUILDKIT_CACHE": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "from the mirror" in done.stderr
    assert (tmp_path / done.stdout.strip()).is_file()
    assert contents(mirror) == before


def test_a_mirror_that_lacks_a_wheel_names_it_and_the_network_serves_it(tmp_path, mirrored):
    mirror = tmp_path / "lacking"
    shutil.copytree(mirrored.root / "mirror", mirror)
    for wheel in mirror.glob("downloads/*/*/pathspec-*"):
        wheel.unlink()
    world = World(mirrored.root, tmp_path / "cache")
    done = world.make("--offline", BUILDKIT_MIRROR=str(mirror))
    assert done.returncode == 1
    assert "lacks wheels for" in done.stderr
    assert "pathspec" in done.stderr
    assert "cmake" not in done.stderr
    done = world.make("--mirror", str(mirror))
    assert done.returncode == 0, done.stderr
    done = world.run("fetch", "toy", "--to", str(mirror))
    assert ", 1 fetched (" in done.stdout


def test_a_changed_wheel_is_refused_also_online(tmp_path, mirrored):
    mirror = tmp_path / "changed"
    shutil.copytree(mirrored.root / "mirror", mirror)
    (wheel,) = mirror.glob("downloads/*/*/pathspec-*")
    wheel.chmod(0o644)
    wheel.write_bytes(b"evil")
    done = World(mirrored.root, tmp_path / "cache").make("--mirror", str(mirror))
    assert done.returncode == 1
    assert f"{wheel.name} differs from its pin: found sha256 " in done.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("fetch", "toy"), "--to"),
        (("fetch", "toy", "--to", "my recipes"), "is no mirror, and not empty"),
        (("fetch", "toi", "--to", "new"), "toy"),
        (("fetch", "toy", "--to", "new", "--machine", "a b"), "allowed a machine"),
        (("make", "toy", "--arch", "sm120", "--mirror", "none"), "is no mirror"),
        (("make", "vllm", "--from", "wheel", "--version", "1", "--mirror", "x"), "--mirror"),
    ],
)
def test_wrong_input_is_told_in_a_line(mirrored, args, told):
    done = mirrored.run(*args)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_wheels_for_another_machine_and_python_are_chosen_by_their_tags(tmp_path, mirrored):
    done = mirrored.run(
        *("fetch", "toy", "--to", str(tmp_path / "arm"), "--json"),
        *("--machine", "aarch64", "--python", "3.13"),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["python"], document["platform"]) == ("cp313", "linux_aarch64")
    names = [Path(item["path"]).name for item in document["items"]]
    assert any(name.startswith("cmake-") and "aarch64" in name for name in names)
    assert not any("x86_64" in name for name in names)
