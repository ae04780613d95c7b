"""Applying 1,000 hunks to a tree of 3,000 files, beside `git apply`, in one run.

python benchmarks/patches.py
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from buildkit.digest import digest_bytes, digest_tree
from buildkit.events import SILENT
from buildkit.patches import select_patches
from buildkit.patches.apply import apply_patches
from buildkit.values import SourceTree

FILES, HUNKS, LINES, ROUNDS = 3000, 1000, 400, 5


def a_tree(root: Path) -> None:
    """Write the files, a hundred to a directory."""
    for number in range(FILES):
        file = root / f"package_{number // 100}" / f"module_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"value_{line} = {number + line}\n" for line in range(LINES)))


def a_diff() -> str:
    """Return one hunk for each of the first files, in the middle of each."""
    parts = []
    for number in range(HUNKS):
        name = f"package_{number // 100}/module_{number}.py"
        lines = [f"value_{line} = {number + line}\n" for line in range(198, 203)]
        parts.append(
            f"--- a/{name}\n+++ b/{name}\n@@ -199,5 +199,5 @@\n {lines[0]} {lines[1]}-{lines[2]}"
            f"+value_200 = 'changed'\n {lines[3]} {lines[4]}"
        )
    return "".join(parts)


def main() -> None:
    """Measure and print."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "all.patch").write_text(a_diff())
        for turn in range(ROUNDS):
            for name in ("ours", "theirs"):
                a_tree(root / f"{name}{turn}")
            start = time.perf_counter()
            tree = SourceTree(path=root / f"ours{turn}", stamp=digest_bytes(b"tree"))
            selected = select_patches(("all",), root)
            apply_patches(tree, selected, version="1", events=SILENT)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            git = ["git", "apply", "-p1", str(root / "all.patch")]
            subprocess.run(git, cwd=root / f"theirs{turn}", check=True)
            theirs.append(time.perf_counter() - start)
            if digest_tree(root / f"ours{turn}") != digest_tree(root / f"theirs{turn}"):
                raise SystemExit("the two trees differ")
    print(f"buildkit  {median(ours):.2f} s, median of {ROUNDS}")
    print(f"git apply {median(theirs):.2f} s, median of {ROUNDS}")
    print(f"ratio {median(ours) / median(theirs):.1f}; the trees are equal")


if __name__ == "__main__":
    main()
