"""What a rebuild of a real recipe compiles, and how long it takes beside the full build.

    python benchmarks/rebuild.py DIR [--arch sm120]

Five makes of causal-conv1d with `--object-cache ccache`, one after the other, in caches below DIR:
everything, with an empty cache of objects; the wheel again; after an edit of one CUDA file in the
build's own source; after a patch of a header that all CUDA files include; and as in a new clone:
another directory, with the cache of objects alone. Source and environment are prepared before the
clock starts. The last column is the share of the full build's time.
"""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.launcher import read_records
from buildkit.paths import Paths, Slot, data_root

if TYPE_CHECKING:
    from collections.abc import Iterator

RECIPE = "causal-conv1d"
EDITED = "csrc/causal_conv1d_fwd.cu"
HEADER = "csrc/causal_conv1d_common.h"

#: A change of code and not of a comment, so that nothing may take the old object for the new one.
CHANGE = "constexpr int kRebuilt = 1;\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one make did."""

    name: str
    units: int
    """Compiler calls for sources, hits among them."""
    hits: int
    seconds: float


class Bench:
    """Makes one recipe again and again."""

    def __init__(self, folder: Path, arch: str) -> None:
        self._folder = folder
        self._arch = arch
        self.paths = Paths(folder / "first")
        self.recipes = folder / "recipes"

    def command(self, verb: str, *options: str) -> None:
        """Run the kit; what it says goes to the terminal.

        :raises SystemExit: if it fails.
        """
        argv = [sys.executable, "-m", "buildkit", verb, RECIPE, "--arch", self._arch, *options]
        argv += ["--recipes", str(self.recipes)]
        variables = {"BUILDKIT_CACHE": str(self.paths.root), "BUILDKIT_OBJECT_CACHE": "ccache"}
        env = {name: value for name, value in os.environ.items() if "BUILDKIT" not in name}
        done = subprocess.run(argv, env=env | variables, stdout=sys.stderr, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)} ended with status {done.returncode}")

    def prepare(self) -> None:
        """Fetch and unpack the source, and install the environment."""
        self.command("shell", "-c", "true")

    @property
    def slot(self) -> Slot:
        """The one build slot of the cache."""
        (lock,) = self.paths.builds.glob("*.lock")
        return Slot(lock.with_name(lock.name.removesuffix(".lock")))

    def make(self, name: str, *options: str) -> Row:
        """Make the wheel and return what it took."""
        before = len(read_records(self.slot.records))
        start = time.monotonic()
        self.command("make", "--out", str(self._folder / "dist"), *options)
        seconds = time.monotonic() - start
        units = [unit for unit in read_records(self.slot.records)[before:] if unit.objects]
        hits = sum(unit.objects == "hit" for unit in units)
        return Row(name=name, units=len(units), hits=hits, seconds=seconds)

    def edit(self) -> None:
        """Change one CUDA file where the build takes it from."""
        with (self.slot.source / EDITED).open("a") as file:
            file.write(CHANGE)

    def add_patch(self) -> None:
        """Give the recipe a patch that changes one header."""
        old = (self.slot.unpacked / HEADER).read_text().splitlines(keepends=True)
        place = next(i for i, line in enumerate(old) if line.startswith("#pragma once"))
        new = [*old[: place + 1], CHANGE, *old[place + 1 :]]
        diff = "".join(difflib.unified_diff(old, new, f"a/{HEADER}", f"b/{HEADER}"))
        head = "Description: A constant.\nOrigin: own\nForwarded: not-needed\n"
        goal = f"Goal: {HEADER}: text matches /kRebuilt/\n"
        file = self.recipes / "patches" / RECIPE / "constant.patch"
        file.parent.mkdir(parents=True)
        file.write_text(f"{head}{goal}\n{diff}")
        recipe = self.recipes / f"{RECIPE}.toml"
        text = recipe.read_text()
        recipe.write_text(text.replace("\nsource = {", '\npatches = ["constant"]\nsource = {', 1))

    def clone(self) -> None:
        """Go on in another directory, with the cache of objects and without network's help."""
        other = Paths(self._folder / "another" / "directory")
        other.root.mkdir(parents=True)
        for room in ("objects", "downloads", "uv"):
            (self.paths.root / room).rename(other.root / room)
        self.paths = other


def run(folder: Path, arch: str) -> Iterator[Row]:
    """Run all makes; yield what each took."""
    bench = Bench(folder, arch)
    bench.recipes.mkdir(parents=True)
    for name in (f"{RECIPE}.toml", f"{RECIPE}.lock"):
        (bench.recipes / name).write_text((data_root() / "recipes" / name).read_text())
    bench.prepare()
    yield bench.make("everything")
    yield bench.make("again, nothing changed")
    bench.edit()
    yield bench.make("one .cu file edited", "--from-step", "build")
    bench.add_patch()
    yield bench.make("a patch of one header")
    bench.clone()
    bench.prepare()
    yield bench.make("a new clone, warm objects")


def main() -> None:
    """Run and print a table, each row when it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--arch", default="sm120")
    given = parser.parse_args()
    print("| make | compiled | from the cache | seconds | share |\n|---|---|---|---|---|")
    full_seconds = 0.0
    for row in run(given.folder.absolute(), given.arch):
        full_seconds = full_seconds or row.seconds
        share = f"{row.seconds / full_seconds:.1%}"
        counts = f"{row.units - row.hits} | {row.hits} of {row.units}"
        print(f"| {row.name} | {counts} | {row.seconds:.1f} | {share} |", flush=True)


if __name__ == "__main__":
    main()
