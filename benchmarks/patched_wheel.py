"""A published wheel patched by the kit, beside `cp` and beside `wheel unpack` and `wheel pack`.

python benchmarks/patched_wheel.py vllm 0.16.0 [--rounds 5] [--project P]

Needs the `wheel` package and `patch`. The wheel is fetched before anything is measured. Each
contender begins with its output directory empty, the source read once into memory before, and
everything written to the disk (sync); it is timed until it returns, and until what it wrote is on
the disk (fsync of each of its files); its CPU time counts all its processes. `wheel unpack` checks
the hash of every member, `cp` of none, the kit that of the whole source. `wheel pack` takes long,
and runs in the first round alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def run(*argv: str | Path, **options: object) -> str:
    """Run a program and return what it printed."""
    done = subprocess.run(list(argv), check=True, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    text: str = done.stdout
    return text


def warm(file: Path) -> None:
    """Read a file, so that each contender finds it in memory."""
    with file.open("rb") as stream:
        while stream.read(1 << 24):
            pass


def cpu_seconds() -> float:
    """Return the CPU time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(act: Callable[[], object], out: Path, source: Path) -> tuple[float, float, float]:
    """Return the seconds until an act returns, until its files are on the disk, and of CPU."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    os.sync()
    warm(source)
    before, start = cpu_seconds(), time.perf_counter()
    act()
    returned, used = time.perf_counter() - start, cpu_seconds() - before
    for file in out.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    return returned, time.perf_counter() - start, used


def patch_by_hand(source: Path, patches: list[Path], work: Path, version: str) -> None:
    """Do what a person does: unpack, apply the diffs, pack under another version."""
    run(sys.executable, "-m", "wheel", "unpack", "-d", work, source)
    (tree,) = work.iterdir()
    for diff in patches:
        run("patch", "-p1", "-s", "-i", diff, cwd=tree)
    (info,) = tree.glob("*.dist-info")
    metadata = info / "METADATA"
    text = metadata.read_text(encoding="utf-8")
    metadata.write_text(
        text.replace(f"\nVersion: {version}\n", f"\nVersion: {version}+byhand\n", 1),
        encoding="utf-8",
    )
    info.rename(info.with_name(info.name.replace(version, f"{version}+byhand")))
    run(sys.executable, "-m", "wheel", "pack", "-d", work, tree)


def diffs(package: str, version: str) -> list[Path]:
    """Return the diffs that the kit applies to a version."""
    from buildkit.patches.load import choose_variant, load_patch
    from buildkit.patches.select import known_patches, select_patches
    from buildkit.paths import data_root

    folder = data_root() / "patches" / package
    found = (load_patch(one) for one in select_patches(known_patches(folder), folder))
    chosen = (choose_variant(patch, version) for patch in found)
    return [variant.file for variant in chosen if variant is not None]


def same_contents(ours: Path, theirs: Path) -> int:
    """Return how many files are equal in both, outside the .dist-info; exits if one differs."""
    with zipfile.ZipFile(ours) as first, zipfile.ZipFile(theirs) as second:
        names = [name for name in first.namelist() if ".dist-info/" not in name]
        for name in names:
            if first.getinfo(name).CRC != second.getinfo(name).CRC:
                raise SystemExit(f"{name} differs")
        return len(names)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package")
    parser.add_argument("version")
    parser.add_argument("--project", default=None)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    project = chosen.project or chosen.package
    make = [sys.executable, "-m", "buildkit", "make", chosen.package, "--from", "wheel"]
    make += ["--version", chosen.version, "--project", project]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        root = Path(folder)
        out = root / "out"
        cache = root / "cache"
        environment = os.environ | {"BUILDKIT_CACHE": str(cache)}

        def kit(*args: str) -> str:
            return run(*make, "--out", out, *args, env=environment)

        kit()
        first = json.loads(kit("--json"))
        (source,) = cache.glob(f"downloads/*/*/{first['source']['file']}")
        patches = diffs(chosen.package, chosen.version)
        contenders: dict[str, Callable[[], object]] = {
            "cp": lambda: run("cp", source, out / "copy.whl"),
            "cp and sha256sum": lambda: (
                run("cp", source, out / "copy.whl"),
                run("sha256sum", source),
            ),
            "buildkit make --from wheel": lambda: kit("--offline"),
            "wheel unpack, patch, wheel pack": lambda: patch_by_hand(
                source, patches, out, chosen.version
            ),
        }
        seconds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contenders}
        kept = []
        for turn in range(chosen.rounds):
            for name, act in contenders.items():
                if turn > 0 and "pack" in name:
                    continue
                seconds[name].append(timed(act, out, source))
                if turn == 0:
                    kept.append(root / f"{len(kept)}.whl")
                    next(out.glob("*.whl")).rename(kept[-1])
        count = same_contents(kept[2], kept[3])
        kit("--offline")
        start = time.perf_counter()
        kit("--offline")
        hit = time.perf_counter() - start
        size = source.stat().st_size
    print(f"{source.name}: {size / 1e6:.0f} MB, median of {chosen.rounds} rounds")
    base = [median(column) for column in zip(*seconds["cp"], strict=True)]
    for name, rows in seconds.items():
        found = [median(column) for column in zip(*rows, strict=True)]
        ratios = [one / other for one, other in zip(found, base, strict=True)]
        told = ", ".join(
            f"{what} {value:.2f} s ({ratio:.1f} x cp)"
            for what, value, ratio in zip(
                ("returned", "on disk", "CPU"), found, ratios, strict=True
            )
        )
        print(f"{name:<32} {told}")
    print(f"the wheel in place already: {hit:.2f} s")
    print(f"{count} files are equal in both patched wheels")


if __name__ == "__main__":
    main()
