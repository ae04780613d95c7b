"""The cache's own commands where the disk says no: read-only, full, or somebody else's."""

from __future__ import annotations

import os
import subprocess

import pytest

from buildkit.cache import list_entries
from buildkit.paths import Paths
from tests.cache.stored import stored
from tests.machine import needs_mounts, needs_other_user
from tests.programs import kit

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


@needs_other_user
def test_a_cache_of_somebody_else_is_not_called_empty(paths, tmp_path):
    stored(paths.root, tmp_path)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o755)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = run(paths, other, "gc", "--max-size", "0")
    assert_one_error(done, "Permission denied")
    paths.root.chmod(0o700)
    for command in (["list"], ["size"], ["verify"], ["gc", "--max-size", "0"]):
        assert_one_error(run(paths, other, *command), "Permission denied")
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
