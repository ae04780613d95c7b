"""Patches on installed packages: a real pip, a small package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import buildkit.installed as story
from buildkit.cli.app import run
from buildkit.digest import digest_tree
from buildkit.errors import PatchError, RequestError
from buildkit.installed import apply_installed, find_installed, revert_installed, status_of
from tests.builders import a_value_patch
from tests.fakes import RecordingEvents
from tests.programs import pip
from tests.wheels.toy import a_wheel

PATCH = a_value_patch("toy_x")


@pytest.fixture
def world(tmp_path):
    """An environment with the package, and a directory with its patch."""
    site = tmp_path / "site"
    wheel = a_wheel(tmp_path / "wheel", **{"toy_x__other.py": b"x = 1\n"})
    pip("install", "--no-deps", "--no-index", "--target", site, wheel)
    patches = tmp_path / "patches" / "toy_x"
    patches.mkdir(parents=True)
    (patches / "two.patch").write_text(PATCH)
    return site, patches


def apply(world, *names):
    site, patches = world
    return apply_installed(find_installed("toy-x", [site]), patches, names, RecordingEvents())


def condition(world) -> str:
    return status_of(find_installed("toy_x", [world[0]])).condition


def value(site: Path) -> str:
    code = "import toy_x; print(toy_x.value)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_apply_status_and_revert(world):
    site, _ = world
    assert value(site) == "1"  # leaves byte code behind
    for cache in site.rglob("__pycache__"):
        assert cache.is_dir()
    before = {
        path: path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert condition(world) == "absent"
    assert len(apply(world)) == 1
    assert condition(world) == "applied"
    assert value(site) == "2"
    assert apply(world) == ()
    assert revert_installed(find_installed("toy_x", [site]))
    after = {
        path: path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert after == before
    assert value(site) == "1"
    assert not revert_installed(find_installed("toy_x", [site]))


def test_record_stays_right(world):
    site, _ = world
    apply(world)
    from installer.records import parse_record_file

    (record,) = site.glob("toy_x-*/RECORD")
    listed = set()
    for name, digest, size in parse_record_file(record.read_text().splitlines()):
        listed.add(name)
        if digest and not name.startswith("../"):
            data = (site / name).read_bytes()
            assert len(data) == int(size)
            assert story._hash(data) == digest
    on_disk = {
        path.relative_to(site).as_posix()
        for path in site.rglob("*")
        if path.is_file() and "toy_x" in path.as_posix() and path.suffix != ".pyc"
    }
    assert on_disk <= listed


def test_a_change_by_hand_is_a_drift_and_is_not_overwritten(world):
    site, _ = world
    apply(world)
    (site / "toy_x" / "__init__.py").write_text("value = 3\n")
    found = status_of(find_installed("toy_x", [site]))
    assert found.condition == "drifted"
    assert "edited by hand" in found.detail
    for act in (lambda: apply(world), lambda: revert_installed(find_installed("toy_x", [site]))):
        with pytest.raises(PatchError, match="not as they were left"):
            act()
    assert value(site) == "3"


def test_a_file_that_is_not_what_was_installed_is_refused(world):
    site, _ = world
    (site / "toy_x" / "__init__.py").write_text("value = 1\n# mine\n")
    with pytest.raises(PatchError, match="changed it by hand"):
        apply(world)
    assert condition(world) == "absent"


def test_a_file_that_was_put_back_is_told(world):
    site, _ = world
    apply(world)
    (site / "toy_x" / "__init__.py").write_text("value = 1\n")
    assert "installed again" in status_of(find_installed("toy_x", [site])).detail


def test_another_text_of_the_patch_replaces_the_first(world):
    site, patches = world
    apply(world)
    (patches / "two.patch").write_text(PATCH.replace("value = 2", "value = 20"))
    wanted = {"two": "another"}
    assert status_of(find_installed("toy_x", [site]), wanted).condition == "drifted"
    apply(world)
    assert value(site) == "20"


@pytest.mark.parametrize("stop_after", range(7))
def test_killed_at_any_write_the_next_command_finds_it_whole(world, monkeypatch, stop_after):
    site, _ = world
    writes = []
    real = story.write_atomic

    class Killed(BaseException):
        pass

    def dying(path, data, **options):
        if len(writes) == stop_after:
            raise Killed
        writes.append(path)
        real(path, data, **options)

    monkeypatch.setattr(story, "write_atomic", dying)
    try:
        apply(world)
    except Killed:
        pass
    else:
        pytest.fail(f"it was not stopped: the whole takes {len(writes)} writes")
    monkeypatch.setattr(story, "write_atomic", real)
    assert value(site) in ("1", "2")
    apply(world)
    assert condition(world) == "applied"
    assert value(site) == "2"
    revert_installed(find_installed("toy_x", [site]))
    assert value(site) == "1"
    assert condition(world) == "absent"


@pytest.mark.parametrize("stop_after", range(4))
def test_a_revert_that_was_killed_can_go_on(world, monkeypatch, stop_after):
    site, _ = world
    apply(world)
    writes = []
    real = story.write_atomic

    def dying(path, data, **options):
        if len(writes) == stop_after:
            raise KeyboardInterrupt
        writes.append(path)
        real(path, data, **options)

    monkeypatch.setattr(story, "write_atomic", dying)
    try:
        revert_installed(find_installed("toy_x", [site]))
    except KeyboardInterrupt:
        monkeypatch.setattr(story, "write_atomic", real)
        revert_installed(find_installed("toy_x", [site]))
    assert value(site) == "1"
    assert condition(world) == "absent"


def test_a_patch_that_does_not_fit_changes_nothing(world):
    site, patches = world
    (patches / "bad.patch").write_text(
        PATCH.replace("-value = 1", "-value = 7").replace("= 2/", "= 9/")
    )
    before = digest_tree(site)
    with pytest.raises(PatchError):
        apply(world, "two", "bad")
    assert digest_tree(site) == before


def test_whose_files_they_are_decides_which_distribution_is_meant(world):
    site, _ = world
    alias = site / "toy_y-0.0.0.dist-info"
    alias.mkdir()
    (alias / "RECORD").write_text("toy_y-0.0.0.dist-info/RECORD,,\n")
    assert find_installed("toy_y", [site]).version == "0.0.0"
    assert find_installed("toy_x", [site]).version == "1.0"
    alias.rename(site / "toy_x-0.0.0.dist-info")
    assert find_installed("toy_x", [site]).version == "1.0"
    (site / "toy_x-0.0.0.dist-info" / "RECORD").write_text("toy_x/__init__.py,,\n")
    with pytest.raises(RequestError, match="More than one distribution provides"):
        find_installed("toy_x", [site])


def test_an_editable_install_and_an_absent_one_are_refused(world):
    site, _ = world
    (info,) = site.glob("toy_x-*.dist-info")
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///x"}')
    with pytest.raises(RequestError, match="editable install"):
        find_installed("toy_x", [site])
    with pytest.raises(RequestError, match="provides nothing_such"):
        find_installed("nothing_such", [site])


def test_the_commands_on_a_real_environment(world, tmp_path, capsys):
    _, patches = world
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    wheel = next((tmp_path / "wheel").glob("*.whl"))
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    pip("install", "--no-deps", "--no-index", "--target", site, wheel)
    where = ["--python", str(tmp_path / "env"), "--patches", str(patches.parent)]
    assert run(["patch", "status", "toy_x", *where]) == 1
    assert run(["patch", "apply", "toy_x", "--installed", *where]) == 0
    capsys.readouterr()
    assert run(["patch", "status", "toy_x", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["condition"] == "applied"
    assert run(["patch", "revert", "toy_x", *where[:2]]) == 0
    assert run(["patch", "apply", "none", "--installed", *where]) == 2
    assert run(["patch", "list", "vllm"]) == 0
    assert "eagle3-targets (>=0.14,<0.15" in capsys.readouterr().out
