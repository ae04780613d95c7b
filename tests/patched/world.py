"""An index of files with one wheel, patches for it, and the command line run on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildkit.cli.app import run
from buildkit.digest import digest_bytes
from tests.builders import a_value_patch
from tests.programs import kit
from tests.wheels.toy import NAME

PATCH = a_value_patch("toy_x")


@dataclass
class World:
    """An index of files with one wheel, a directory of patches, and an output directory."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "index" / "toy-x"

    @property
    def patches(self) -> Path:
        return self.root / "patches" / "toy-x"

    @property
    def out(self) -> Path:
        return self.root / "out dir"

    @property
    def args(self) -> list[str]:
        where = ["--patches", str(self.patches.parent), "--out", str(self.out)]
        return ["make", "toy-x", "--from", "wheel", *where]

    def publish(self, data: bytes, name: str = NAME, digest: str | None = None) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        (self.project / name).write_bytes(data)
        digest = digest_bytes(data) if digest is None else digest
        (self.project / "index.html").write_text(f'<a href="{name}#sha256={digest}">{name}</a>')

    def patch(self, **texts: str) -> None:
        self.patches.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (self.patches / f"{name}.patch").write_text(text)

    def command(self, *args: str) -> list[str]:
        """Return a make as a command line, for a process of its own."""
        return kit(*self.args, "--version", "1.0", *args)

    def make(self, *args: str) -> int:
        return run([*self.args, "--version", "1.0", *args])

    def result(self) -> Path:
        (found,) = self.out.iterdir()
        return found
