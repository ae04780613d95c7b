"""A lock as a file: what other tools read in it, and what is noticed when it was changed."""

from __future__ import annotations

import tomllib

import pytest
import tomlkit

from buildkit.cli.app import run
from buildkit.errors import LockError, LockFileError
from buildkit.lock import file as story
from buildkit.lock.compare import misfits
from buildkit.lock.file import package_document, parse_lock, refuse_foreign, render_lock
from buildkit.lock.model import Interpreter
from tests.builders import a_digest

PYTHON = Interpreter(version="3.11.7", tag="cp311", platform="linux_x86_64", libc="glibc-2.36")


def a_package(name: str = "alpha", version: str = "1.0", **notes) -> dict:
    wheel = {
        "name": f"{name}-{version}-py3-none-any.whl",
        "hashes": {"sha256": a_digest(name)},
        "url": f"https://example.org/{name}-{version}-py3-none-any.whl",
    }
    values = {"name": name, "version": version, "wheels": [wheel]}
    return package_document(values, {"contents": a_digest("contents")} | notes)


def a_lock_text(*packages: dict) -> str:
    made = {
        "key": a_digest("key"),
        "recipe": "kitty",
        "fields": {"key format": "1", "tool g++": "12.2 sha256:1234"},
    }
    patched = {"patches": {"two": a_digest("two")}, "files": {"x/y z.py": a_digest("y")}}
    return render_lock(
        PYTHON, packages or (a_package(), a_package("beta", made=made, patched=patched))
    )


def forged(change) -> str:
    """Return a changed lock whose digests are right."""
    document = tomllib.loads(a_lock_text())
    change(document)
    for package in document["packages"]:
        package["tool"]["buildkit"]["digest"] = story._digest_of_package(package)
    document["tool"]["buildkit"]["digest"] = story._digest_of_lock(document)
    return tomlkit.dumps(document)


def test_what_is_written_is_read():
    lock = parse_lock(a_lock_text(), "x")
    assert lock.python == PYTHON
    alpha, beta = lock.packages
    assert alpha.notes.made is None
    assert beta.notes.made.fields["tool g++"] == "12.2 sha256:1234"
    assert list(beta.notes.patched.files) == ["x/y z.py"]


def test_it_is_a_pylock_for_other_tools_too():
    pylock = pytest.importorskip("packaging.pylock")
    document = pylock.Pylock.from_dict(tomllib.loads(a_lock_text()))
    assert [package.name for package in document.packages] == ["alpha", "beta"]


def test_no_line_can_go_unnoticed():
    lines = a_lock_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith("#"):
            with pytest.raises(LockFileError):
                parse_lock("".join(lines[:number] + lines[number + 1 :]), "x")


@pytest.mark.parametrize(
    ("old", "new", "place", "told"),
    [
        ('"1.0"\nwheels', '"1.1"\nwheels', "8 (packages[0])", "The entry of alpha was changed"),
        ('name = "alpha"\n', "name = 3\n", "9 (packages[0].name)", "Expected str, got int"),
        ('name = "alpha"\n', 'name = "alpha"\nx = 1\n', "8 (packages[0])", "unknown field x"),
        ("schema = 1", "schema = 2", "(tool.buildkit.schema)", "found 2, allowed 1"),
        ('lock-version = "1.0"', 'lock-version = "3"', "3 (lock-version)", "found '3', allowed"),
        ("linux_x86_64", "linux_aarch64", "(tool.buildkit.digest)", "its head, or its packages"),
        ("[tool.buildkit]", "[tool.other]", "x", "There is no table tool.buildkit"),
        ('created-by = "buildkit"', "created-by = ", "x", "Not valid TOML"),
    ],
)
def test_a_change_by_hand_is_told_with_line_and_key(old, new, place, told):
    text = a_lock_text()
    assert old in text
    with pytest.raises(LockFileError) as caught:
        parse_lock(text.replace(old, new, 1), "x")
    assert told in str(caught.value)
    assert place in str(caught.value.where)


def set_wheel(name: str):
    return lambda lock: lock["packages"][0]["wheels"][0].update(name=name)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (set_wheel("../../alpha-1.0-py3-none-any.whl"), "is no wheel of alpha 1.0"),
        (set_wheel("beta-1.0-py3-none-any.whl"), "is no wheel of alpha 1.0"),
        (set_wheel("alpha"), "is no wheel of alpha 1.0"),
        (lambda lock: lock["packages"].append(lock["packages"][0]), "alpha stands twice"),
        (lambda lock: lock["packages"][0].update(name="a\n--index-url=x"), "Expected str matching"),
        (
            lambda lock: lock["packages"][1]["tool"]["buildkit"]["made"].update(recipe="../x"),
            "Expected str matching",
        ),
    ],
)
def test_a_forged_lock_leads_nowhere(change, told):
    with pytest.raises(LockFileError) as caught:
        parse_lock(forged(change), "x")
    assert told in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"tool = 3", b"tool.buildkit = 3"])
def test_what_is_no_lock_is_refused_by_the_command(tmp_path, monkeypatch, capsys, data):
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "x.toml"
    file.write_bytes(data)
    assert run(["sync", str(file), "--create", str(tmp_path / "new")]) == 2
    assert "error: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"platform": "linux_aarch64"}, "platform: locked linux_aarch64, found linux_"),
        ({"tag": "cp39", "version": "3.9.1"}, "Python 3.9 was not found"),
    ],
)
def test_another_machine_is_told_before_anything_is_made(
    tmp_path, monkeypatch, capsys, change, told
):
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "x.toml"
    file.write_text(forged(lambda lock: lock["tool"]["buildkit"]["python"].update(change)))
    status = run(["sync", str(file), "--create", str(tmp_path / "new")])
    told_here = capsys.readouterr().err
    assert status == 1
    assert told in told_here or "locked cp39" in told_here
    assert not (tmp_path / "new").exists()


def test_misfits_name_what_was_locked_and_what_was_found():
    lock = parse_lock(a_lock_text(), "x")
    other = Interpreter(version="3.12.1", tag="cp312", platform="linux_aarch64", libc="")
    assert [item.detail for item in misfits(lock, other)] == [
        "interpreter: locked cp311, found cp312",
        "platform: locked linux_x86_64, found linux_aarch64",
    ]


def test_a_file_of_another_tool_is_not_written_over(tmp_path):
    file = tmp_path / "pylock.toml"
    refuse_foreign(file)
    file.write_text('created-by = "uv"\n')
    with pytest.raises(LockError, match="no lock of this kit"):
        refuse_foreign(file)
    file.write_text(a_lock_text())
    refuse_foreign(file)
