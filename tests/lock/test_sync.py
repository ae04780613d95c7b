"""An environment is locked and made again: real uv, small wheels, an index on the disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from buildkit.errors import LockError
from buildkit.lock.install import require_writable
from tests.lock.place import PATCH, Place, a_kit_wheel, a_wheel, files_of, site
from tests.programs import kit


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("original"))
    place.fill()
    return place


@pytest.fixture
def place(original, tmp_path):
    """Another machine: the lock, the index, the shelf and the patches, and nothing else."""
    shutil.copy(original.lock, tmp_path)
    for name in ("shelf", "patches"):
        shutil.copytree(original.root / name, tmp_path / name)
    (tmp_path / "index").symlink_to(original.root / "index")
    return Place(tmp_path)


@pytest.fixture
def synced(place):
    done = place.sync()
    assert done.returncode == 0, done.stderr
    return place


def test_the_second_environment_is_the_first_byte_for_byte(original, synced):
    assert files_of(synced.second) == files_of(original.first)
    assert synced.check()["status"] == "ok"
    again = ("-o", "again.toml", "--find-links", str(synced.shelf))
    done = synced.run("lock", "--python", str(synced.second), *again)
    assert done.returncode == 0, done.stderr
    assert (synced.root / "again.toml").read_text() == synced.lock.read_text()


def test_a_second_sync_changes_nothing(synced):
    before = {path: path.stat().st_mtime_ns for path in site(synced.second).rglob("*")}
    done = synced.sync("--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (document["installed"], document["patched"], document["removed"]) == ([], [], [])
    assert {path: path.stat().st_mtime_ns for path in site(synced.second).rglob("*")} == before


def test_without_an_index_all_may_come_from_directories(original, place):
    (place.root / "index").unlink()
    done = place.sync("--offline")
    assert done.returncode == 1
    assert "Run it once without --offline, or give the wheels with --find-links" in done.stderr
    files = str(original.root / "files")
    done = place.sync("--offline", "--find-links", files, PIP_NO_INDEX="1")
    assert done.returncode == 0, done.stderr
    assert place.kinds() == []


def edit(name: str):
    return lambda root: (site(root) / name).write_text("value = 7\n")


def lose(name: str):
    return lambda root: (site(root) / name).unlink()


def tamper_with_state(root: Path) -> None:
    """As a killed `patch revert` leaves it."""
    file = site(root) / "gamma-1.0.dist-info" / "buildkit-patches.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"complete": False}))


def install_twice(root: Path) -> None:
    info = site(root) / "alpha-0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: alpha\nVersion: 0.9\n")


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (edit("alpha/__init__.py"), [("alpha", "files")]),
        (lose("alpha/more.py"), [("alpha", "files")]),
        (edit("gamma/__init__.py"), [("gamma", "files")]),
        (lose("alpha-1.0.dist-info/METADATA"), [("alpha", "files")]),
        (edit("kitty-1.0+kabababab.dist-info/buildkit.json"), [("kitty", "files")]),
        (install_twice, [("alpha", "twice")]),
        (tamper_with_state, [("gamma", "files"), ("gamma", "patches")]),
    ],
)
def test_what_was_changed_is_told_and_healed(synced, change, kinds):
    before = files_of(synced.second)
    change(synced.second)
    assert synced.kinds() == kinds
    done = synced.sync()
    assert done.returncode == 0, done.stdout + done.stderr
    assert files_of(synced.second) == before
    assert synced.kinds() == []


@pytest.mark.parametrize("name", ["alpha-1.0", "gamma-1.0"])
def test_an_installation_without_a_record_is_made_whole(synced, name):
    (site(synced.second) / f"{name}.dist-info" / "RECORD").unlink()
    package = name.partition("-")[0]
    assert synced.kinds() == [(package, "files"), (package, "stray")]
    assert synced.sync().returncode == 0
    assert synced.kinds() == []


def test_what_killed_writers_left_is_removed_and_nothing_else(synced):
    alpha = site(synced.second) / "alpha"
    for name in (".tmpAbC123", ".more.py.ab12cd_9", ".mine.py.ab12cd_9"):
        (alpha / name).write_text("half a")
    assert synced.sync().returncode == 1
    assert synced.kinds() == [("alpha/.mine.py.ab12cd_9", "stray")]


def test_another_version_and_a_missing_patch_are_healed(synced):
    synced.install(synced.second, "alpha==1.1")
    done = synced.run("patch", "revert", "gamma", "--python", str(synced.second))
    assert done.returncode == 0
    assert synced.kinds() == [("alpha", "version"), ("gamma", "patches")]
    done = synced.sync("--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["installed"] == ["alpha"]
    assert json.loads(done.stdout)["patched"] == ["gamma"]


def test_a_patch_that_the_lock_does_not_name_is_taken_back(original, place):
    plain = place.root / "plain.toml"
    place.venv(place.second)
    place.install(place.second, "gamma==1.0")
    assert place.run("lock", "--python", str(place.second), "-o", str(plain)).returncode == 0
    where = ("--python", str(place.second), "--patches", str(place.patches))
    assert place.run("patch", "apply", "gamma", "--installed", *where).returncode == 0
    done = place.run("sync", str(plain), "--python", str(place.second))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (site(place.second) / "gamma" / "__init__.py").read_text() == "value = 1\n"


def test_what_is_not_locked_is_told_and_goes_only_when_asked(synced):
    a_wheel(synced.shelf, "extra")
    synced.install(synced.second, "extra")
    (site(synced.second) / "sitecustomize.py").write_text("")
    (site(synced.second) / "alpha" / "mine.py").write_text("")
    expected = [("extra", "extra"), ("alpha/mine.py", "stray"), ("sitecustomize.py", "stray")]
    assert synced.kinds() == expected
    assert synced.sync().returncode == 1
    assert synced.kinds() == expected
    done = synced.sync("--prune")
    assert done.returncode == 1  # what belongs to nobody is for a person to remove
    assert "removed: extra" in done.stdout
    assert synced.kinds() == expected[1:]


def test_pruning_leaves_whole_what_shared_files_with_it(synced):
    wheel = a_wheel(synced.root / "other", "extra", "2.0", **{"alpha__more.py": b"x = 1\n"})
    synced.install(synced.second, wheel)
    assert ("alpha", "files") in synced.kinds()
    done = synced.sync("--prune")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (site(synced.second) / "alpha" / "more.py").read_text() == "version = '1.0'\n"


@pytest.mark.parametrize("state", ["made", "installing"])
def test_a_killed_sync_is_completed_by_the_next(place, state):
    where = ("--find-links", str(place.shelf), "--patches", str(place.patches))
    process = subprocess.Popen(
        kit("sync", "--create", str(place.second), *where),
        env=place.environment,
        cwd=place.root,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    mark = "pyvenv.cfg" if state == "made" else "alpha"
    # os.walk passes over directories that come and go while it looks.
    while process.poll() is None and not any(
        mark in (*folders, *files) for _, folders, files in os.walk(place.second)
    ):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = place.sync()
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.kinds() == []


def test_wheels_lie_beside_the_lock(place):
    for wheel in place.shelf.iterdir():
        wheel.rename(place.root / wheel.name)
    assert place.sync("--exact").returncode == 0


def test_a_wheel_of_other_bytes_is_not_taken(place):
    a_kit_wheel(place.shelf, verdict="something else")
    done = place.sync("--exact")
    assert done.returncode == 1
    assert "is not on this machine" in done.stderr
    done = place.sync()
    assert done.returncode == 1
    assert "There is no recipe 'kitty'" in done.stderr
    assert files_of(place.second) == {}


def test_a_build_under_the_locked_key_counts_unless_bytes_are_asked_for(synced):
    folder = synced.root / "made again"
    a_kit_wheel(folder, verdict="made elsewhere")
    synced.shelf.joinpath(a_kit_wheel(folder).name).unlink()
    remade = a_wheel(
        folder,
        "kitty",
        "1.0+kabababab",
        **{
            "kitty__more.py": b"other bytes\n",
            "INFO__buildkit.json": json.dumps({"key": "ab" * 32}).encode(),
        },
    )
    synced.install(synced.second, "--reinstall", remade)
    document = synced.check()
    assert document["status"] == "ok"
    assert "kitty: made again under the locked key" in document["notes"][0]
    (item,) = synced.check("--exact")["differences"]
    assert (item["name"], item["kind"]) == ("kitty", "files")


def test_another_key_is_explained_field_by_field(synced):
    fields = [["recipe", "kitty"], ["source", "sha256:5678"], ["tool gcc", "12.2.0"]]
    wheel = a_kit_wheel(synced.root / "other", key="cd" * 32, key_fields=fields)
    synced.install(synced.second, "--reinstall", wheel)
    (item,) = synced.check()["differences"]
    assert item["kind"] == "key"
    assert "locked abababababab, found cdcdcdcdcdcd" in item["detail"]
    assert "source: was sha256:1234, is sha256:5678" in item["detail"]
    assert "gcc" not in item["detail"]


def test_patches_of_another_text_are_refused_before_anything_changes(place):
    (place.patches / "gamma" / "two.patch").write_text(PATCH + "\n")
    done = place.sync()
    assert done.returncode == 1
    assert "Patches of gamma that the lock names are not here: two (sha256" in done.stderr
    assert files_of(place.second) == {}


def test_an_environment_that_cannot_be_written_is_refused():
    with pytest.raises(LockError, match="cannot be changed"):
        require_writable([Path("/proc")])


@pytest.mark.parametrize(
    ("args", "status", "told"),
    [
        ((), 2, "Found both --python and --create, or neither"),
        (("--python", "x", "--create", "y"), 2, "Found both --python and --create"),
        (("--python", "nowhere"), 1, "there is no such interpreter or environment"),
        (("--create", "patches"), 1, "is no virtual environment"),
        (("--create", "new", "--find-links", "nowhere"), 2, "allowed a directory of wheels"),
        (("nowhere.toml", "--create", "new"), 2, "The lock cannot be read"),
    ],
)
def test_wrong_input_is_one_error(place, args, status, told):
    done = place.run("sync", *args)
    assert done.returncode == status
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place.root / "new").exists()
