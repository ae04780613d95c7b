"""The kit beside `pip wheel` and fromager: steps, lines and seconds, cold and a second time.

Each tool starts with empty caches of its own and builds the same two packages in turn: MarkupSafe,
a C extension of setuptools, and Levenshtein, which scikit-build-core builds with CMake. The kit
builds from the recipes in `benchmarks/recipes`.

    python -m venv peers && peers/bin/pip install fromager uv
    python benchmarks/peers.py peers/bin
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPES = Path(__file__).parent / "recipes"
PACKAGES = (("markupsafe", "3.0.3"), ("levenshtein", "0.27.1"))
LIMIT_SECONDS = 900


def commands(tool: str, name: str, version: str) -> list[str]:
    """Return what a newcomer types for one package."""
    if tool == "buildkit":
        kit = [sys.executable, "-m", "buildkit", "make", name, "--arch", "sm120"]
        return [*kit, "--recipes", str(RECIPES)]
    if tool == "pip":
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist"]
        return [*pip, f"--no-binary={name}", f"{name}=={version}"]
    return ["fromager", "bootstrap", f"{name}=={version}"]


def run(argv: list[str], folder: Path, env: dict[str, str]) -> tuple[float, int, int]:
    """Return seconds, lines printed and exit status."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            argv, cwd=folder, env=env, capture_output=True, check=False, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired as stopped:
        lines = (stopped.stdout or b"").count(b"\n") + (stopped.stderr or b"").count(b"\n")
        return time.perf_counter() - start, lines, -1
    lines = done.stdout.count(b"\n") + done.stderr.count(b"\n")
    return time.perf_counter() - start, lines, done.returncode


def main() -> None:
    """Run all and print a table."""
    peers = Path(sys.argv[1]).absolute()
    print(
        f"{'package':12} {'tool':9} {'cold s':>8} {'lines':>6} {'again s':>8} {'lines':>6} status"
    )
    for name, version in PACKAGES:
        for tool in ("buildkit", "pip", "fromager"):
            with tempfile.TemporaryDirectory() as home:
                folder = Path(home) / "work"
                folder.mkdir()
                env = {
                    key: value
                    for key, value in os.environ.items()
                    if not key.startswith(("BUILDKIT", "UV_"))
                } | {
                    "HOME": home,
                    "XDG_CACHE_HOME": f"{home}/cache",
                    "PATH": f"{peers}:{os.environ['PATH']}",
                }
                argv = commands(tool, name, version)
                cold, cold_lines, status = run(argv, folder, env)
                again, again_lines, second = run(argv, folder, env)
                print(
                    f"{name:12} {tool:9} {cold:8.1f} {cold_lines:6} {again:8.2f} {again_lines:6}"
                    f" {status}, {second}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
