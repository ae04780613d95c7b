"""What is wrong with a source, by the command line: its place, and before anything is set up."""

from __future__ import annotations

import json

import pytest

from tests.programs import git

pytestmark = pytest.mark.network

RECIPE = """\
name = "toy"
summary = "A project in C."
homepage = "https://example.org"
default-version = "1.0"
architectures = ["sm120"]

[[versions]]
version = "0.9"
source = {{ kind = "local", path = "toy" }}

[[versions]]
version = "1.0"
{source}

[build]
requires = ["scikit-build-core>=1.0", "cmake>=3.31", "ninja>=1.11"]

[verify]
imports = ["toy"]
"""


@pytest.fixture
def repository(world):
    folder = world.root / "upstream"
    world.source.rename(folder)
    world.source.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture
def bare(world):
    """The world without its environments, so that setting one up would show."""
    (world.cache / "environments").unlink()
    return world


def head(repository) -> str:
    return git(repository, "rev-parse", "HEAD").strip()


def git_source(repository, commit: str, extra: str = "") -> str:
    return (
        f'source = {{ kind = "git", url = "{repository.as_uri()}", ref = "v1",'
        f' commit = "{commit}"{extra} }}'
    )


def failed(world, source: str) -> dict[str, object]:
    """Make with a source; return the error. No environment was set up for it."""
    (world.recipes / "toy.toml").write_text(RECIPE.format(source=source))
    done = world.make("--json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert not (world.cache / "environments").exists()
    assert not world.out.exists()
    return json.loads(done.stdout)


def line_of(world, text: str) -> int:
    lines = (world.recipes / "toy.toml").read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


def test_a_dead_pin_names_its_line(bare, repository):
    error = failed(bare, git_source(repository, "0" * 40))
    assert error["slug"] == "source"
    assert error["where"]["file"].endswith("toy.toml")
    assert error["where"]["line"] == line_of(bare, 'kind = "git"')
    assert error["where"]["key"] == "versions[1].source"


def test_a_tag_that_moved_is_told_with_where_it_is_now(bare, repository):
    old = head(repository)
    git(repository, "commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
    git(repository, "tag", "-f", "v1")
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "-q", "--prune=now")
    error = failed(bare, git_source(repository, old))
    assert old in error["what"]
    assert f"Its v1 is at {head(repository)} now" in error["what"]
    assert "pin --upgrade" in error["remedy"]


def test_a_subdirectory_that_is_not_there_names_its_line(bare, repository):
    error = failed(bare, git_source(repository, head(repository), ', subdirectory = "gone"'))
    assert "gone" in error["what"]
    assert error["where"]["line"] == line_of(bare, 'kind = "git"')


def test_a_file_that_differs_from_its_digest_names_its_line(bare):
    pin = 'source = { kind = "pypi", project = "six", filename = "six-1.17.0.tar.gz", sha256 = "'
    error = failed(bare, f'{pin}{"0" * 64}" }}'.replace('version = "1.0"', 'version = "1.17.0"'))
    assert error["slug"] == "source"
    assert error["where"]["line"] == line_of(bare, '"six"')


def test_a_further_source_names_its_own_line(bare, repository):
    main = git_source(repository, head(repository))
    further = f'[versions.sources.more]\nkind = "git"\nurl = "{repository.as_uri()}"\n'
    defines = "[versions.defines]\nMORE = '${sources.more}'"
    error = failed(bare, f'{main}\n{further}commit = "{"1" * 40}"\n{defines}')
    assert error["where"]["key"] == "versions[1].sources.more"
    assert error["where"]["line"] == line_of(bare, "[versions.sources.more]")


def test_what_the_project_would_fetch_shows_before_the_environment(bare):
    project = bare.source / "CMakeLists.txt"
    fetch = "include(FetchContent)\nFetchContent_Declare(stray URL https://example.org/a.tar.gz)\n"
    project.write_text(f"{project.read_text()}\n{fetch}FetchContent_MakeAvailable(stray)\n")
    done = bare.make()
    assert done.returncode == 1
    assert "stray" in done.stderr
    assert not (bare.cache / "environments").exists()


def test_a_shell_opens_in_a_project_that_would_fetch_something(world):
    project = world.source / "CMakeLists.txt"
    fetch = "include(FetchContent)\nFetchContent_Declare(stray URL https://example.org/a.tar.gz)\n"
    project.write_text(f"{project.read_text()}\n{fetch}FetchContent_MakeAvailable(stray)\n")
    done = world.run("shell", "toy", "--arch", "sm120", "-c", "grep -c stray CMakeLists.txt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("2")
