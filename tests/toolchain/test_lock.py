"""Locks of environments: made, read, refused when stale, and installed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest

from buildkit.errors import RecipeError, ToolchainError
from buildkit.kit import Supply
from buildkit.paths import Paths, data_root
from buildkit.run import ProcessRunner
from buildkit.toolchain import environment as environments
from buildkit.toolchain.cuda import WHEELS
from buildkit.toolchain.cuobjdump import WHEEL
from buildkit.toolchain.environment import ensure_environment
from buildkit.toolchain.lock import download_bytes, parse_versions, read_lock, resolve_lock
from buildkit.toolchain.python import probe_python
from buildkit.values import EnvLock, IndexSettings
from tests.builders import a_digest, a_python
from tests.fakes import RecordingEvents, ScriptedRunner

TEXT = """\
# buildkit lock 1 sha256:0
# bytes a 1000
# bytes b 10
a==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:00
a==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:01
b==3.0 ; sys_platform == 'win32' \\
    --hash=sha256:02
C_d==4.0 \\
    --hash=sha256:03
"""


def test_versions_are_those_that_apply():
    assert parse_versions(TEXT, a_python(version="3.11.7")) == {"a": "1.0", "c-d": "4.0"}
    assert parse_versions(TEXT, a_python(version="3.12.1"))["a"] == "2.0"


def test_the_download_counts_what_applies():
    lock = EnvLock(text=TEXT, digest=a_digest(), versions={"a": "1.0", "c-d": "4.0"})
    assert download_bytes(lock) == 1000


def test_a_missing_or_stale_lock_says_what_to_run(tmp_path):
    with pytest.raises(RecipeError, match="buildkit pin toy"):
        read_lock(tmp_path / "toy.lock", ["a"], a_python(), name="toy", memo=tmp_path)
    (tmp_path / "toy.lock").write_text(TEXT)
    with pytest.raises(RecipeError, match="for other requirements than a"):
        read_lock(tmp_path / "toy.lock", ["a"], a_python(), name="toy", memo=tmp_path)


@pytest.mark.parametrize(("name", "wanted"), [("13.0", WHEELS), ("cuobjdump", WHEEL)])
def test_the_locks_of_the_toolkit_fit_and_name_no_host(tmp_path, name, wanted):
    file = data_root() / "recipes" / "cuda" / f"{name}.lock"
    lock = read_lock(file, wanted, a_python(), name="cuda", memo=tmp_path)
    assert len(lock.versions) >= len(wanted)
    assert "://" not in lock.text
    assert download_bytes(lock) > 100_000


@pytest.fixture
def world(tmp_path):
    """An index of files with one wheel, and everything that resolving and installing takes."""
    index = tmp_path / "index" / "tiny"
    index.mkdir(parents=True)
    import zipfile

    with zipfile.ZipFile(index / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "x = 1\n")
        wheel.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(
            "tiny-1.0.dist-info/RECORD",
            "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n",
        )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return Supply(
        paths=Paths(tmp_path / "a cache"),
        runner=ProcessRunner(),
        settings=IndexSettings(find_links=(str(index),), no_index=True),
        environment=environment,
        events=RecordingEvents(),
        is_offline=False,
    )


def test_a_range_is_resolved_and_becomes_an_environment(tmp_path, world):
    text = resolve_lock(["tiny>=0.5"], world)
    assert "tiny==1.0" in text
    file = tmp_path / "toy.lock"
    file.write_text(text)
    python = probe_python(
        None, runner=world.runner, environment=world.environment, memo=tmp_path / "memo"
    )
    lock = read_lock(file, ["tiny>=0.5"], python, name="toy", memo=tmp_path / "memo")
    root = ensure_environment(lock, python, world)
    done = subprocess.run(
        [root / "bin" / "python", "-c", "import tiny; print(tiny.x)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    # The second call starts nothing: a runner that may not be used proves it.
    again = ensure_environment(lock, python, replace(world, runner=ScriptedRunner({})))
    assert again == root
    # One that a kill left half done is made anew.
    (root / ".buildkit-complete").unlink()
    (root / "bin" / "python").unlink()
    assert ensure_environment(lock, python, world) == root
    assert (root / "bin" / "python").exists()


def test_what_cannot_be_resolved_or_installed_is_told(tmp_path, world):
    with pytest.raises(ToolchainError, match=r"tiny>=2 cannot be resolved"):
        resolve_lock(["tiny>=2"], world)
    python = probe_python(
        None, runner=world.runner, environment=world.environment, memo=tmp_path / "memo"
    )
    text = "absent==1.0 --hash=sha256:" + "0" * 64 + "\n"
    lock = EnvLock(text=text, digest=a_digest(text), versions={"absent": "1.0"})
    with pytest.raises(ToolchainError, match="absent"):
        ensure_environment(lock, python, world)


def test_an_environment_that_cannot_fit_is_refused_before_fetching(tmp_path, world, monkeypatch):
    python = probe_python(
        None, runner=world.runner, environment=world.environment, memo=tmp_path / "memo"
    )
    text = f"# bytes absent {1 << 60}\nabsent==1.0 --hash=sha256:{'0' * 64}\n"
    lock = EnvLock(text=text, digest=a_digest(text), versions={"absent": "1.0"})
    with pytest.raises(ToolchainError, match=r"needs about .* TiB, found .* free at"):
        ensure_environment(lock, python, world)
    small = EnvLock(text="absent==1.0\n", digest=a_digest("s"), versions={"absent": "1.0"})
    monkeypatch.setattr(environments, "INODES", 1 << 60)
    with pytest.raises(ToolchainError, match="inodes"):
        ensure_environment(small, python, world)
