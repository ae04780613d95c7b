"""What an environment is traced to, and what is refused: real uv, small wheels."""

from __future__ import annotations

import json
import tomllib

import pytest

from buildkit.lock.contents import contents_of_wheel
from buildkit.lock.index import _locked, render_reason
from tests.lock.place import KEY, Place, a_kit_wheel, a_wheel, site, write_index
from tests.wheels.toy import a_wheel as another_wheel


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    wheels = [a_wheel(tmp_path / "files", "alpha"), a_wheel(tmp_path / "files", "gamma")]
    write_index(tmp_path / "index", wheels)
    place.shelf.mkdir()
    place.venv(place.first)
    return place


def lock(place, *args):
    return place.run("lock", "--python", str(place.first), *args)


def packages(place) -> dict[str, dict]:
    return {item["name"]: item for item in tomllib.loads(place.lock.read_text())["packages"]}


def test_a_file_of_the_index_is_found_by_its_tags_and_named_by_its_digest(place):
    place.install(place.first, "alpha")
    done = lock(place, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["packages"] == 1
    (wheel,) = packages(place)["alpha"]["wheels"]
    assert wheel["name"] == "alpha-1.0-py3-none-any.whl"
    assert str(place.root) not in place.lock.read_text()


def test_a_wheel_of_the_kit_brings_the_fields_of_its_key(place):
    wheel = a_kit_wheel(place.root / "dist")
    place.install(place.first, wheel)
    assert lock(place).returncode == 0  # where it lies is known to the installer
    made = packages(place)["kitty"]["tool"]["buildkit"]["made"]
    assert (made["key"], made["recipe"], made["target"]) == (KEY, "kitty", "sm120")
    assert made["fields"]["source"] == "sha256:1234"
    wheel.unlink()
    done = lock(place)
    assert done.returncode == 1
    assert "kitty: its wheel is neither in the cache nor in a directory of wheels" in done.stderr
    a_kit_wheel(place.shelf)
    assert lock(place, "--find-links", str(place.shelf)).returncode == 0


@pytest.mark.parametrize(
    "provenance", [b"[]", b"{}", b'{"key": 5}', b'{"key": "short"}', b'{"recipe": "../x"}']
)
def test_provenance_of_another_kind_is_no_reason_to_fail(place, provenance):
    a_wheel(place.shelf, "other", **{"INFO__buildkit.json": provenance})
    place.install(place.first, "other")
    done = lock(place, "--find-links", str(place.shelf))
    assert done.returncode == 0, done.stderr
    assert "made" not in packages(place)["other"]["tool"]["buildkit"]


def test_everything_that_cannot_be_locked_is_told_at_once(place):
    place.install(place.first, "alpha", "gamma")
    for name, origin in (
        ("one", {"url": "file:///x", "dir_info": {"editable": True}}),
        ("two", {"url": "file:///x", "dir_info": {}}),
        ("three", {"url": "https://x", "vcs_info": {"vcs": "git"}}),
        ("four", {"url": "https://x/y.tar.gz", "archive_info": {}}),
        ("five", None),
    ):
        a_wheel(place.shelf, name)
        place.install(place.first, name)
        if origin is not None:
            info = site(place.first) / f"{name}-1.0.dist-info"
            (info / "direct_url.json").write_text(json.dumps(origin))
    (site(place.first) / "gamma" / "__init__.py").write_text("value = 3\n")
    (site(place.first) / "mine.pth").write_text("import mine\n")
    (site(place.first) / "old.egg-info").mkdir()
    done = lock(place)
    assert done.returncode == 1
    for told in (
        "one: it is an editable install",
        "two: it was built from a directory",
        "three: it was built from a git repository",
        "four: it was built from an archive",
        "five: Because five was not found",
        "gamma: its files are not what was installed (gamma/__init__.py: edited)",
        "mine.pth: it belongs to no distribution",
        "old: it was installed without a wheel",
    ):
        assert told in done.stderr
    assert "alpha:" not in done.stderr
    assert not place.lock.exists()


def test_an_environment_that_sees_another_is_refused(place):
    config = place.first / "pyvenv.cfg"
    text = config.read_text().replace("packages = false", "packages = true")
    config.write_text(text)
    done = lock(place)
    assert done.returncode == 1
    assert "it also imports the packages of another interpreter" in done.stderr


def test_a_wheel_is_known_by_its_contents_not_by_its_name(place):
    place.install(place.first, "alpha")
    a_wheel(place.shelf, "alpha", **{"alpha__more.py": b"another\n"})
    assert lock(place, "--find-links", str(place.shelf)).returncode == 0
    (wheel,) = packages(place)["alpha"]["wheels"]
    page = (place.root / "index" / "alpha" / "index.html").read_text()
    assert f"#sha256={wheel['hashes']['sha256']}" in page


def test_contents_do_not_depend_on_scripts_and_provenance(tmp_path):
    one = a_wheel(tmp_path / "1", "x", **{"INFO__buildkit.json": b"{}"})
    two = a_wheel(tmp_path / "2", "x", **{"x-1.0.data__scripts__x-tool": b"#!python\n"})
    three = a_wheel(tmp_path / "3", "x", **{"x__more.py": b""})
    assert contents_of_wheel(one) == contents_of_wheel(two)
    assert contents_of_wheel(one) != contents_of_wheel(three)
    assert contents_of_wheel(another_wheel(tmp_path, record=b"x,md5=5,1\n")) is None
    (tmp_path / "no.whl").write_bytes(b"no")
    assert contents_of_wheel(tmp_path / "no.whl") is None


def test_addresses_are_written_without_credentials():
    address = "https://user:secret@example.org/x-1.0-py3-none-any.whl?token=1#sha256=2"
    found = _locked({"url": address, "hashes": {"sha256": "ab" * 32}}, "x-1.0-py3-none-any.whl")
    assert found.url == "https://example.org/x-1.0-py3-none-any.whl"
    assert "secret" not in render_reason(f"error: cannot reach {address}")
