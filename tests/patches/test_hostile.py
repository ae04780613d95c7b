"""Patches that lie, and a fuzz of the parser and applier with `git apply` as the reference."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.digest import digest_tree
from buildkit.errors import PatchError
from tests.patches.test_apply import TEN, a_tree, apply, git_diff

HUNK = "@@ -4,3 +4,3 @@\n line 4\n-line 5\n+line five\n line 6\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--- a/f\n+++ b/f\n@@ -4,3 +4,9 @@\n line 4\n-line 5\n+x\n line 6\n", "no unified diff"),
        ("--- a/f\n+++ b/f\n@@ -4,9 +4,3 @@\n line 4\n-line 5\n+x\n line 6\n", "no unified diff"),
        (f"--- a/f\n+++ b/f\n{HUNK}{HUNK}", "does not fit|applied already"),
        ("--- a/f\n+++ b/../../g\n" + HUNK, "leads out of the tree"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n" + HUNK, "exists"),
        ("--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n", "exists already"),
        ("--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-other\n", "should be 'other'"),
        ("--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n line 4\n-line 5\n+\xff\n", "no unified diff"),
        ("--- a/f\n+++ b/f\n@@ what @@\n", "no unified diff|changes nothing"),
        ("--- a/f\n+++ b/f\n@@ -99999999999,1 +1,1 @@\n-a\n+b\n", "does not fit"),
        ("--- a/f\x00\n+++ b/f\x00\n" + HUNK, "leads out|does not exist"),
        ("--- a/.\n+++ b/.\n" + HUNK, "leads out"),
    ],
)
def test_a_hostile_patch_is_one_error_and_nothing_changes(tmp_path, text, told):
    tree = a_tree(tmp_path / "t", f=TEN, g="g\n")
    before = digest_tree(tree.path)
    with pytest.raises(PatchError, match=told) as caught:
        apply(tree, tmp_path / "p", fix=text.encode("latin-1"))
    assert caught.value.remedy
    assert digest_tree(tree.path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "t"]


def test_ten_thousand_hunks_are_applied(tmp_path):
    old = "".join(f"line {number}\n" for number in range(40_000))
    new = "".join(
        f"changed {number}\n" if number % 4 == 1 else f"line {number}\n" for number in range(40_000)
    )
    hunks = "".join(
        f"@@ -{number},3 +{number},3 @@\n line {number - 1}\n-line {number}\n+changed {number}\n"
        f" line {number + 1}\n"
        for number in range(1, 40_000, 4)
    )
    tree = a_tree(tmp_path / "t", f=old)
    apply(tree, tmp_path / "p", fix=f"--- a/f\n+++ b/f\n{hunks}")
    assert (tree.path / "f").read_text() == new


def test_a_file_without_a_last_line_end_keeps_or_gains_it(tmp_path):
    for old, new in (("a\nb", "a\nc"), ("a\nb", "a\nb\n"), ("a\nb\n", "a\nb")):
        for folder in ("old", "new", "t", "p"):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
        a_tree(tmp_path / "old", f=old)
        a_tree(tmp_path / "new", f=new)
        tree = a_tree(tmp_path / "t", f=old)
        apply(tree, tmp_path / "p", fix=git_diff(tmp_path / "old", tmp_path / "new"))
        assert (tree.path / "f").read_text() == new


# --- fuzz -----------------------------------------------------------------------------------------

texts = st.lists(st.sampled_from("abcde"), min_size=1, max_size=14).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)
edits = st.lists(
    st.tuples(
        st.sampled_from(["drop", "double", "swap", "number", "sign"]),
        st.integers(0, 200),
        st.integers(0, 30),
    ),
    max_size=3,
)


def mangled(diff: str, changes: list[tuple[str, int, int]]) -> str:
    """A diff with some of its lines after the file names taken out, doubled or changed."""
    lines = diff.splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if line.startswith("@@"))
    for kind, where, value in changes:
        place = start + where % (len(lines) - start)
        line = lines[place]
        if kind == "drop" and len(lines) > start + 1:
            del lines[place]
        elif kind == "double":
            lines.insert(place, line)
        elif kind == "swap":
            other = start + value % (len(lines) - start)
            lines[place], lines[other] = lines[other], line
        elif kind == "number" and line.startswith("@@"):
            lines[place] = line.replace("-", f"-{value % 9}", 1)
        elif kind == "sign" and not line.startswith("@@"):
            lines[place] = " +-\\"[value % 4] + line[1:]
    return "".join(lines)


def git_apply(folder: Path, diff: str) -> bool:
    done = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p1", "-"],
        cwd=folder,
        input=diff.encode(),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@settings(max_examples=300)
@given(old=texts, new=texts, before=texts, changes=edits)
def test_the_result_is_git_s_or_a_refusal(tmp_path_factory, old, new, before, changes):
    root = tmp_path_factory.mktemp("fuzz")
    a_tree(root / "old", f=old)
    a_tree(root / "new", f=new)
    diff = git_diff(root / "old", root / "new").decode()
    if "@@" not in diff:
        return
    diff = mangled(diff, changes)
    # The tree is the old file, or one that has drifted.
    text = old if len(changes) % 2 == 0 else before + old
    tree = a_tree(root / "ours", f=text)
    theirs = a_tree(root / "theirs", f=text)
    try:
        apply(tree, root / "p", fix=diff)
    except PatchError:
        assert (tree.path / "f").read_text() == text
        return
    assert git_apply(theirs.path, diff), f"git refuses what we apply:\n{diff}"
    assert (tree.path / "f").read_bytes() == (theirs.path / "f").read_bytes()
