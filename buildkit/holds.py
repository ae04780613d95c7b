"""What a process uses of the cache, and when each thing was used last.

Beside an item ``NAME`` lies its mark, ``.NAME.used``. A process that uses the item keeps a shared
lock on the mark, which the kernel frees when the process ends, and sets the mark's time, so that a
use counts also where the file system keeps no access times. Whoever collects takes the mark's lock
alone, and leaves what somebody else holds. A command that goes through all wheels holds their
directory, one lock for as many as there are; that is no use of each.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Holds", "claimed", "last_used", "mark_of"]


class Holds:
    """The items that this process uses."""

    def __init__(self) -> None:
        self._handles: dict[Path, int] = {}
        self._guard = Lock()

    def hold(self, item: Path) -> None:
        """Note a use of an item, and keep it from collection until :meth:`release`.

        Waits while it is being collected: call this first, and look for the item then. A cache that
        cannot be written is used without a mark, since nobody can collect it either.
        """
        with self._guard, suppress(OSError):
            if item not in self._handles:
                mark_of(item).parent.mkdir(parents=True, exist_ok=True)
                self._handles[item] = _lock(mark_of(item), fcntl.LOCK_SH)
            os.utime(self._handles[item])

    def release(self) -> None:
        """Give everything free."""
        with self._guard:
            for handle in self._handles.values():
                os.close(handle)
            self._handles.clear()


def mark_of(item: Path) -> Path:
    """Return the mark of an item."""
    return item.with_name(f".{item.name}.used")


def last_used(item: Path) -> float:
    """Return when an item was used last, in seconds since the epoch.

    :raises OSError: if there is neither the item nor its mark.
    """
    try:
        return mark_of(item).stat().st_mtime
    except FileNotFoundError:
        return item.stat().st_mtime


@contextmanager
def claimed(item: Path) -> Iterator[bool]:
    """Yield whether nobody uses an item; while the block runs, whoever wants to use it waits.

    The mark goes with the item.
    """
    mark = mark_of(item)
    try:
        before = None if mark.exists() else item.stat().st_mtime
        handle = _lock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if before is not None:
            os.utime(handle, (before, before))  # to be collected is no use
    except OSError:
        yield False  # somebody holds it, or this file system has no locks to tell
        return
    try:
        yield True
    finally:
        if not os.path.lexists(item):
            mark.unlink(missing_ok=True)
        os.close(handle)


def _lock(mark: Path, how: int) -> int:
    """Open and lock a mark, again if it was removed in between.

    :raises OSError: if it cannot be opened, or not be locked at once when ``how`` says so.
    """
    while True:
        try:
            handle = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except PermissionError:
            handle = os.open(mark, os.O_RDONLY | os.O_CLOEXEC)  # of another user
        try:
            fcntl.flock(handle, how)
            if _is_at(handle, mark):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_at(handle: int, mark: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), mark.stat())
    return False
