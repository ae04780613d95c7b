"""How soon a wrong source is told, by the command line, with a cache that holds nothing.

    python benchmarks/source_errors.py DIR

Each case is the recipe of causal-conv1d, locked as it is, with another source: the make ends with
one error before anything is set up. Prints the seconds, the exit status and the error of each.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
GONE = "0" * 40


def git(folder: Path, *words: str) -> str:
    """Run git, which must succeed, and return its answer."""
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(folder: Path) -> tuple[str, str]:
    """Return the address of a repository whose tag v1 has moved, and the commit that it had."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "one")
    old = git(folder, "rev-parse", "HEAD")
    git(folder, "commit", "--quiet", "--allow-empty", "--amend", "-m", "two")
    git(folder, "tag", "v1")
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "--quiet", "--prune=now")
    return folder.as_uri(), old


def cases(root: Path) -> dict[str, str]:
    """Return what the recipe says of its source in each case."""
    url, old = repository(root / "upstream")
    here = git(root / "upstream", "rev-parse", "HEAD")

    def commit(address: str, of: str, more: str = "") -> str:
        return f'{{ kind = "git", url = "{address}", ref = "v1", commit = "{of}"{more} }}'

    def sdist(name: str) -> str:
        return f'{{ kind = "pypi", filename = "{name}", sha256 = "{GONE}{"0" * 24}" }}'

    return {
        "host without an address": commit("https://host.invalid/x.git", GONE),
        "address without a host": commit("https://192.0.2.1/x.git", GONE),
        "dead pin": commit(url, GONE),
        "moved tag": commit(url, old),
        "missing subdirectory": commit(url, here, ', subdirectory = "csrc"'),
        "wrong digest": sdist("causal_conv1d-1.7.0.tar.gz"),
        "file that is gone": sdist("causal_conv1d-1.7.9.tar.gz"),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    root = parser.parse_args().directory.resolve()
    for number, (name, source) in enumerate(cases(root).items()):
        recipes, cache = root / f"recipes {number}", root / f"cache {number}"
        recipes.mkdir()
        shutil.copy(RECIPES / "causal-conv1d.lock", recipes)
        text = (RECIPES / "causal-conv1d.toml").read_text()
        changed = re.sub(r"(?m)^source = \{.*\}$", f"source = {source}", text)
        if changed == text:
            sys.exit("the recipe of causal-conv1d says its source otherwise")
        (recipes / "causal-conv1d.toml").write_text(changed)
        variables = {"BUILDKIT_CACHE": str(cache), "BUILDKIT_RECIPES": str(recipes)}
        command = ["make", "causal-conv1d", "--arch", "sm120", "--out", str(root / "out")]
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "buildkit", *command],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - start
        if (cache / "environments").exists():
            sys.exit(f"{name}: an environment was set up")
        print(f"{name}: {seconds:.1f} s, status {done.returncode}\n{done.stderr.strip()}\n")


if __name__ == "__main__":
    main()
