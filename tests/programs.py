"""Real programs, as tests call them: pip, git, and the kit's own command line."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def kit(*args: str) -> list[str]:
    """Return a command line of the kit, run by the interpreter of the tests."""
    return [sys.executable, "-m", "buildkit", *args]


def pip(*args: str | Path) -> str:
    """Run pip, which must succeed, and return what it said."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def git(folder: Path, *args: str) -> str:
    """Run git, which must succeed, as somebody and with submodules of files; return its answer."""
    settings = ("protocol.file.allow=always", "user.name=a", "user.email=a@b")
    command = ["git", *(word for setting in settings for word in ("-c", setting)), *args]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()
