"""The whole way, by the command line, on a project whose compilers are real.

The environment is locked and fetched once per run of the tests; each test has a copy of the
project and its recipe, and shares the cache of environments.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from buildkit.toolchain.uv import uv_binary
from buildkit.wheels import read_provenance, read_wheel
from tests.programs import kit, pip

pytestmark = pytest.mark.network

PROJECTS = Path(__file__).parent / "projects"


def test_a_recipe_becomes_a_wheel_and_the_second_make_takes_it_from_the_cache(world):
    first = world.make()
    assert first.returncode == 0, first.stderr
    wheel = Path(first.stdout.strip())
    assert wheel.parent == world.out
    assert wheel.name.startswith("toy-1.0+k")
    contents = read_wheel(wheel)
    assert "toy/libtoy.so" in contents.files
    provenance = read_provenance(wheel)
    assert provenance["imports"]["outcome"] == "passed"
    assert str(world.root) not in json.dumps(provenance)
    wheel.unlink()
    second = world.make("--json", "--offline")
    document = json.loads(second.stdout)
    assert document["cached"] is True
    assert document["verdict"] == "code verified, import ok"
    assert Path(document["wheel"]) == wheel
    assert wheel.is_file()


def test_the_wheel_installs_and_works(world):
    wheel = world.make().stdout.strip()
    site = world.root / "site"
    pip("install", "--no-deps", "--no-index", "--target", site, wheel)
    done = subprocess.run(
        [sys.executable, "-c", "import toy; print(toy.total())"],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "3\n"


def test_equal_inputs_give_equal_bytes(world):
    wheel = Path(world.make().stdout.strip())
    before = wheel.read_bytes()
    again = world.make("--clean")
    assert again.returncode == 0, again.stderr
    assert Path(again.stdout.strip()).read_bytes() == before


PATCH = """\
--- a/src/one.c
+++ b/src/one.c
@@ -1 +1 @@
-int one(void) { return 1; }
+int one(void) { return 10; }
"""


def test_a_patch_and_each_change_of_it_changes_key_and_wheel(world):
    plain = world.make().stdout.strip()
    recipe = world.recipes / "toy.toml"
    recipe.write_text(
        recipe.read_text().replace(
            'version = "1.0"\nsource', 'version = "1.0"\npatches = ["ten"]\nsource'
        )
    )
    folder = world.recipes / "patches" / "toy"
    folder.mkdir(parents=True)
    (folder / "ten.patch").write_text(PATCH)
    patched = world.make()
    assert patched.returncode == 0, patched.stderr
    assert patched.stdout.strip() != plain
    assert world.compiled().count("two.c") == 1, "only what the patch touches is compiled again"
    with zipfile.ZipFile(patched.stdout.strip()) as wheel:
        names = wheel.namelist()
    assert any(name.endswith("buildkit.json") for name in names)
    document = read_provenance(Path(patched.stdout.strip()))
    assert [patch["name"] for patch in document["patches"]] == ["ten"]
    why = world.run("plan", "toy", "--arch", "sm120").stdout
    assert "cache    hit" in why
    (folder / "ten.patch").write_text(PATCH.replace("10", "11"))
    why = world.run("plan", "toy", "--arch", "sm120", "--explain").stdout
    assert "patch ten: was sha256:" in why
    (folder / "ten.patch").write_text(PATCH.replace("return 1;", "return 7;"))
    refused = world.make()
    assert refused.returncode == 1
    assert "line 1 should be 'int one(void) { return 7; }'" in refused.stderr


def test_what_a_make_took_is_known_to_the_next(world):
    assert world.make().returncode == 0
    knowledge = world.slot / "knowledge.json"
    assert json.loads(knowledge.read_text())["history"] == []
    assert world.make("--clean").returncode == 0
    known = {unit[0]: unit[2] for unit in json.loads(knowledge.read_text())["history"]}
    assert sorted(known) == ["libtoy.so", "src/one.c", "src/two.c"]
    assert all(peak > 0 for peak in known.values())
    governed = json.loads((world.slot / "governed.json").read_text())
    assert (governed["status"], governed["first_record"]) == ("ok", 0)
    report = world.run("report", "toy", "--arch", "sm120", "--json")
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["recipe"] == "toy"


def test_stray_flags_do_not_reach_the_compiler(world):
    clean = world.make()
    stray = world.make("--clean", CFLAGS="-DEVIL", CPATH="/nowhere", CC="/bin/false")
    assert stray.returncode == 0, stray.stderr
    assert stray.stdout == clean.stdout
    assert "EVIL" not in (world.slot / "build.log").read_text()
    plan = world.run("plan", "toy", "--arch", "sm120", CFLAGS="-DEVIL").stdout
    assert "CFLAGS: set here, not passed to the build" in plan


def test_a_source_edited_by_hand_is_built_but_not_kept(world):
    plain = world.make()
    done = world.run("shell", "toy", "--arch", "sm120", "-c", "pwd; echo $VIRTUAL_ENV")
    folder, environment = done.stdout.splitlines()
    assert Path(folder) == world.slot / "source"
    assert "environments" in environment
    (Path(folder) / "src" / "one.c").write_text("int one(void) { return 40; }\n")
    edited = world.make("--from-step", "build")
    assert edited.returncode == 0, edited.stderr
    assert ".edited" in edited.stdout
    assert "does not enter the cache" in edited.stderr
    assert len(world.entries()) == 1
    assert world.make().stdout == plain.stdout


@pytest.mark.parametrize("step", ["build", "verify"])
def test_what_was_prepared_for_another_plan_does_not_enter_the_cache_under_this_one(world, step):
    plain = world.make()
    recipe = world.recipes / "toy.toml"
    folder = world.recipes / "patches" / "toy"
    folder.mkdir(parents=True)
    (folder / "ten.patch").write_text(PATCH)
    versions = 'version = "1.0"\npatches = ["ten"]\nsource'
    recipe.write_text(recipe.read_text().replace('version = "1.0"\nsource', versions))
    stale = world.make("--from-step", step)
    assert stale.returncode == 0, stale.stderr
    assert ".edited" in stale.stdout
    assert len(world.entries()) == 1
    patched = world.make("--json")
    assert json.loads(patched.stdout)["cached"] is False
    assert patched.stdout != plain.stdout
    again = world.make("--from-step", "verify")
    assert again.returncode == 0, again.stderr
    assert ".edited" not in again.stdout


def test_a_file_whose_name_is_no_utf8_is_built_with_and_its_change_is_seen(world):
    odd = Path(os.fsdecode(bytes(world.source / "src") + b"/\xff\t%41.h"))
    odd.write_text("")
    assert world.make().returncode == 0
    odd.write_text("\n")
    done = world.make()
    assert done.returncode == 0, done.stderr
    assert len(world.entries()) == 2


def test_a_change_of_a_local_source_is_seen(world):
    first = world.make().stdout
    (world.source / "src" / "one.c").write_text("int one(void) { return 5; }\n")
    assert world.make().stdout != first


def test_the_log_shows_the_commands_and_the_output_is_short(world):
    done = world.make()
    assert len(done.stderr.splitlines()) <= 8
    log = (world.slot / "build.log").read_text()
    assert log.startswith("+ ")
    verbose = world.make("--clean", "--verbose")
    assert "Building C object" in verbose.stderr or "[1/" in verbose.stderr


def test_a_profile_of_the_last_make_names_no_path_of_this_machine(world):
    assert world.run("profile", "toy", "--arch", "sm120").returncode == 2
    world.make()
    done = world.run("profile", "toy", "--arch", "sm120")
    assert done.returncode == 0, done.stderr
    head, *units = [json.loads(line) for line in done.stdout.splitlines()]
    assert (head["recipe"], head["arch"]) == ("toy", "sm120")
    assert [unit["source"] for unit in units] == ["libtoy.so", "src/one.c", "src/two.c"]
    profile = world.root / "toy.jsonl"
    profile.write_text(done.stdout)
    simulated = world.run("simulate", str(profile), "--cores", "4", "--memory", "8GiB", "--json")
    assert simulated.returncode == 0, simulated.stderr
    assert json.loads(simulated.stdout)["rows"]


def test_a_locked_wheel_is_made_again_elsewhere_or_its_difference_is_told(world, tmp_path):
    wheel = world.make().stdout.strip()
    environment = tmp_path / "env"
    uv = [uv_binary(), "--quiet", "--cache-dir", str(tmp_path / "uv")]
    subprocess.run([*uv, "venv", "--python", sys.executable, environment], check=True)
    subprocess.run([*uv, "pip", "install", "--python", environment, wheel], check=True)
    assert world.run("lock", "--python", str(environment)).returncode == 0
    shutil.rmtree(world.out)
    shutil.rmtree(world.cache / "wheels")
    done = world.run("sync", "--create", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    assert "toy 1.0+k" in done.stderr  # said while it is made again
    assert len(world.entries()) == 1
    check = world.run("sync", "--check", "--python", str(tmp_path / "new"))
    assert check.returncode == 0, check.stdout
    shutil.rmtree(world.cache / "wheels")
    shutil.rmtree(tmp_path / "new")
    (world.source / "src" / "one.c").write_text("int one(void) { return 11; }\n")
    done = world.run("sync", "--create", str(tmp_path / "new"))
    assert done.returncode == 1
    assert "would be another one if it was made here" in done.stderr
    assert "source: was " in done.stderr
    assert world.entries() == []


def test_a_build_sees_an_empty_home_and_of_path_only_what_is_the_systems(world):
    home = world.root / "home"
    strange = world.root / "conda" / "bin"
    strange.mkdir(parents=True)
    home.mkdir()
    (home / ".pydistutils.cfg").write_text("[build_ext]\ndefine = STRAY\n")
    done = world.run(
        *("shell", "toy", "--arch", "sm120", "-c", 'env; ls -A "$HOME"'),
        PATH=f"{strange}:{world.environment['PATH']}",
        HOME=str(home),
        XDG_CACHE_HOME=str(home),
        USER="somebody",
    )
    assert done.returncode == 0, done.stderr
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert str(strange) not in variables["PATH"].split(":")
    assert "/usr/bin" in variables["PATH"].split(":")
    assert variables["HOME"] == str(world.slot / "tmp")
    assert ".pydistutils.cfg" not in done.stdout
    assert "somebody" not in done.stdout
    assert "XDG_CACHE_HOME" not in variables


def test_the_collector_leaves_what_an_open_shell_uses_and_takes_it_afterwards(world):
    shell = subprocess.Popen(
        kit("shell", "toy", "--arch", "sm120", "-c", "echo ready; read line"),
        env=world.environment,
        cwd=world.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert shell.stdout.readline() == "ready\n"
        busy = world.run("cache", "gc", "--max-size", "0")
        assert busy.returncode == 0, busy.stderr
        assert f"{world.slot} is in use" in busy.stderr
        assert (world.slot / "source").is_dir()
    finally:
        shell.communicate("done\n", timeout=60)
    (world.cache / "environments").unlink()  # other tests share it
    done = world.run("cache", "gc", "--max-size", "0", "--json")
    assert str(world.cache / "builds") in done.stdout
    assert not [path for path in (world.cache / "builds").iterdir() if path.is_dir()]
