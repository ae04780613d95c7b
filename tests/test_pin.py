"""Pins are written into recipes whose layout stays; against real files and repositories."""

from __future__ import annotations

import os
import subprocess

import pytest

from buildkit.digest import digest_file
from buildkit.errors import RecipeError, SourceError
from buildkit.kit import Kit
from buildkit.paths import Paths
from buildkit.pin import pin
from buildkit.recipe import read_recipe
from buildkit.run import ProcessRunner
from tests.fakes import RecordingEvents
from tests.programs import git

RECIPE = """\
# A recipe with comments.
name = "toy"
summary = "A toy."
default-version = "1.0"  # the newest
architectures = ["sm120"]

[[versions]]
version = "1.0"
source = { kind = "pypi" }  # pin me
patches = ["fix"]

[versions.sources.dep]
kind = "git"
url = "REPOSITORY"
ref = "v1"
"""


@pytest.fixture
def world(tmp_path):
    index = tmp_path / "index" / "toy"
    index.mkdir(parents=True)
    for version in ("1.0", "2.0"):
        (index / f"toy-{version}.tar.gz").write_bytes(version.encode())
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in index.glob("*.gz"))
    (index / "index.html").write_text(links)
    repository = tmp_path / "dep"
    repository.mkdir()
    (repository / "f").write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1"]):
        git(repository, *command)
    recipes = tmp_path / "recipes"
    (recipes / "patches" / "toy").mkdir(parents=True)
    (recipes / "patches" / "toy" / "fix.patch").write_text("Description: x\n")
    (recipes / "toy.toml").write_text(RECIPE.replace("REPOSITORY", str(repository)))
    return tmp_path


def act(world, **changes):
    kit = Kit(
        paths=Paths(world / "cache"),
        environment={
            "PATH": os.environ["PATH"],
            "HOME": str(world),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"file://{world / 'index'}",
        },
        runner=ProcessRunner(),
        events=RecordingEvents(),
        recipe_folders=(world / "recipes",),
    )
    options = {"version": None, "is_upgrade": False, "is_dry_run": False}
    return pin("toy", kit, **(options | changes))


def test_everything_that_was_open_is_written_and_the_layout_stays(world):
    file = world / "recipes" / "toy.toml"
    before = file.read_text()
    dry = act(world, is_dry_run=True)
    assert file.read_text() == before
    pinned = act(world)
    assert pinned.changes == dry.changes
    text = file.read_text()
    assert text.startswith("# A recipe with comments.\n")
    assert 'default-version = "1.0"  # the newest' in text
    version = read_recipe(file).versions[0]
    assert version.source.filename == "toy-1.0.tar.gz"
    assert version.source.sha256 == digest_file(world / "index" / "toy" / "toy-1.0.tar.gz")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=world / "dep", capture_output=True, text=True, check=True
    )
    assert version.sources["dep"].commit == head.stdout.strip()
    patch = world / "recipes" / "patches" / "toy" / "fix.patch"
    assert version.patch_digests == {"fix": digest_file(patch)}
    assert act(world).changes == ()
    assert file.read_text() == text


def test_a_version_that_the_recipe_lacks_is_added(world):
    act(world)
    pinned = act(world, version="2.0")
    assert pinned.changes[0] == "version 2.0: added"
    first, second = read_recipe(world / "recipes" / "toy.toml").versions
    assert (first.version, second.version) == ("1.0", "2.0")
    assert second.source.sha256 == digest_file(world / "index" / "toy" / "toy-2.0.tar.gz")
    assert first.source.sha256 != second.source.sha256


def test_what_the_index_lacks_changes_nothing(world):
    file = world / "recipes" / "toy.toml"
    before = file.read_text()
    with pytest.raises(SourceError, match=r"no sdist of toy 3\.0"):
        act(world, version="3.0")
    assert file.read_text() == before


def test_a_ref_is_followed_only_on_request(world):
    act(world)
    (world / "dep" / "f").write_text("2")
    git(world / "dep", "commit", "-qam", "y")
    git(world / "dep", "tag", "-f", "v1")
    assert act(world).changes == ()
    (change,) = act(world, is_upgrade=True).changes
    assert change.startswith("sources.dep.commit = ")


def test_a_recipe_that_cannot_be_written_says_what_to_do(world, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("buildkit.pin.write_atomic", refuse)
    with pytest.raises(RecipeError, match="Copy the recipe into a directory of your own"):
        act(world)
