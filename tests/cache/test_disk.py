"""The cache's own commands where the disk says no: read-only, full, or somebody else's."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from buildkit.cache import list_entries
from buildkit.cli.app import run as run_here
from buildkit.paths import Paths
from tests.cache.stored import stored
from tests.machine import needs_mounts, needs_other_user
from tests.programs import kit

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A file system of 2 MiB that takes what the cache holds, and then holds nothing more.
FULL = (
    'cp -a "$1" "$1.copy" && mount -t tmpfs -o size=2m none "$1" && cp -a "$1.copy/." "$1" || exit'
    ' 77; dd if=/dev/zero of="$1/film" bs=4k 2>/dev/null; shift; exec "$@"'
)
READ_ONLY = (
    'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" "$1" || exit 77; shift; exec "$@"'
)


@pytest.fixture
def paths(tmp_path):
    return Paths(tmp_path / "cache")


def run(paths: Paths, prefix: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, *kit("cache", *arguments)],
        env={**os.environ, "BUILDKIT_CACHE": str(paths.root)},
        capture_output=True,
        text=True,
        check=False,
    )


def on(script: str, paths: Paths) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(paths.root)]


def assert_one_error(done: subprocess.CompletedProcess[str], reason: str) -> None:
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@needs_mounts
def test_a_full_disk_can_be_collected(paths, tmp_path):
    stored(paths.root, tmp_path)
    done = run(paths, on(FULL, paths), "gc", "--max-size", "0")
    assert done.returncode == 0, done.stderr
    assert "1 removed" in done.stdout
    assert done.stderr == ""


@needs_mounts
def test_a_read_only_cache_can_be_listed_and_is_not_called_in_use(paths, tmp_path):
    stored(paths.root, tmp_path)
    for command in (["list"], ["size"], ["verify"], ["gc", "--max-size", "0", "--dry-run"]):
        done = run(paths, on(READ_ONLY, paths), *command)
        assert (done.returncode, done.stderr) == (0, ""), command
    done = run(paths, on(READ_ONLY, paths), "gc", "--max-size", "0")
    assert_one_error(done, "Read-only file system")
    assert len(list_entries(paths)) == 1


@contextmanager
def another_user() -> Iterator[None]:
    """Be nobody for a while; the interpreter itself may lie where nobody else can read it."""
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@needs_other_user
def test_a_cache_of_somebody_else_is_not_called_empty(paths, tmp_path, monkeypatch, capsys):
    stored(paths.root, tmp_path)
    monkeypatch.setenv("BUILDKIT_CACHE", str(paths.root))
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o755)
    commands = (["list"], ["size"], ["verify"], ["gc", "--max-size", "0", "--dry-run"])
    for command in commands:
        assert run_here(["cache", *command]) == 0  # what they import is imported now
    remove = ["cache", "gc", "--max-size", "0"]
    for mode, refused in ((0o755, [remove]), (0o700, [["cache", *each] for each in commands])):
        paths.root.chmod(mode)
        for command in refused:
            capsys.readouterr()
            with another_user():
                status = run_here(command)
            told = capsys.readouterr().err
            assert status == 1, command
            assert told.startswith(f"error: Cache {paths.root}: Permission denied")
            assert told.count("\n") == 1
    assert len(list_entries(paths)) == 1


def test_more_wheels_than_a_process_may_open_files(paths, tmp_path):
    for number in range(60):
        stored(paths.root, tmp_path, f"patch{number}")
    few = ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh"]
    out = tmp_path / "there"
    for command in (
        ["list"],
        ["verify"],
        ["export", str(tmp_path / "a.tar")],
        ["export", str(out)],
        ["index", str(tmp_path / "index")],
        ["push", "--remote", str(tmp_path)],
        ["gc", "--max-size", "0"],
        ["import", str(out)],
    ):
        done = run(paths, few, *command)
        assert done.returncode == 0, (command, done.stderr)
    assert len(list_entries(paths)) == 60
