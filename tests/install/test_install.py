"""Installing into real environments: real uv, small wheels, a package index on the disk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from buildkit.install.swap import Stage
from tests.lock.place import Place, a_wheel, site, write_index
from tests.machine import needs_mounts
from tests.programs import kit


def requiring(folder: Path, name: str, version: str, *requires: str, **files: bytes) -> Path:
    lines = "".join(f"Requires-Dist: {item}\n" for item in requires)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
    return a_wheel(folder, name, version, INFO__METADATA=text.encode(), **files)


class Site(Place):
    """A directory with spaces in its name: an index, wheels that were made, an environment."""

    @property
    def env(self) -> Path:
        return self.root / "my env"

    def install_made(self, *args: str | Path, **variables: str):
        return self.run("install", *map(str, args), "--python", str(self.env), **variables)

    def versions(self) -> dict[str, str]:
        found = {}
        for folder in site(self.env).glob("*.dist-info"):
            name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            found[name] = version
        return found

    def everything(self) -> dict[str, tuple[bytes, int]]:
        """Return every file of the environment, with its contents and its time."""
        return {
            str(path.relative_to(self.env)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in self.env.rglob("*")
            if path.is_file() and not path.is_symlink() and path.name != ".lock"
        }


@pytest.fixture
def place(tmp_path):
    """The index has torch of three versions, and alpha, which only needs some torch."""
    found = Site(tmp_path / "a b")
    files = found.root / "files"
    wheels = [a_wheel(files, "torch", version) for version in ("2.9.1", "2.14.0", "2.14.1")]
    wheels += [requiring(files, "alpha", "1.0", "torch"), a_wheel(files, "gamma", "2.0")]
    found.shelf.mkdir()
    write_index(found.root / "index", wheels)
    found.venv(found.env)
    return found


def made(place: Site, name: str, *requires: str, version: str = "1.0", **files: bytes) -> Path:
    return requiring(place.root / "made", name, f"{version}+k1a2b3c4d", *requires, **files)


def test_a_wheel_comes_with_what_it_requires_and_is_there_with_its_program(place):
    wheel = made(place, "kernels", "torch==2.9.*", "alpha")
    done = place.install_made(wheel)
    assert done.returncode == 0, done.stderr
    assert place.versions() == {"kernels": "1.0+k1a2b3c4d", "torch": "2.9.1", "alpha": "1.0"}
    program = place.env / "bin" / "kernels-tool"
    told = subprocess.run([program], capture_output=True, text=True, check=False)
    assert told.stdout == "hi\n"
    assert "not verified: the import" in done.stdout
    assert "no recipe names a module" in done.stdout
    assert list(place.env.glob(".buildkit*")) == []
    # What was installed is what its own RECORD says, for pip to take away again.
    done = place.run("lock", "--python", str(place.env), "--find-links", str(wheel.parent))
    assert done.returncode == 0, done.stderr


def test_what_changes_is_told_before_and_a_second_time_changes_nothing(place):
    place.install(place.env, "torch==2.14.0", "alpha")
    wheel = made(place, "kernels", "torch==2.9.*")
    before = place.everything()
    done = place.install_made(wheel, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"] == [
        {"name": "kernels", "before": None, "after": "1.0+k1a2b3c4d"},
        {"name": "torch", "before": "2.14.0", "after": "2.9.1"},
    ]
    assert place.everything() == before
    done = place.install_made(wheel)
    assert done.returncode == 0, done.stderr
    assert "torch 2.14.0 -> 2.9.1" in done.stdout
    assert place.versions()["torch"] == "2.9.1"
    assert "2.9.1" in (site(place.env) / "torch" / "more.py").read_text()
    after = place.everything()
    done = place.install_made(wheel)
    assert done.stdout.endswith("nothing to change\n")
    assert place.everything() == after


def test_an_installed_torch_that_fits_stays(place):
    place.install(place.env, "torch==2.14.0")
    done = place.install_made(made(place, "kernels", "torch==2.14.*"))
    assert done.returncode == 0, done.stderr
    assert place.versions()["torch"] == "2.14.0"


def test_a_wheel_of_the_same_version_with_other_contents_is_installed_anew(place):
    first = made(place, "kernels")
    assert place.install_made(first).returncode == 0
    made(place, "kernels", kernels__more=b"text")
    done = place.install_made(first)
    assert "kernels 1.0+k1a2b3c4d, anew" in done.stdout
    assert (site(place.env) / "kernels" / "more").read_bytes() == b"text"


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (
            {"more": ("torch==2.14.*",)},
            "kernels 1.0+k1a2b3c4d requires torch==2.9.*, and more 1.0+k1a2b3c4d requires"
            " torch==2.14.*",
        ),
        (
            {"serving": ("kernels==0.9",)},
            "serving 1.0+k1a2b3c4d requires kernels==0.9, and found kernels 1.0+k1a2b3c4d",
        ),
        ({"lonely": ("nowhere",)}, "nowhere was not found in the package registry"),
    ],
)
def test_two_that_disagree_are_named_and_nothing_changes(place, others, told):
    wheels = [made(place, "kernels", "torch==2.9.*")]
    wheels += [made(place, name, *requires) for name, requires in others.items()]
    before = place.everything()
    done = place.install_made(*wheels)
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("error:") == 1
    assert place.everything() == before


def test_an_installed_package_is_not_broken_silently(place):
    own = requiring(place.root / "own", "serving", "3.0", "torch==2.14.1")
    place.install(place.env, own)
    before = place.everything()
    done = place.install_made(made(place, "kernels", "torch==2.9.*"))
    assert done.returncode == 1
    assert (
        "serving 3.0 (installed) requires torch==2.14.1, and kernels 1.0+k1a2b3c4d requires"
        " torch==2.9.*"
    ) in done.stderr
    assert place.everything() == before


def test_what_installed_packages_require_is_respected_where_there_is_a_choice(place):
    own = requiring(place.root / "own", "serving", "3.0", "torch<2.14.1")
    place.install(place.env, own, "torch==2.9.1")
    done = place.install_made(made(place, "kernels", "torch>=2.14"))
    assert done.returncode == 0, done.stderr
    assert place.versions()["torch"] == "2.14.0"


def test_a_package_that_is_broken_already_is_not_in_the_way(place):
    own = requiring(place.root / "own", "serving", "3.0", "torch==1.0")
    place.install(place.env, "torch==2.9.1")
    place._uv("pip", "install", "--no-deps", "--python", place.env, own)
    done = place.install_made(made(place, "kernels", "torch==2.14.*"))
    assert done.returncode == 0, done.stderr


def test_files_of_two_packages_by_one_name_come_back_after_a_failure(place, monkeypatch):
    """The swap itself fails in the middle: a file cannot be moved in."""
    place.install(place.env, "torch==2.14.0", "gamma")
    before = place.everything()
    stage_folder = place.env / ".buildkit-install-test"
    stage = Stage(stage_folder)
    root = site(place.env).relative_to(place.env)
    for name in ("gamma/__init__.py", "zeta/deep/file.py"):
        file = stage.new / root / name
        file.parent.mkdir(parents=True)
        file.write_text("new")
    # A directory that stands where a file is to go.
    (site(place.env) / "zzz").mkdir()
    (site(place.env) / "zzz" / "keep").write_text("")
    (stage.new / root / "zzz").write_text("in the way")
    before = place.everything() | {}
    old = [path for path in (site(place.env) / "torch").rglob("*") if path.is_file()]
    monkeypatch.setattr("buildkit.install.swap._move", _fails_at("zzz"))
    with pytest.raises(OSError, match="no space"):
        stage.swap(old)
    assert not (site(place.env) / "torch" / "__init__.py").exists()
    monkeypatch.undo()
    Stage(stage_folder).undo()
    assert {name for name in place.everything() if "buildkit-install" in name} == set()
    assert {k: v for k, v in before.items() if "buildkit-install" not in k} == place.everything()
    assert not (site(place.env) / "zeta").exists()


def _fails_at(name: str):
    from buildkit.install.swap import _move

    def move(source: Path, target: Path) -> None:
        if target.name == name:
            raise OSError(28, "no space", str(target))
        _move(source, target)

    return move


def test_a_killed_installation_is_taken_back_by_the_next(place, monkeypatch):
    place.install(place.env, "torch==2.14.0")
    before = place.everything()
    folder = place.env / ".buildkit-install-killed"
    stage = Stage(folder)
    target = stage.new / site(place.env).relative_to(place.env) / "torch" / "zzz"
    target.parent.mkdir(parents=True)
    target.write_text("new")
    old = [path for path in (site(place.env) / "torch").rglob("*") if path.is_file()]
    monkeypatch.setattr("buildkit.install.swap._move", _fails_at("zzz"))
    with pytest.raises(OSError, match="no space"):
        stage.swap(old)
    done = place.install_made(made(place, "kernels"))
    assert done.returncode == 0, done.stderr
    assert "A killed installation was taken back first" in done.stderr
    after = place.everything()
    assert {name: after.get(name) for name in before} == before
    assert not folder.exists()


def test_a_missing_file_of_the_index_leaves_the_environment_as_it_was(place):
    place.install(place.env, "torch==2.14.0")
    before = place.everything()
    wheel = made(place, "kernels", "torch==2.9.*")
    # The index still lists it, with a digest that the file no longer has.
    a_wheel(place.root / "files", "torch", "2.9.1", torch__more=b"other bytes")
    done = place.install_made(wheel)
    assert done.returncode == 1
    assert place.everything() == before
    assert "The environment is as it was" in done.stderr


def test_offline_takes_what_is_here_and_says_what_is_not(place):
    done = place.install_made(made(place, "kernels"), "--offline")
    assert done.returncode == 0, done.stderr
    before = place.everything()
    (place.root / "index").rename(place.root / "gone")
    done = place.install_made(made(place, "more", "torch==2.9.*"), "--offline")
    assert done.returncode == 1
    assert "Run it once without --offline" in done.stderr
    assert place.everything() == before


class TestWhere:
    """Which environments may be installed into."""

    def test_the_interpreter_of_an_environment_names_it_too(self, place):
        wheel = made(place, "kernels")
        python = str(place.env / "bin" / "python")
        done = place.run("install", str(wheel), "--python", python)
        assert done.returncode == 0, done.stderr
        assert "kernels" in place.versions()

    @pytest.mark.skipif(
        not any(Path("/usr/lib").glob("python3.*/EXTERNALLY-MANAGED")),
        reason="no Python of the system that says so",
    )
    def test_the_system_s_python_is_not_ours_to_change(self, place):
        (mark, *_) = Path("/usr/lib").glob("python3.*/EXTERNALLY-MANAGED")
        done = place.run(
            "install", str(made(place, "kernels")), "--python", f"/usr/bin/{mark.parent.name}"
        )
        assert done.returncode == 2
        assert "(PEP 668)" in done.stderr
        assert "python3 -m venv DIR" in done.stderr

    @pytest.mark.parametrize("spec", ["nowhere", "index"])
    def test_what_is_no_environment_is_told(self, place, spec):
        done = place.run("install", str(made(place, "kernels")), "--python", spec)
        assert done.returncode == 2
        assert "allowed an environment's directory or its interpreter" in done.stderr

    @needs_mounts
    def test_a_read_only_environment_is_refused_before_anything(self, place):
        wheel = made(place, "kernels")
        script = (
            'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" "$1" || exit 77;'
            ' shift; exec "$@"'
        )
        command = kit("install", str(wheel), "--python", str(place.env))
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", place.env, *command],
            env=place.environment,
            cwd=place.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "The environment cannot be changed: Read-only file system" in done.stderr
