"""A tree is placed over an older one, and what has not changed is not touched."""

from __future__ import annotations

import os
import shutil

from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.digest import digest_tree
from buildkit.sources.place import is_as_placed, place_tree


def write(root, files):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def test_only_what_changed_is_rewritten(tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    write(tree, {"a": "1", "d/b": "2", "gone": "3"})
    place_tree(tree, out)
    for name in ("a", "d/b"):
        os.utime(out / name, ns=(1, 1))
    (out / "object.o").write_text("built")
    write(tree, {"a": "1", "d/b": "changed"})
    place_tree(tree, out)
    assert (out / "a").stat().st_mtime_ns == 1
    assert (out / "d/b").read_text() == "changed"
    assert not (out / "gone").exists()
    assert (out / "object.o").read_text() == "built"


def test_a_change_by_hand_is_seen_and_undone(tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    write(tree, {"a": "1", "b": "2"})
    place_tree(tree, out)
    assert is_as_placed(out)
    (out / "a").write_text("by hand")
    assert not is_as_placed(out)
    place_tree(tree, out)
    assert is_as_placed(out)
    (out / "b").unlink()
    assert not is_as_placed(out)


def test_modes_links_and_changes_of_kind_are_followed(tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    write(tree, {"a": "1", "x/y": "2"})
    (tree / "a").chmod(0o755)
    (tree / "l").symlink_to("a")
    place_tree(tree, out)
    assert os.access(out / "a", os.X_OK)
    assert (out / "l").readlink().name == "a"
    write(tree, {"a/b": "now a directory", "x": "now a file"})
    place_tree(tree, out)
    assert (out / "a/b").read_text() == "now a directory"
    assert (out / "x").read_text() == "now a file"
    assert not (out / "l").is_symlink()


files = st.dictionaries(
    st.sampled_from(["a", "b", "c/d", "c/e", "f/g/h"]), st.sampled_from(["", "1", "2"]), max_size=5
)


@settings(max_examples=40)
@given(files, files)
def test_the_result_is_the_tree(tmp_path_factory, before, after):
    root = tmp_path_factory.mktemp("place")
    write(root / "tree", before)
    place_tree(root / "tree", root / "out")
    write(root / "tree", after)
    place_tree(root / "tree", root / "out")
    assert digest_tree(root / "out") == digest_tree(root / "tree")
