"""The collector takes what it should, and nothing that is in use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildkit.cache import list_entries, look_up
from buildkit.cache.gc import Item, choose, measure, remove_items, scan, total_bytes
from buildkit.fs import locked
from buildkit.holds import Holds, mark_of
from buildkit.paths import Paths
from tests.cache.stored import a_plan, stored

DAY = 86400.0
NOW = 100 * DAY


def an_item(kind="wheel", name="x", *, size=10, days=1.0, shared=None):
    return Item(
        kind=kind,
        path=Path("/cache") / name,
        own_bytes=size,
        shared=shared or {},
        used_seconds=NOW - days * DAY,
    )


def chosen(items, *, days=None, size=None):
    keep = None if days is None else days * DAY
    return [
        removal.item.path.name
        for removal in choose(items, now_seconds=NOW, keep_seconds=keep, max_bytes=size)
    ]


def test_age_counts_from_the_last_use():
    items = [an_item(name="old", days=31), an_item(name="new", days=29)]
    assert chosen(items, days=30) == ["old"]
    assert chosen(items, days=0) == ["old", "new"]
    assert chosen([an_item(days=-5)], days=30) == [], "the clock of another host"


def test_room_is_made_from_what_is_cheap_and_old_first():
    items = [
        an_item(name="wheel", days=90),
        an_item("environment", "environment", days=2),
        an_item("download", "download", days=3),
        an_item("build", "build", days=1),
        an_item("uv", "uv", days=0),
    ]
    assert chosen([*items, an_item("objects", "objects", days=3)], size=41) == ["build", "objects"]
    assert chosen(items, size=50) == []
    assert chosen(items, size=49) == ["build"]
    assert chosen(items, size=11) == ["build", "uv", "download", "environment"]
    assert chosen(items, size=0) == ["build", "uv", "download", "environment", "wheel"]


def test_a_file_with_two_names_is_free_when_both_are_gone():
    file = (1, 2, 100)
    items = [
        an_item("uv", "uv", size=1, shared={file: 1}),
        an_item("environment", "one", size=1, days=2, shared={file: 1}),
        an_item("environment", "two", size=50, days=1),
    ]
    assert total_bytes(items) == 152
    # The first only seems to hold 101: room is made by the second.
    assert chosen(items, size=151) == ["uv"]
    assert chosen(items, size=150) == ["uv", "one"]
    freed = choose(items, now_seconds=NOW, keep_seconds=None, max_bytes=0)
    assert sum(removal.freed_bytes for removal in freed) == 152


def test_leftovers_always_go():
    assert chosen([an_item("leftover", days=2)], size=1000) == ["x"]


# --- on a disk ------------------------------------------------------------------------------------


@pytest.fixture
def paths(tmp_path):
    return Paths(tmp_path / "cache")


def filled(folder: Path, *, days: float = 40.0) -> Path:
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x" * 5000)
    then = time.time() - days * DAY
    os.utime(folder, (then, then))
    if not folder.name.startswith("."):
        folder.with_name(f"{folder.name}.lock").touch()
    return folder


def collect(paths, *, days=30.0, size=None):
    items = scan(paths, now_seconds=time.time())
    found = choose(items, now_seconds=time.time(), keep_seconds=days * DAY, max_bytes=size)
    return {removal.item.path for removal in remove_items(found, told=lambda *_: None)}


def test_everything_that_grows_is_seen(paths, tmp_path):
    entry = stored(paths.root, tmp_path)
    grown = {
        filled(paths.downloads / "ab" / ("ab" * 32)),
        filled(paths.git / "0123456789abcdef.git"),
        filled(paths.environments / "cp311-0123"),
        filled(paths.toolkits / "cuda-13"),
        filled(paths.system / "0123456789abcdef"),
        filled(paths.package_lists),
        filled(paths.builds / "toy-1.0"),
        filled(paths.uv),
        filled(paths.damaged / f"toy-{'ab' * 32}.1"),
    }
    (paths.uv / "CACHEDIR.TAG").touch()
    os.utime(paths.uv, (1, 1))
    kept = [paths.locks / "user.lock", paths.memo / "gcc.json", paths.history]
    for file in kept:
        file.parent.mkdir(exist_ok=True)
        file.write_text("kept")
    assert collect(paths) == grown
    assert not any(path.exists() for path in grown)
    assert all(file.exists() for file in kept)
    assert look_up(paths, "toy", entry.key) is not None
    assert [path.name for path in paths.root.rglob(".trash-*")] == []


def test_what_two_kinds_share_is_measured_once_in_the_whole(paths):
    files = [filled(paths.uv) / "file", filled(paths.environments / "cp311-0123") / "linked"]
    (paths.uv / "CACHEDIR.TAG").touch()
    files[1].hardlink_to(files[0])
    size = files[0].stat().st_blocks * 512
    whole, rooms = measure(paths, now_seconds=time.time())
    assert [(room.kind, room.size_bytes) for room in rooms] == [
        ("uv", size),
        ("environment", 2 * size),
    ]
    assert whole == 2 * size


def test_what_is_not_the_kits_is_not_seen(paths):
    """Somebody's home directory was named as the cache."""
    theirs = [
        paths.root / ".bashrc",
        paths.root / ".cache" / "x",
        paths.git / "project.git" / "HEAD",
        paths.builds / "linux" / "Makefile",
        paths.builds / ".config" / "x",
        paths.environments / "work" / "pyvenv.cfg",
        paths.uv / "main.py",
        paths.package_lists / "shopping.txt",
        paths.downloads / "film.mkv",
        paths.damaged / "photos" / "x.jpg",
    ]
    for file in theirs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
        os.utime(file, (1, 1))
        os.utime(file.parent, (1, 1))
    assert collect(paths, days=0, size=0) == set()
    assert all(file.read_text() == "mine" for file in theirs)


