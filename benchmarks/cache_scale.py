"""The wheel cache with many entries: how long each command takes, beside a cache of a tenth.

    python benchmarks/cache_scale.py DIR [--entries 100000] [--json FILE]

Fills a cache below DIR with tiny wheels of one real plan's key fields, each with another patch
digest, and runs the commands that a user would. The last column is how much longer a command took
with ten times the entries.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from buildkit.cache.note import ENTRY, EntryNote, render_note
from buildkit.cache.store import look_up
from buildkit.digest import digest_bytes, digest_value
from buildkit.paths import Paths
from buildkit.values import KeyField

if TYPE_CHECKING:
    from buildkit.digest import Digest

RECIPE = "demo-kernel"
LOOKUPS = 1000


def plan_fields() -> list[KeyField]:
    """Return the key fields of a real plan."""
    command = [sys.executable, "-m", "buildkit", "plan", RECIPE, "--arch", "sm120", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    fields = json.loads(done.stdout)["key_fields"]
    return [KeyField(name=name, value=value) for name, value in fields.items()]


def tiny_wheel(version: str) -> bytes:
    """Return a wheel that an index can show."""
    folder = f"demo_kernel-{version}.dist-info"
    members = {
        "METADATA": f"Metadata-Version: 2.1\nName: demo-kernel\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in members.items():
        digest = urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{folder}/{name},sha256={digest},{len(text)}\n"
    members["RECORD"] = f"{record}{folder}/RECORD,,\n"
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in members.items():
            archive.writestr(f"{folder}/{name}", text)
    return data.getvalue()


def fill(paths: Paths, fields: list[KeyField], numbers: range) -> list[Digest]:
    """Write entries as the store lays them out, without its waits for the disk."""
    keys = []
    for number in numbers:
        own = (*fields, KeyField(name="patch", value=f"number {number}"))
        key = digest_value([[field.name, field.value] for field in own])
        version = f"1.0.0+cu130.sm120.k{key[:8]}"
        data = tiny_wheel(version)
        note = EntryNote(
            recipe=RECIPE,
            key=key,
            wheel=f"demo_kernel-{version}-py3-none-any.whl",
            sha256=digest_bytes(data),
            verdict="",
            targets=("sm_120",),
            fields=own,
        )
        folder = paths.wheels / RECIPE / key
        folder.mkdir(parents=True)
        (folder / note.wheel).write_bytes(data)
        (folder / ENTRY).write_bytes(render_note(note))
        keys.append(key)
    return keys


def run(*arguments: str, env: dict[str, str]) -> float:
    """Return the seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "buildkit", *arguments],
        env=env,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def measure(root: Path, keys: list[Digest], index: Path) -> dict[str, float]:
    """Return the seconds of each act."""
    paths = Paths(root)
    env = {**os.environ, "BUILDKIT_CACHE": str(root)}
    asked = random.Random(1).sample(keys, min(LOOKUPS, len(keys)))
    hits, misses = [], []
    for key in asked:
        start = time.perf_counter()
        found = look_up(paths, RECIPE, key)
        hits.append(time.perf_counter() - start)
        if found is None:
            raise SystemExit(f"{key} was not found")
        start = time.perf_counter()
        look_up(paths, RECIPE, digest_value(key))
        misses.append(time.perf_counter() - start)
    return {
        "look-up, hit": median(hits),
        "look-up, miss": median(misses),
        "cache list": run("cache", "list", env=env),
        "plan --explain": run("plan", RECIPE, "--arch", "sm120", "--explain", env=env),
        "cache gc, nothing to do": run("cache", "gc", "--keep-days", "30", env=env),
        "cache index": run("cache", "index", str(index), env=env),
        "cache index, again": run("cache", "index", str(index), env=env),
    }


def main() -> None:
    """Fill, measure at a tenth and at the whole, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    root = given.folder.absolute() / "cache"
    fields = plan_fields()
    tenth = given.entries // 10
    keys = fill(Paths(root), fields, range(tenth))
    few = measure(root, keys, given.folder / "index-few")
    keys += fill(Paths(root), fields, range(tenth, given.entries))
    many = measure(root, keys, given.folder / "index")
    env = {**os.environ, "BUILDKIT_CACHE": str(root)}
    many["cache gc, all goes"] = run("cache", "gc", "--max-size", "1KiB", env=env)
    print(f"{'':<26}{tenth:>10}{given.entries:>10}   ratio")
    for name, seconds in many.items():
        before = few.get(name)
        shown = (f"{before:>10.4f}", f"{seconds / before:>8.1f}") if before else (" " * 10, "")
        print(f"{name:<26}{shown[0]}{seconds:>10.4f}{shown[1]}")
    if given.json is not None:
        given.json.write_text(json.dumps({"few": few, "many": many}, indent=2))


if __name__ == "__main__":
    main()
