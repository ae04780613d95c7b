"""File-system acts that must not leave half of anything: atomic writes, locks, removal.

Safe extraction of archives is in :mod:`buildkit.sources.archive`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

__all__ = [
    "clone_file",
    "locked",
    "remove_tree",
    "staged_directory",
    "staged_file",
    "try_locked",
    "write_atomic",
]


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old contents or the new, never a part.

    The data reaches the disk before the name does: a power cut leaves no empty file.

    :raises OSError: if the directory is not writable or the disk is full; nothing changes then.
    """
    with _staged_name(path, mode) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def staged_directory(destination: Path) -> Iterator[Path]:
    """Yield a fresh directory beside ``destination`` that takes its name when the block ends well.

    When the block raises, or when another process was first, the fresh directory is removed.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        yield stage
        stage.chmod(0o755)
        try:
            stage.rename(destination)
        except OSError:
            if not destination.is_dir():
                raise
    finally:
        if stage.exists():
            remove_tree(stage)


@contextmanager
def staged_file(destination: Path) -> Iterator[BinaryIO]:
    """Yield a fresh file that takes the name ``destination`` when the block ends well.

    When the block raises, the fresh file is removed, and nothing else changes.
    """
    with _staged_name(destination, 0o644) as temporary, temporary.open("wb") as file:
        yield file


@contextmanager
def _staged_name(destination: Path, mode: int) -> Iterator[Path]:
    """Yield the name of an empty file that replaces ``destination`` when the block ends well."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{destination.name}.", dir=destination.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(mode)
        temporary.replace(destination)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # What the system says of a write to a full disk names no file.
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(destination)
        raise


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold an exclusive lock between processes; the kernel frees it when the holder dies.

    :param path: Lock file; made if missing, never removed (removal would split the lock).
    :param waiting: Called once if another process holds the lock.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    _require_flock(path)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if waiting is not None:
            waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def try_locked(path: Path) -> Iterator[bool]:
    """Yield whether the lock could be had at once; held while the block runs if so."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        _require_flock(path)
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _require_flock(path: Path) -> None:
    """Refuse a file system without locks; filelock would take files for locks, which outlive us.

    :raises OSError: if it is one.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)  # asks and changes nothing
    except OSError as error:
        told = "this file system has no locks (flock): use another one"
        raise OSError(errno.ENOLCK, told, str(path)) from error
    finally:
        os.close(handle)


def remove_tree(path: Path) -> None:
    """Remove a directory of ours, read-only files included; a missing one is fine."""

    def retry(function: Callable[..., object], name: str, _error: object) -> None:
        if not Path(name).exists() and not Path(name).is_symlink():
            return
        Path(name).parent.chmod(0o700)
        function(name)

    if path.exists():
        shutil.rmtree(path, onerror=retry)


def clone_file(source: Path, destination: Path) -> None:
    """Place a copy of ``source`` at ``destination`` atomically, replacing what was there.

    A copy and no hard link: what a user does to the file must not reach the cache.

    :raises OSError: if the destination cannot be written; nothing changes then.
    """
    with _staged_name(destination, 0o644) as temporary:
        shutil.copyfile(source, temporary)
