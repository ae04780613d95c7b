"""Real installers against an index, with no other index in reach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from buildkit.toolchain.uv import uv_binary


def pip_install(target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "install", "-vv", "--no-cache-dir", "--no-deps"]
    return _run(command, target, arguments, {"PIP_CONFIG_FILE": os.devnull})


def uv_install(target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [uv_binary(), "pip", "install", "-v", "--no-cache", "--no-config", "--no-deps"]
    return _run(command, target, [*arguments, "--python", sys.executable], {})


def _run(command, target, arguments, extra) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "UV_")) and "proxy" not in name.lower()
    }
    return subprocess.run(
        [*command, "--target", str(target), *arguments],
        env=kept | extra,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


INSTALLERS = {"pip": pip_install, "uv": uv_install}
