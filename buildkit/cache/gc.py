"""The cache is kept small: what was not used for long goes, then what is cheap to get again.

Three steps: list what there is (reads), choose what goes (pure), remove it (acts). What a running
process holds is left alone, see :mod:`buildkit.holds`. Locks of users, histories and notes are
small, cannot be fetched again, and stay.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, assert_never

from buildkit.fs import remove_tree, try_locked
from buildkit.holds import claimed, last_used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from buildkit.paths import Paths

__all__ = [
    "Item",
    "Kind",
    "Removal",
    "Room",
    "choose",
    "measure",
    "remove_items",
    "scan",
    "total_bytes",
]

Kind = Literal[
    "leftover",
    "damaged",
    "build",
    "uv",
    "objects",
    "download",
    "git",
    "environment",
    "toolkit",
    "system",
    "lists",
    "wheel",
    "notes",
]

#: What goes first when room is needed: what nobody needs, then what only speeds a build up, then
#: what can be fetched again, and last what takes an hour of compilation.
_RANK: dict[Kind, int] = {
    "leftover": 0,
    "damaged": 0,
    "build": 1,
    "uv": 2,
    "objects": 2,
    "download": 3,
    "git": 3,
    "environment": 3,
    "toolkit": 3,
    "system": 3,
    "lists": 3,
    "wheel": 4,
    "notes": 5,
}

#: A temporary name that was not touched for so long is of a process that was killed.
LEFTOVER_SECONDS = 24 * 3600

#: Names that :mod:`tempfile` makes of our prefixes, and marks of use.
_TEMPORARY = re.compile(r"\.((trash|part)-[a-z0-9_]{8}|.+\.[a-z0-9_]{8}|.+\.used)")

_DAMAGED = re.compile(r".+-[0-9a-f]{64}\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that can be removed by itself."""

    kind: Kind
    path: Path
    own_bytes: int
    """On disk, in files that have no other name."""
    shared: dict[tuple[int, int, int], int] = field(default_factory=dict, hash=False)
    """Names here of each file with several: by device, inode and size on disk."""
    used_seconds: float
    """When it was used last, since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one kind holds."""

    kind: Kind
    count: int
    size_bytes: int
    """On disk."""
    used_seconds: float
    """When something of it was used last, since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """An item that goes, and why."""

    item: Item
    freed_bytes: int
    """Files that other items share are free only when the last of these has gone."""
    reason: str


def total_bytes(items: Sequence[Item]) -> int:
    """Return what items hold together on disk; a file with several names counts once."""
    shared = {file for item in items for file in item.shared}
    return sum(item.own_bytes for item in items) + sum(size for _, _, size in shared)


def measure(paths: Paths, *, now_seconds: float) -> tuple[int, tuple[Room, ...]]:
    """Return what the whole cache holds on disk, and what each kind does, first what goes first.

    What two kinds share counts in both, and once in the whole. ``notes`` are what stays.
    """
    items = scan(paths, now_seconds=now_seconds)
    notes = tuple(item for path in _notes(paths) for item in _item("notes", path))
    kinds: dict[Kind, list[Item]] = {}
    for item in (*items, *notes):
        kinds.setdefault(item.kind, []).append(item)
    rooms = (
        Room(
            kind=kind,
            count=len(found),
            size_bytes=total_bytes(found),
            used_seconds=max(item.used_seconds for item in found),
        )
        for kind, found in kinds.items()
    )
    ranked = sorted(rooms, key=lambda room: (_RANK[room.kind], -room.size_bytes))
    return total_bytes((*items, *notes)), tuple(ranked)


def _notes(paths: Paths) -> Iterator[Path]:
    yield from (paths.locks, paths.memo, paths.patchlog, paths.patched)
    yield from paths.root.glob(f"{paths.history.name}*")


def choose(
    items: Sequence[Item],
    *,
    now_seconds: float,
    keep_seconds: float | None,
    max_bytes: int | None,
) -> tuple[Removal, ...]:
    """Return what goes, in order. Pure.

    :param keep_seconds: What was not used for longer goes; None for no such limit.
    :param max_bytes: What may stay at most; None for no such limit.
    """
    left = total_bytes(items)
    names = Counter[tuple[int, int, int]]()
    for item in items:
        names.update(item.shared)
    found = []
    for item in sorted(items, key=lambda item: (_RANK[item.kind], item.used_seconds, item.path)):
        age = now_seconds - item.used_seconds
        if item.kind == "leftover":
            reason = "of a process that was killed"
        elif keep_seconds is not None and age > keep_seconds:
            reason = f"not used for {age / 86400:.0f} days"
        elif max_bytes is not None and left > max_bytes:
            reason = "for room"
        else:
            continue
        freed = item.own_bytes
        for file, count in item.shared.items():
            names[file] -= count
            freed += file[2] if names[file] == 0 else 0
        left -= freed
        found.append(Removal(item=item, freed_bytes=freed, reason=reason))
    return tuple(found)


def remove_items(
    removals: Sequence[Removal], *, told: Callable[[Removal, bool], None]
) -> tuple[Removal, ...]:
    """Remove items and return those that are gone.

    :param told: Called for each with whether it has gone; it has not when it is in use, or was
        used since it was chosen.
    :raises OSError: if something cannot be removed.
    """
    gone = []
    for removal in removals:
        is_gone = _remove(removal.item)
        told(removal, is_gone)
        if is_gone:
            gone.append(removal)
    return tuple(gone)


def _remove(item: Item) -> bool:
    """Rename an item away under its locks, then take the time to remove it."""
    if item.kind == "leftover":
        _erase(item.path)
        return True
    with ExitStack() as locks:
        # Whoever goes through all wheels holds their room instead of each.
        rooms = (item.path.parents[1],) if item.kind == "wheel" else ()
        if not all(locks.enter_context(claimed(path)) for path in (*rooms, item.path)):
            return False
        for lock in _locks(item.path):
            if lock.is_file() and not locks.enter_context(try_locked(lock)):
                return False
        if _used(item.path, item.used_seconds) > item.used_seconds:
            return False
        # A new name and no new directory, which a full disk would not allow.
        trash = item.path.with_name(f".trash-{token_hex(4)}")
        try:
            item.path.rename(trash)
        except FileNotFoundError:
            return False  # another collector was first
    _erase(trash)
    if item.kind == "environment":
        item.path.with_name(f"{item.path.name}.txt").unlink(missing_ok=True)
    return True


def _used(path: Path, known: float) -> float:
    with suppress(OSError):
        return last_used(path)
    return known


def _erase(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):  # another collector is at it too
            remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def scan(paths: Paths, *, now_seconds: float) -> tuple[Item, ...]:
    """List everything in the cache that can be removed by itself.

    Only what bears the marks of the kit: somebody may have named a directory of his own as the
    cache, with other things in it.
    """
    places: list[tuple[Kind, Path, str]] = [
        ("damaged", paths.damaged, "*"),
        ("build", paths.builds, "*/"),
        ("uv", paths.root, paths.uv.name),
        ("objects", paths.root, paths.objects.name),
        ("download", paths.downloads, "??/" + "[0-9a-f]" * 64),
        ("git", paths.git, "*.git"),
        ("environment", paths.environments, "*/"),
        ("toolkit", paths.toolkits, "*/"),
        ("system", paths.system, "*/"),
        ("lists", paths.root, paths.package_lists.name),
        ("wheel", paths.wheels, "*/" + "[0-9a-f]" * 64),
    ]
    found: list[Item] = []
    for kind, folder, pattern in places:
        for path in sorted(folder.glob(pattern)):
            if not path.name.startswith(".") and _is_ours(kind, path):
                found += _item(kind, path)
    for path in sorted(_leftovers(paths, now_seconds)):
        found += _item("leftover", path)
    return tuple(found)


def _is_ours(kind: Kind, path: Path) -> bool:
    match kind:
        case "build" | "environment" | "toolkit" | "system" | "git" | "lists":
            return any(lock.is_file() for lock in _locks(path))
        case "uv" | "objects":
            return (path / "CACHEDIR.TAG").is_file()
        case "damaged":
            return _DAMAGED.fullmatch(path.name) is not None
        case "download" | "wheel" | "leftover" | "notes":
            return True
        case _:
            assert_never(kind)


def _locks(path: Path) -> set[Path]:
    """Return where the lock of an item may lie, which whoever made it held."""
    return {path.with_name(f"{path.name}.lock"), path.with_suffix(".lock")}


def _leftovers(paths: Paths, now_seconds: float) -> Iterator[Path]:
    """Yield what killed processes left under temporary names."""
    rooms = (paths.wheels, paths.downloads, paths.git, paths.environments, paths.toolkits)
    for room in (*rooms, paths.system, paths.builds, paths.root, paths.damaged):
        depth = (".*", "*/.*") if room in (paths.wheels, paths.downloads) else (".*",)
        for path in (path for pattern in depth for path in room.glob(pattern)):
            if not _TEMPORARY.fullmatch(path.name):
                continue
            is_mark = path.name.endswith(".used")
            # A mark outlives its item only when somebody wanted what then was not made.
            if is_mark and os.path.lexists(path.with_name(path.name[1:-5])):
                continue
            with suppress(OSError):
                age = now_seconds - path.lstat().st_mtime
                if age > LEFTOVER_SECONDS:
                    yield path


def _item(kind: Kind, path: Path) -> Iterator[Item]:
    own = 0
    shared: Counter[tuple[int, int, int]] = Counter()
    with suppress(OSError):
        used = path.lstat().st_mtime if kind == "leftover" else last_used(path)
        for stat in _walk(path):
            size = stat.st_blocks * 512
            if stat.st_nlink > 1:
                shared[stat.st_dev, stat.st_ino, size] += 1
            else:
                own += size
        yield Item(kind=kind, path=path, own_bytes=own, shared=dict(shared), used_seconds=used)


def _walk(path: Path) -> Iterator[os.stat_result]:
    """Yield what the system says of every file below a path; what vanishes meanwhile is skipped."""
    if not path.is_dir() or path.is_symlink():
        yield path.lstat()
        return
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                yield os.lstat(os.path.join(folder, name))  # noqa: PTH118 - a path of each is slow
