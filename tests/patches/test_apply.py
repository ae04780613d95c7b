"""Patches on trees, with git's own diffs as the reference."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.digest import digest_tree
from buildkit.errors import PatchError, RecipeError
from buildkit.patches import select_patches
from buildkit.patches.apply import apply_patches
from buildkit.values import Applied, SourceTree
from tests.builders import a_digest
from tests.fakes import RecordingEvents


def a_tree(root: Path, **files: str | bytes) -> SourceTree:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (root / name).write_bytes(data)
    return SourceTree(path=root, stamp=a_digest("tree"))


def git_diff(old: Path, new: Path) -> bytes:
    """What git says of two directories, with names relative to them."""
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", "--no-renames", old.name, new.name],
        cwd=old.parent,
        capture_output=True,
        check=False,
    )
    text = done.stdout
    for folder in (old.name, new.name):
        text = text.replace(f"{folder}/".encode(), b"a/")
    return text


def apply(tree: SourceTree, folder: Path, **patches: str | bytes):
    folder.mkdir(exist_ok=True)
    for name, text in patches.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"{name}.patch").write_bytes(data)
    selected = select_patches(tuple(patches), folder)
    return apply_patches(tree, selected, version="1.0", events=RecordingEvents())


TEN = "".join(f"line {number}\n" for number in range(1, 11))
FIX = """\
--- a/f
+++ b/f
@@ -4,3 +4,3 @@
 line 4
-line 5
+line five
 line 6
"""


def test_a_patch_is_applied_where_it_says(tmp_path):
    tree = a_tree(tmp_path / "t", f=TEN)
    result = apply(tree, tmp_path / "p", fix=FIX)
    assert (tree.path / "f").read_text() == TEN.replace("line 5", "line five")
    assert result.outcomes == (Applied(patch="fix", files=("f",)),)
    assert result.stamp != tree.stamp


def test_a_hunk_that_moved_is_found_by_its_context(tmp_path):
    tree = a_tree(tmp_path / "t", f="new\n" * 7 + TEN)
    apply(tree, tmp_path / "p", fix=FIX)
    assert (tree.path / "f").read_text() == "new\n" * 7 + TEN.replace("line 5", "line five")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x\n" + TEN.replace("line 6", "line six"), r"line 4 should be 'line 4', found 'line 3'"),
        (TEN.replace("line 6", "line six"), r"line 6 should be 'line 6', found 'line six'"),
        ("x\n" + TEN + TEN, r"fits at lines 5, 15, allowed one place"),
        (TEN.replace("line 5", "line five"), r"is applied already"),
        ("line 1\n", r"should be 'line 4', found the end of the file"),
    ],
)
def test_a_hunk_that_does_not_fit_is_refused_with_its_place(tmp_path, text, told):
    tree = a_tree(tmp_path / "t", f=text)
    with pytest.raises(PatchError, match=told) as caught:
        apply(tree, tmp_path / "p", fix=FIX)
    assert "@@ -4,3 +4,3 @@" in str(caught.value)
    assert "fix.patch" in str(caught.value)
    assert (tree.path / "f").read_text() == text


def test_either_all_patches_are_applied_or_none(tmp_path):
    tree = a_tree(tmp_path / "t", f=TEN, g="g\n")
    before = digest_tree(tree.path)
    with pytest.raises(PatchError, match="does not exist"):
        apply(tree, tmp_path / "p", fix=FIX, other=FIX.replace("/f", "/none"))
    assert digest_tree(tree.path) == before


def test_later_patches_see_what_earlier_ones_did(tmp_path):
    tree = a_tree(tmp_path / "t", f=TEN)
    second = FIX.replace("line 5", "line five").replace("+line five", "+line V")
    apply(tree, tmp_path / "p", one=FIX, two=second.replace("-line V", "-line five"))
    assert "line V\n" in (tree.path / "f").read_text()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_patch_cannot_name_what_lies_outside(tmp_path, name):
    tree = a_tree(tmp_path / "t", f=TEN)
    text = f"--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchError, match="leads out of the tree"):
        apply(tree, tmp_path / "p", fix=text)
    assert not (tmp_path / "evil").exists()


def test_a_patch_cannot_write_through_a_link(tmp_path):
    (tmp_path / "outside").write_text(TEN)
    tree = a_tree(tmp_path / "t")
    (tree.path / "f").symlink_to("../outside")
    with pytest.raises(PatchError, match="through a link"):
        apply(tree, tmp_path / "p", fix=FIX)
    assert (tmp_path / "outside").read_text() == TEN


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "changes nothing"),
        ("hello\n", "Found 'hello' in the header"),
        ("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n", "no unified diff"),
        ("diff --git a/f b/f\nGIT binary patch\nliteral 1\n", "binary"),
    ],
)
def test_what_is_no_text_diff_is_refused(tmp_path, text, told):
    tree = a_tree(tmp_path / "t", f=TEN)
    with pytest.raises(PatchError, match=told):
        apply(tree, tmp_path / "p", fix=text)


def test_files_are_made_removed_and_marked_executable(tmp_path):
    tree = a_tree(tmp_path / "t", gone="1\n")
    text = (
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-1\n"
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n"
        "@@ -0,0 +1,2 @@\n+#!/bin/sh\n+exit 0\n"
    )
    apply(tree, tmp_path / "p", fix=text)
    assert not (tree.path / "gone").exists()
    assert (tree.path / "run.sh").read_text() == "#!/bin/sh\nexit 0\n"
    assert (tree.path / "run.sh").stat().st_mode & 0o111


def test_bytes_that_are_no_utf8_and_dos_line_ends_survive(tmp_path):
    old, new = b"a\r\n\xff b\r\nc\r\n", b"a\r\n\xff B\r\nc\r\n"
    a_tree(tmp_path / "old", f=old)
    a_tree(tmp_path / "new", f=new)
    diff = git_diff(tmp_path / "old", tmp_path / "new")
    tree = a_tree(tmp_path / "t", f=old)
    apply(tree, tmp_path / "p", fix=diff)
    assert (tree.path / "f").read_bytes() == new


def test_unknown_patches_are_named_with_the_nearest(tmp_path):
    (tmp_path / "eagle3-whitelist.patch").write_text(FIX)
    with pytest.raises(RecipeError, match="Did you mean 'eagle3-whitelist'"):
        select_patches(("eagle3-whitelst",), tmp_path)


lines = st.lists(st.sampled_from(["a", "b", "", "x y", "\\ not a marker", "-", "+"]), max_size=12)
contents = st.tuples(lines, st.booleans()).map(
    lambda pair: "\n".join(pair[0]) + ("\n" if pair[1] and pair[0] else "")
)


@settings(max_examples=60)
@given(old=contents, new=contents)
def test_the_result_is_what_git_diffed(tmp_path_factory, old, new):
    root = tmp_path_factory.mktemp("patch")
    a_tree(root / "old", f=old)
    a_tree(root / "new", f=new)
    diff = git_diff(root / "old", root / "new")
    tree = a_tree(root / "t", f=old)
    if b"@@" in diff:
        apply(tree, root / "p", fix=diff)
        assert (tree.path / "f").read_text() == new
    else:
        assert old == new
