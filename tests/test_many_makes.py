"""Many makes at once, of the same wheels and of others, in one cache and one output directory."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildkit.cache import list_entries, look_up
from buildkit.launcher import read_records
from buildkit.paths import Paths
from tests.programs import kit

if TYPE_CHECKING:
    from tests.world import World

RECIPES = ("toy", "toy-b", "toy-c", "toy-d")
PROCESSES = 32


def add_recipes(world: World) -> None:
    """Write further recipes of the same project, each with another source."""
    text = (world.recipes / "toy.toml").read_text()
    for name in RECIPES[1:]:
        shutil.copytree(world.source, world.recipes / name)
        with (world.recipes / name / "src" / "two.c").open("a") as file:
            file.write(f'const char *name(void) {{ return "{name}"; }}\n')
        own = text.replace('name = "toy"', f'name = "{name}"').replace('"toy" }', f'"{name}" }}')
        own = own.replace('version = "1.0"\n', 'version = "1.0"\nproject = "toy"\n', 1)
        (world.recipes / f"{name}.toml").write_text(own)
        shutil.copy(world.recipes / "toy.lock", world.recipes / f"{name}.lock")


@pytest.mark.slow
@pytest.mark.network
def test_one_build_per_key_and_nothing_is_lost(world):
    add_recipes(world)
    options = ("--arch", "sm120", "--json", "--out", str(world.out))
    makes = [
        subprocess.Popen(
            kit("make", RECIPES[number % len(RECIPES)], *options),
            env=world.environment,
            cwd=world.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    told = [make.communicate(timeout=600) for make in makes]
    assert [make.returncode for make in makes] == [0] * PROCESSES, [err for _, err in told]
    made = [json.loads(out) for out, _ in told]
    built = Counter(each["key"] for each in made if not each["cached"])
    assert len(built) == len(RECIPES)
    assert set(built.values()) == {1}, "one build per key"

    paths = Paths(world.cache)
    entries = {entry.note.key: entry for entry in list_entries(paths)}
    assert entries.keys() == built.keys()
    for each in made:
        assert each["sha256"] == entries[each["key"]].note.sha256
        wheel = Path(each["wheel"])
        assert wheel.read_bytes() == entries[each["key"]].wheel.read_bytes()
    for entry in entries.values():
        assert look_up(paths, entry.note.recipe, entry.note.key) is not None
    for slot in paths.builds.glob("*/"):
        units = Counter(unit.source for unit in read_records(slot / "records.jsonl") if unit.source)
        assert set(units.values()) == {1}, "each file was compiled once"
    assert not paths.damaged.exists()
    assert sorted(path.name for path in world.out.iterdir()) == sorted(
        entry.wheel.name for entry in entries.values()
    )
