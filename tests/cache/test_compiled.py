"""What ccache is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from buildkit.cache import compiled
from buildkit.cache.compiled import ObjectCache, ccache_binary
from buildkit.cache.gc import scan
from buildkit.errors import ToolchainError
from buildkit.fs import write_atomic
from buildkit.paths import Paths


def a_cache(root: Path) -> ObjectCache:
    return ObjectCache(
        program=Path("/kit/ccache"), folder=root / "objects", root=root, toolchain="d", search=()
    )


def test_directories_below_the_cache_may_move_and_others_may_not(tmp_path):
    maps = [(tmp_path / "builds/x", "/buildkit"), (Path("/opt/cuda"), "/buildkit/cuda")]
    engine = a_cache(tmp_path).engine(maps)
    assert engine.variables["CCACHE_BASEDIR"] == str(tmp_path / "builds/x")
    assert engine.variables["CCACHE_DIR"] == str(tmp_path / "objects")


def test_a_dollar_in_a_path_stays_one():
    engine = a_cache(Path("/cache/$HOME")).engine([])
    assert engine.variables["CCACHE_DIR"] == "/cache/$$HOME/objects"


def test_the_ccache_of_the_kit_takes_every_setting(tmp_path):
    engine = a_cache(tmp_path).engine([])
    done = subprocess.run(
        [ccache_binary(), "--show-config"],
        env={**engine.variables, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    settings = dict(line.split(") ", 1)[1].split(" =", 1) for line in done.stdout.splitlines())
    told = {name: value.strip() for name, value in settings.items()}
    assert told["depend_mode"] == "true"
    assert told["prefix_command"] == "bk-admit"
    assert told["cache_dir"] == str(tmp_path / "objects")
    assert told["sloppiness"] == told["ignore_options"] == told["extra_files_to_hash"] == ""
    assert told["inode_cache"] == "false"
    assert told["hash_dir"] == "false"


def test_a_kit_without_ccache_says_so(monkeypatch):
    monkeypatch.setattr(compiled, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(ToolchainError, match="ccache") as caught:
        ccache_binary()
    assert "--object-cache off" in caught.value.remedy


def test_the_collector_knows_the_objects_by_their_tag(tmp_path):
    paths = Paths(tmp_path)
    write_atomic(paths.objects / "0" / "x", b"object")
    assert scan(paths, now_seconds=0) == ()
    write_atomic(paths.objects / "CACHEDIR.TAG", compiled.CACHE_TAG)
    assert [item.kind for item in scan(paths, now_seconds=0)] == ["objects"]
