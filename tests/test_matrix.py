"""Which patches fit which versions of a package."""

from __future__ import annotations

import tarfile

import pytest

from buildkit.cli.app import run
from buildkit.matrix import judge
from buildkit.patches.load import load_patch
from buildkit.patches.select import known_patches, select_patches
from buildkit.paths import data_root
from tests.patches.test_goals import HEADER, a_diff, write


@pytest.mark.parametrize(
    ("files", "version", "state"),
    [
        ({"f.py": 'names = ["a"]\n'}, "1.0", "applies"),
        ({"f.py": 'names = ["kimi"]\n'}, "1.0", "already upstream"),
        ({"f.py": 'names = ["a"]\n'}, "2.0", "no diff"),
        ({"f.py": 'names = ["changed"]\n'}, "1.0", "conflict"),
        ({}, "1.0", "conflict"),
    ],
)
def test_each_state(tmp_path, files, version, state):
    patch = write(tmp_path, one=a_diff('"a"', applies="<2"))
    cell = judge(patch, version, files)
    assert cell.state == state
    assert bool(cell.detail) == (state in ("no diff", "conflict"))


def test_a_tree_without_the_needed_file_is_no_concern(tmp_path):
    patch = write(tmp_path, HEADER + "Needs-File: g.py\n", one=a_diff('"a"'))
    assert judge(patch, "1.0", {"f.py": 'names = ["a"]\n'}).state == "not applicable"


def test_the_table_of_a_real_index_and_a_second_look_without_it(tmp_path, monkeypatch, capsys):
    index = tmp_path / "index" / "toy"
    index.mkdir(parents=True)
    for version, text in (("1.0", '"a"'), ("1.1", '"a", "b"'), ("2.0", '"kimi"')):
        source = tmp_path / f"toy-{version}"
        source.mkdir()
        (source / "f.py").write_text(f"names = [{text}]\n")
        with tarfile.open(index / f"toy-{version}.tar.gz", "w:gz") as tar:
            tar.add(source, source.name)
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in index.glob("*.gz"))
    (index / "index.html").write_text(links)
    patches = tmp_path / "patches" / "toy"
    write(patches, one=a_diff('"a"', applies="<1.1"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{index.parent}")
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    args = ["patch", "matrix", "toy", "--patches", str(patches.parent), "--versions"]
    for _ in range(2):
        assert run([*args, ">=1"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(maxsplit=1) for line in lines[:4]] == [
            ["version", "names"],
            ["2.0", "already upstream"],
            ["1.1", "no diff"],
            ["1.0", "applies"],
        ]
        for file in (tmp_path / "cache" / "downloads").rglob("*.tar.gz"):
            file.unlink()  # the slices alone must do
    assert run([*args, "==2.0", "--markdown"]) == 0
    assert "| 2.0 | already upstream |" in capsys.readouterr().out
    assert run([*args, "new"]) == 2
    assert run([*args, ">9"]) == 1


def test_the_patches_of_the_kit_are_sound():
    for folder in (data_root() / "patches").iterdir():
        if folder.is_dir():
            for selected in select_patches(known_patches(folder), folder):
                patch = load_patch(selected)
                assert patch.description
                assert patch.goals
                assert patch.origin
