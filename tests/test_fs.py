"""File-system acts leave the old state or the new one."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildkit.fs import (
    clone_file,
    locked,
    remove_tree,
    staged_directory,
    staged_file,
    try_locked,
    write_atomic,
)


def test_an_atomic_write_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    write_atomic(file, b"old")
    write_atomic(file, b"new", mode=0o600)
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["file"]


def test_a_failed_write_keeps_the_old_contents(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.mkdir()  # replacing a directory by a file fails, for root too
    with pytest.raises(OSError, match="file"):
        write_atomic(file, b"new")
    assert file.is_dir()
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_staged_directory_appears_whole_or_not(tmp_path: Path) -> None:
    with staged_directory(tmp_path / "done") as stage:
        (stage / "a").write_text("1")
        assert not (tmp_path / "done").exists()
    assert (tmp_path / "done" / "a").read_text() == "1"

    with pytest.raises(RuntimeError), staged_directory(tmp_path / "failed") as stage:
        (stage / "a").write_text("1")
        raise RuntimeError
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["done"]


def test_the_first_of_two_stages_wins(tmp_path: Path) -> None:
    with staged_directory(tmp_path / "x") as second:
        (second / "who").write_text("second")
        with staged_directory(tmp_path / "x") as first:
            (first / "who").write_text("first")
    assert (tmp_path / "x" / "who").read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_lock_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from buildkit.fs import locked\n"
        f"with locked(Path({str(lock)!r})):\n  print('held', flush=True)\n  time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    waited: list[bool] = []

    def waiting() -> None:
        waited.append(True)
        holder.kill()

    with locked(lock, waiting=waiting):
        assert waited == [True]
    holder.wait()
    holder.stdout.close()


def test_a_tree_with_read_only_parts_is_removed(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    (inner / "gone").symlink_to("nowhere")
    inner.chmod(0o500)
    remove_tree(tmp_path / "a")
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_clone_shares_nothing_with_its_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"wheel")
    clone_file(source, tmp_path / "out" / "copy")
    with (tmp_path / "out" / "copy").open("ab") as file:
        file.write(b"!")
    assert source.read_bytes() == b"wheel"
    assert source.stat().st_nlink == 1
    assert time.time() - (tmp_path / "out" / "copy").stat().st_mtime < 60


def test_a_file_system_without_locks_is_said_to_be_one(tmp_path, monkeypatch):
    def no_flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_flock)
    with pytest.raises(OSError, match="has no locks"), locked(tmp_path / "lock"):
        pass
    with try_locked(tmp_path / "lock") as is_ours:
        assert not is_ours


def test_a_write_that_the_disk_refuses_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    refusal = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space") as caught, staged_file(file):
        raise refusal
    assert caught.value.filename == str(file)
    assert list(tmp_path.iterdir()) == []
