"""The store serves whole wheels or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from buildkit.cache import look_up, nearest_fields, store_wheel
from buildkit.digest import digest_file
from buildkit.errors import CacheError
from buildkit.paths import Paths
from buildkit.values import GpuCode, ImportPassed, VerifiedWheel
from tests.cache.stored import a_plan

if TYPE_CHECKING:
    from pathlib import Path


def a_wheel(folder: Path, content: bytes = b"wheel") -> VerifiedWheel:
    path = folder / "toy-1.0-py3-none-linux_x86_64.whl"
    path.write_bytes(content)
    return VerifiedWheel(
        path=path,
        sha256=digest_file(path),
        gpu_code=(
            GpuCode(library="a.so", sass=("sm_120a",), ptx=()),
            GpuCode(library="b.so", sass=("sm_120", "sm_120a"), ptx=()),
        ),
        imports=ImportPassed(modules=("toy",)),
    )


def test_what_is_stored_is_found_by_its_key_alone(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    assert look_up(paths, "toy", a_plan().key) is None
    stored = store_wheel(paths, a_plan(), a_wheel(tmp_path))
    found = look_up(paths, "toy", a_plan().key)
    assert found == stored
    assert found.wheel.read_bytes() == b"wheel"
    assert found.targets == ("sm_120", "sm_120a")
    assert found.verdict == "code verified, import ok"
    assert look_up(paths, "toy", a_plan("fix").key) is None


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    store_wheel(paths, a_plan(), a_wheel(tmp_path, b"first"))
    store_wheel(paths, a_plan(), a_wheel(tmp_path, b"second"))
    found = look_up(paths, "toy", a_plan().key)
    assert found is not None
    assert found.wheel.read_bytes() == b"first"


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove", "entry", "empty entry", "no entry"])
def test_a_damaged_entry_is_set_aside_and_can_be_stored_again(tmp_path: Path, harm: str) -> None:
    paths = Paths(tmp_path / "cache")
    entry = store_wheel(paths, a_plan(), a_wheel(tmp_path))
    document = entry.wheel.with_name("entry.json")
    match harm:
        case "flip":
            entry.wheel.write_bytes(b"Wheel")
        case "truncate":
            entry.wheel.write_bytes(b"whe")
        case "remove":
            entry.wheel.unlink()
        case "entry":
            document.write_text("{nonsense")
        case "empty entry":
            document.write_text(json.dumps({}))
        case "no entry":
            document.unlink()
    assert look_up(paths, "toy", a_plan().key) is None
    assert len(list(paths.damaged.iterdir())) == 1
    store_wheel(paths, a_plan(), a_wheel(tmp_path))
    assert look_up(paths, "toy", a_plan().key) is not None


def test_the_nearest_entry_explains_a_miss(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    assert nearest_fields(paths, "toy", a_plan().key_fields) is None
    store_wheel(paths, a_plan("one"), a_wheel(tmp_path))
    store_wheel(paths, a_plan("one", "two", "three"), a_wheel(tmp_path))
    wanted = a_plan("one", "two").key_fields
    assert nearest_fields(paths, "toy", wanted) in (
        a_plan("one").key_fields,
        a_plan("one", "two", "three").key_fields,
    )
    assert nearest_fields(paths, "toy", a_plan().key_fields) == a_plan("one").key_fields


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the cache should be")
    with pytest.raises(CacheError, match="BUILDKIT_CACHE") as caught:
        store_wheel(Paths(tmp_path / "cache"), a_plan(), a_wheel(tmp_path))
    assert str(tmp_path / "cache") in str(caught.value)


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_no_entry(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
import os
from buildkit import fs
from tests.cache.test_store import a_plan, a_wheel, store_wheel, Paths
import buildkit.cache.store as store
def slow(source, destination):
    fs.clone_file(source, destination)
    os.kill(os.getpid(), 9)
store.clone_file = slow
store_wheel(Paths(Path({str(tmp_path)!r}) / "cache"), a_plan(), a_wheel(Path({str(tmp_path)!r})))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    paths = Paths(tmp_path / "cache")
    assert look_up(paths, "toy", a_plan().key) is None
    assert not paths.damaged.exists()
    store_wheel(paths, a_plan(), replace(a_wheel(tmp_path)))
    assert look_up(paths, "toy", a_plan().key) is not None
