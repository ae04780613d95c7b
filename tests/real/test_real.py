"""Real packages, built whole or in part. Some twenty minutes: `python -m pytest -m real`.

The user's own cache is used, so that torch is fetched once; each build starts without objects.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from buildkit.fs import remove_tree
from buildkit.launcher import read_records
from buildkit.paths import paths_from
from tests.programs import kit

pytestmark = [pytest.mark.real, pytest.mark.timeout(0)]

RECIPES = Path(__file__).parent / "recipes"


def slots(recipe: str) -> list[Path]:
    return [path for path in paths_from(os.environ).builds.glob(f"{recipe}-*") if path.is_dir()]


def code_of(wheel: str) -> set[str]:
    done = subprocess.run(kit("verify", wheel, "--json"), capture_output=True, check=True)
    return {name for library in json.loads(done.stdout)["libraries"] for name in library["sass"]}


def test_causal_conv1d_is_built_for_sm120_alone(tmp_path):
    args = ("make", "causal-conv1d", "--arch", "sm120", "--clean", "--out", str(tmp_path))
    done = subprocess.run(kit(*args), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 pinned, 0 kept" in done.stderr
    assert code_of(done.stdout.strip()) == {"sm_120"}


def test_flash_attn_is_killed_and_resumed_with_no_object_compiled_twice(tmp_path):
    args = kit(
        *("make", "flash-attn-twelve", "--arch", "sm120", "--recipes", str(RECIPES)),
        *("--out", str(tmp_path)),
    )
    for slot in slots("flash-attn-twelve"):
        remove_tree(slot)
    first = subprocess.Popen(args, start_new_session=True)

    def compiled() -> Counter[str]:
        units = [
            unit
            for slot in slots("flash-attn-twelve")
            for unit in read_records(slot / "records.jsonl")
        ]
        return Counter(unit.source for unit in units if unit.source)

    while len(compiled()) < 7:
        assert first.poll() is None, "it ended before it could be killed"
        time.sleep(1)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = compiled()
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = compiled()
    assert len(after) == 13
    assert set(after.values()) == {1}
    assert before.keys() < after.keys()
    assert code_of(done.stdout.strip()) == {"sm_120"}