def test_what_is_held_or_locked_stays(paths):
    used = filled(paths.environments / "used")
    built = filled(paths.builds / "built")
    free = filled(paths.builds / "free")
    holds = Holds()
    holds.hold(used)
    os.utime(mark_of(used), (1, 1))
    with locked(built.with_name("built.lock")):  # as an older kit does, which keeps no marks
        assert collect(paths) == {free}
    holds.release()
    assert collect(paths) == {used, built}


def test_who_goes_through_all_wheels_keeps_each_with_one_lock(paths, tmp_path):
    entries = [stored(paths.root, tmp_path, *names).wheel.parent for names in ((), ("one",))]
    old = time.time() - 40 * DAY
    for path in (path for entry in entries for path in (entry, mark_of(entry)) if path.exists()):
        os.utime(path, (old, old))
    holds = Holds()
    holds.hold(paths.wheels)
    assert collect(paths) == set()
    holds.release()
    assert collect(paths) == set(entries), "and it was no use"


def test_what_was_used_since_it_was_chosen_stays(paths):
    item = filled(paths.builds / "slot")
    items = scan(paths, now_seconds=time.time())
    found = choose(items, now_seconds=time.time(), keep_seconds=0, max_bytes=None)
    short = Holds()
    short.hold(item)
    short.release()
    assert remove_items(found, told=lambda *_: None) == ()
    assert item.exists()


def test_a_hit_is_a_use(paths, tmp_path):
    entry = stored(paths.root, tmp_path)
    old = time.time() - 40 * DAY
    os.utime(entry.wheel.parent, (old, old))
    mark_of(entry.wheel.parent).unlink(missing_ok=True)
    holds = Holds()
    look_up(paths, "toy", entry.key, holds)
    holds.release()
    assert collect(paths) == set()
    os.utime(mark_of(entry.wheel.parent), (old, old))
    assert collect(paths) == {entry.wheel.parent}
    assert list_entries(paths) == ()


def test_temporary_names_of_killed_processes_go_after_a_day(paths, tmp_path):
    entry = stored(paths.root, tmp_path)
    fresh = filled(paths.wheels / "toy" / ".stage.fresh___", days=0)
    stale = filled(paths.wheels / "toy" / ".stage.stale___", days=2)
    trash = filled(paths.builds / ".trash-abcdefgh", days=2)
    part = paths.downloads / ".part-abcdefgh"
    part.parent.mkdir()
    part.write_bytes(b"half")
    os.utime(part, (1, 1))
    Holds().hold(entry.wheel.parent)
    os.utime(mark_of(entry.wheel.parent), (time.time() - 2 * DAY,) * 2)
    assert collect(paths) == {stale, trash, part}
    assert fresh.exists()
    assert mark_of(entry.wheel.parent).exists()


WORKER = """
import random, sys, time
from pathlib import Path
from buildkit.cache import look_up
from buildkit.cache.gc import choose, remove_items, scan
from buildkit.holds import Holds
from buildkit.paths import Paths
from tests.cache.stored import a_plan, stored
root, scratch, role = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
paths, served = Paths(root), 0
turns = 60 if role == "use" else 1_000_000
for turn in range(turns):
    names = random.choice([(), ("one",), ("two",)])
    if role == "collect":
        is_last = (root / "stop").exists()
        found = choose(
            scan(paths, now_seconds=time.time()),
            now_seconds=time.time() + 1, keep_seconds=0, max_bytes=None,
        )
        served += len(remove_items(found, told=lambda *_: None))
        if is_last:
            break
        continue
    holds = Holds()
    entry = look_up(paths, "toy", a_plan(*names).key, holds)
    if entry is None:
        holds.hold(root / "wheels" / "toy" / a_plan(*names).key)
        entry = stored(root, scratch, *names)
    time.sleep(random.random() / 200)
    assert entry.wheel.read_bytes().startswith(b"PK"), "held, and gone"
    served += 1
    holds.release()
print(served)
"""


@pytest.mark.slow
def test_many_makes_and_collectors_at_once(paths, tmp_path):
    roles = ["use"] * 4 + ["collect"] * 2
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, paths.root, tmp_path / str(number), role],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        for number, role in enumerate(roles)
    ]
    results = [worker.communicate(timeout=200) for worker in workers[:4]]
    (paths.root / "stop").touch()
    results += [worker.communicate(timeout=200) for worker in workers[4:]]
    assert [worker.returncode for worker in workers] == [0] * 6, [told for _, told in results]
    assert [int(out) for out, _ in results[:4]] == [60] * 4
    assert sum(int(out) for out, _ in results[4:]) > 0
    assert not paths.damaged.exists(), "nothing whole was taken for damaged"
    assert a_plan().recipe == "toy"
