"""Patches are made and carried over to other releases, by the command line, from a real index."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from buildkit.cli.app import run
from buildkit.patches.load import load_patch
from buildkit.patches.select import select_patches

HEAD = "".join(f"before_{number} = 1\n" for number in range(8))
TAIL = "".join(f"after_{number} = 1\n" for number in range(8))
RELEASES = {
    "1.0": f'{HEAD}names = ["a"]\n{TAIL}',
    "2.0": f'import new\n\n{HEAD}names = ["a"]\n{TAIL.replace("after_7 = 1", "after_7 = 2")}',
    "3.0": f'{HEAD}names = ["a", "b"]\n{TAIL}',
    "4.0": f'{HEAD}names = ["a", "kimi"]\n{TAIL}',
}
PATCH = """\
Description: one more name
Origin: own
Applies-To: ==1.0
Goal: f.py: module lists "kimi"

--- a/f.py
+++ b/f.py
@@ -8,3 +8,3 @@
 before_7 = 1
-names = ["a"]
+names = ["a", "kimi"]
 after_0 = 1
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    index = tmp_path / "index" / "toy"
    index.mkdir(parents=True)
    for version, text in RELEASES.items():
        source = tmp_path / f"toy-{version}"
        source.mkdir()
        (source / "f.py").write_text(text)
        with tarfile.open(index / f"toy-{version}.tar.gz", "w:gz") as tar:
            tar.add(source, source.name)
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in index.glob("*.gz"))
    (index / "index.html").write_text(links)
    folder = tmp_path / "patches" / "toy"
    folder.mkdir(parents=True)
    (folder / "names.patch").write_text(PATCH)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{index.parent}")
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


def rebase(world: Path, version: str) -> int:
    options = ["--onto", version, "--patches", str(world.parent)]
    return run(["patch", "rebase", "toy", "names", *options])


def variants(world: Path) -> list[str]:
    (selected,) = select_patches(("names",), world)
    return [variant.applies_to for variant in load_patch(selected).variants]


def test_a_clean_merge_becomes_a_variant(world, capsys):
    assert rebase(world, "2.0") == 0
    assert "merged with 1.0 as the base" in capsys.readouterr().out
    assert not (world / "names.patch").exists()
    assert variants(world) == ["==1.0", "==2.0"]
    assert rebase(world, "2.0") == 0
    assert "has a diff for 2.0, and it fits" in capsys.readouterr().out


def test_conflicts_wait_for_a_person_and_refresh_takes_what_was_mended(world, tmp_path, capsys):
    assert rebase(world, "3.0") == 1
    assert "Conflicts in f.py" in capsys.readouterr().out
    work = tmp_path / "names-3.0"
    mended = work / "b" / "f.py"
    assert "<<<<<<< patch" in mended.read_text()
    assert variants(world) == ["==1.0"]
    assert run(["patch", "refresh", str(work)]) == 1
    assert "still holds conflict markers" in capsys.readouterr().err
    mended.write_text(RELEASES["3.0"])
    assert run(["patch", "refresh", str(work)]) == 1
    assert "3.0.patch of names: It changes nothing" in capsys.readouterr().err
    assert variants(world) == ["==1.0"]
    mended.write_text(RELEASES["3.0"].replace('"b"]', '"b", "kimi"]'))
    assert run(["patch", "refresh", str(work)]) == 0
    assert variants(world) == ["==1.0", "==3.0"]
    assert not work.exists()


def test_a_release_that_reaches_the_goals_needs_no_diff(world, capsys):
    assert rebase(world, "4.0") == 0
    assert "reaches the goals of names by itself" in capsys.readouterr().out
    assert (world / "names.patch").exists()


def test_wrong_input_is_told(world, tmp_path):
    assert rebase(world, "9.0") == 1
    assert (
        run(["patch", "rebase", "toy", "none", "--onto", "2.0", "--patches", str(world.parent)])
        == 2
    )
    assert run(["patch", "refresh", str(tmp_path)]) == 2
    (tmp_path / "names-3.0").mkdir()
    assert rebase(world, "3.0") == 2


def test_a_patch_is_made_from_an_edited_tree_and_applies(world, tmp_path, capsys):
    old, new = tmp_path / "toy-1.0", tmp_path / "toy-3.0"
    (new / "added.py").write_text("x = 1")
    (old / "removed.py").write_text("y = 1\n")
    options = ["--description", "what 3.0 does", "--out", str(world / "made.patch")]
    assert run(["patch", "new", str(old), str(new), *options]) == 0
    from buildkit.patches.apply import apply_patches
    from buildkit.values import SourceTree
    from tests.builders import a_digest
    from tests.fakes import RecordingEvents

    tree = SourceTree(path=old, stamp=a_digest())
    selected = select_patches(("made",), world)
    apply_patches(tree, selected, version="1.0", events=RecordingEvents())
    assert (old / "f.py").read_text() == RELEASES["3.0"]
    assert (old / "added.py").read_text() == "x = 1"
    assert not (old / "removed.py").exists()
    assert run(["patch", "new", str(old), str(new), "--description", "x"]) == 2
    assert run(["patch", "new", str(old), "/none", "--description", "x"]) == 2
    assert "are equal" in capsys.readouterr().err
