"""What the kit's own wheel and sdist hold."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from buildkit.launcher import binary
from buildkit.paths import data_root

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone: only what is committed or staged is packed, so a forgotten file shows."""
    folder = tmp_path_factory.mktemp("clone") / "a clone"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out]
    subprocess.run([*pip, clone], check=True)
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_is_for_every_python_of_one_platform(wheel):
    assert "-py3-none-linux_" in wheel.name


def test_the_wheel_holds_programs_recipes_and_patches_and_no_native_source(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    for program in ("bk-launch", "bk-isolate"):
        assert modes[f"buildkit/bin/{program}"] & 0o111
    assert "buildkit/bin/native.sha256" in names
    assert "buildkit/data/recipes/demo-kernel.toml" in names
    assert {"buildkit/governor/page.css", "buildkit/governor/page.js"} <= names
    assert "buildkit/data/recipes/demo-kernel.lock" in names
    assert "buildkit/data/recipes/demo-kernel/src/saxpy.cu" in names
    assert "buildkit/data/recipes/cuda/13.0.lock" in names
    assert "buildkit/data/patches/README.md" in names
    assert "buildkit/recipe/model.py" in names
    assert "buildkit/data/recipes/sgl-kernel/absent/mscclpp.cc" in names
    absent = "buildkit/data/recipes/vllm/absent"
    assert {f"{absent}/nothing/README.md", f"{absent}/flash-attention/CMakeLists.txt"} <= names
    ours = [name for name in names if not name.startswith("buildkit/data/recipes/")]
    assert not [name for name in ours if name.endswith((".cc", ".h", ".toml.orig"))]
    assert not [name for name in names if name.startswith(("tests/", "buildkit/native"))]


def test_the_installed_wheel_works_away_from_the_checkout(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", wheel]
    subprocess.run(pip, check=True, cwd=tmp_path)
    command = tmp_path / "venv" / "bin" / "buildkit"
    done = subprocess.run(
        [command, "list"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "demo-kernel" in done.stdout
    ask = "from buildkit.launcher import binary; print(binary('bk-launch'))"
    done = subprocess.run(
        [python, "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert str(tmp_path) in done.stdout


def test_the_sdist_holds_what_the_wheel_is_made_from(clone, tmp_path):
    code = "import scikit_build_core.build as b, sys; print(b.build_sdist(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-m", "venv", tmp_path / "venv"], check=True, capture_output=True
    )
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "scikit-build-core>=1.0"]
    subprocess.run(pip, check=True)
    done = subprocess.run(
        [python, "-c", code, tmp_path], cwd=clone, capture_output=True, text=True, check=True
    )
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CMakeLists.txt", "buildkit/native/launch.cc", "recipes/demo-kernel.toml"} <= names
    assert not [name for name in names if name.startswith(".ci")]


def test_an_editable_install_takes_recipes_from_the_checkout():
    assert data_root() == ROOT, "the tests run on an editable install, as the README says"
    assert binary("bk-launch").is_file()
