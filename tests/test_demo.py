"""The recipe that ships with the kit, built for real: CUDA from this machine or NVIDIA's wheels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buildkit.paths import paths_from
from tests.programs import kit, pip

pytestmark = [pytest.mark.network, pytest.mark.slow]


def buildkit(folder: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ) | {"BUILDKIT_CACHE": str(folder / "cache")} | variables
    return subprocess.run(
        kit(*args),
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    # What was fetched by earlier makes of this user is not fetched again.
    shared = paths_from(os.environ).uv
    if shared.is_dir():
        (folder / "cache").mkdir()
        (folder / "cache" / "uv").symlink_to(shared)
    done = buildkit(folder, "make", "demo-kernel", "--arch", "sm120")
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_wheel_holds_the_target_alone(demo):
    folder, done = demo
    assert "3 pinned" in done.stderr
    assert "sm_120: code verified, import ok" in done.stderr
    listed = buildkit(folder, "verify", done.stdout.strip(), "--arch", "sm120", "--json")
    (library,) = json.loads(listed.stdout)["libraries"]
    assert library == {"library": "demo_kernel/libdemo_kernel.so", "sass": ["sm_120"], "ptx": []}
    other = buildkit(folder, "verify", done.stdout.strip(), "--arch", "sm90")
    assert other.returncode == 1
    assert "nothing that runs on sm90" in other.stdout


def test_the_library_itself_says_for_what_it_was_compiled(demo, tmp_path):
    _, done = demo
    wheel = Path(demo[0]) / done.stdout.strip()
    pip("install", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel)
    told = subprocess.run(
        [sys.executable, "-c", "import demo_kernel; print(demo_kernel.targets())"],
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "['sm_120']\n"


def test_a_variant_that_the_project_does_not_list_replaces_its_list(demo):
    folder, _ = demo
    done = buildkit(folder, "make", "demo-kernel", "--arch", "sm120a")
    assert done.returncode == 0, done.stderr
    assert "3 replaced" in done.stderr
    assert "sm_120a: code verified" in done.stderr


def test_the_second_make_imports_only_what_it_needs(demo):
    folder, _ = demo
    code = (
        "import sys\nfrom buildkit.cli.app import run\n"
        "status = run(['make', 'demo-kernel', '--arch', 'sm120', '--json'])\n"
        "print(status, *sorted(sys.modules), sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ)
        | {"BUILDKIT_CACHE": str(folder / "cache"), "BUILDKIT_REMOTE": "s3://wheels"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    document, status, *modules = done.stdout.splitlines()
    assert json.loads(document)["cached"] is True
    assert status == "0"
    for dear in (
        "git",
        "unidiff",
        "packaging",
        "unearth",
        "uv",
        "rich",
        "tomlkit",
        "installer",
        "asyncio",
        "obstore",
    ):
        assert dear not in modules
    assert len(modules) < 320


def test_another_cache_at_another_time_gives_the_same_bytes(demo):
    folder, first = demo
    other = folder / "an other place" / "cache"
    other.mkdir(parents=True)
    (other / "uv").symlink_to(folder / "cache" / "uv")
    variables = {"BUILDKIT_CACHE": str(other)}
    done = buildkit(folder, "make", "demo-kernel", "--arch", "sm120", "--out", "other", **variables)
    assert done.returncode == 0, done.stderr
    same = buildkit(folder, "diff", first.stdout.strip(), done.stdout.strip())
    assert same.returncode == 0, same.stdout
    assert same.stdout.startswith("the same: sha256 ")


def test_it_is_installed_into_an_environment_and_says_what_it_was_compiled_for(demo, tmp_path):
    folder, _ = demo
    env = tmp_path / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    args = ("--python", str(env), "--arch", "sm120", "--no-make")
    done = buildkit(folder, "install", "demo-kernel", *args)
    assert done.returncode == 0, done.stderr
    assert "import ok (demo_kernel)" in done.stderr
    assert "not verified: any kernel: none was run" in done.stdout
    command = [env / "bin" / "python", "-c", "import demo_kernel; print(demo_kernel.targets())"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "['sm_120']\n"


def test_objects_of_an_earlier_build_give_the_same_wheel_at_another_place(demo):
    """Another cache's directory, as a new machine or user has it, with the objects of the first."""
    folder, done = demo
    wheel = Path(folder) / done.stdout.strip()
    command = ("make", "demo-kernel", "--arch", "sm120", "--object-cache", "ccache", "--clean")
    first = buildkit(folder, *command, "--out", "compiled")
    assert "objects  0 of 3 from the cache" in first.stderr
    (folder / "elsewhere").mkdir()
    shutil.move(folder / "cache" / "objects", folder / "elsewhere" / "objects")
    if (folder / "cache" / "uv").is_dir():
        (folder / "elsewhere" / "uv").symlink_to((folder / "cache" / "uv").resolve())
    variables = {"BUILDKIT_CACHE": str(folder / "elsewhere")}
    again = buildkit(folder, *command, "--out", "again", **variables)
    assert "objects  3 of 3 from the cache" in again.stderr, again.stderr
    assert (folder / "again" / wheel.name).read_bytes() == wheel.read_bytes()
    profile = buildkit(folder, "profile", "demo-kernel", "--arch", "sm120", **variables)
    assert profile.returncode == 2, "what was not compiled took no time"
    assert "--object-cache off" in profile.stderr


def test_the_plan_says_whether_objects_are_kept(demo):
    folder, _ = demo
    plan = buildkit(folder, "plan", "demo-kernel", "--arch", "sm120")
    assert "objects  compiled" in plan.stdout
    plan = buildkit(folder, "plan", "demo-kernel", "--arch", "sm120", "--object-cache", "auto")
    assert "objects  auto (experimental)" in plan.stdout
