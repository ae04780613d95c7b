"""A recipe directory, a cache and an output directory, and the command line run in them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from buildkit.launcher import read_records
from tests.fakes import hear_interrupts
from tests.programs import kit


@dataclass
class World:
    """A recipe directory, a cache and an output directory of one test."""

    root: Path
    cache: Path

    @property
    def recipes(self) -> Path:
        return self.root / "my recipes"

    @property
    def source(self) -> Path:
        return self.recipes / "toy"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def slot(self) -> Path:
        (found,) = (path for path in (self.cache / "builds").iterdir() if path.is_dir())
        return found

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("BUILDKIT")
        }
        return kept | {
            "BUILDKIT_CACHE": str(self.cache),
            "BUILDKIT_RECIPES": str(self.recipes),
            "BUILDKIT_CONFIG": str(self.root / "config.toml"),
        }

    def command(self, *args: str) -> list[str]:
        return kit(*args)

    def run(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            kit(*args),
            env=self.environment | variables,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )

    def make(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(
            "make", "toy", "--arch", "sm120", "--out", str(self.out), *args, **variables
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            kit("make", "toy", "--arch", "sm120", "--out", str(self.out), *args),
            env=self.environment,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )

    def entries(self) -> list[Path]:
        return list((self.cache / "wheels").glob("toy/*/entry.json"))

    def compiled(self) -> list[str]:
        units = read_records(self.slot / "records.jsonl")
        return [Path(unit.source).name for unit in units if unit.source]
