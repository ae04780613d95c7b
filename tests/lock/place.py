"""Environments, small wheels and a package index on the disk, for the tests of locks."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from buildkit.toolchain.uv import uv_binary
from tests.builders import a_value_patch
from tests.programs import kit
from tests.wheels.toy import a_record, a_zip

KEY = "ab" * 32

PATCH = a_value_patch("gamma")

PROVENANCE = {
    "key": KEY,
    "recipe": "kitty",
    "version": "1.0",
    "target": "sm120",
    "key_fields": [["recipe", "kitty"], ["source", "sha256:1234"], ["tool gcc", "12.2.0"]],
}


def a_wheel(folder: Path, name: str, version: str = "1.0", **files: bytes) -> Path:
    """A sound wheel with a module, a program and an entry point."""
    info = f"{name}-{version}.dist-info"
    contents = {
        f"{name}/__init__.py": b"value = 1\n",
        f"{name}/more.py": f"version = {version!r}\n".encode(),
        f"{name}-{version}.data/scripts/{name}-tool": b"#!python\nprint('hi')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:f\n".encode(),
    } | {key.replace("__", "/").replace("INFO", info): data for key, data in files.items()}
    contents[f"{info}/RECORD"] = a_record(contents, info)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{name}-{version}-py3-none-any.whl"
    place.write_bytes(a_zip(contents))
    return place


def a_kit_wheel(folder: Path, **changes: object) -> Path:
    """A wheel that says that this kit made it."""
    provenance = json.dumps(PROVENANCE | changes).encode()
    version = f"1.0+k{KEY[:8]}"
    return a_wheel(folder, "kitty", version, **{"INFO__buildkit.json": provenance})


def write_index(root: Path, wheels: list[Path]) -> None:
    """Write a package index. Source: PEP 503."""
    for wheel in wheels:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        page = root / wheel.name.partition("-")[0] / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        known = page.read_text() if page.exists() else "<!DOCTYPE html>\n"
        link = f'<a href="{wheel.as_uri()}#sha256={digest}">{wheel.name}</a>\n'
        page.write_text(known + link)


@dataclass
class Place:
    """A directory with an index of ``alpha`` and ``gamma``, a shelf with ``kitty``, patches."""

    root: Path

    @property
    def shelf(self) -> Path:
        return self.root / "shelf"

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def first(self) -> Path:
        """The environment that is locked."""
        return self.root / "first"

    @property
    def second(self) -> Path:
        """The environment that is synced."""
        return self.root / "second"

    @property
    def lock(self) -> Path:
        return self.root / "pylock.buildkit.toml"

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BUILDKIT", "PIP_", "UV_"))
        }
        return kept | {
            "BUILDKIT_CACHE": str(self.root / "cache"),
            "BUILDKIT_CONFIG": str(self.root / "config.toml"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": (self.root / "index").as_uri(),
        }

    def fill(self) -> None:
        files = self.root / "files"
        wheels = [a_wheel(files, "alpha"), a_wheel(files, "alpha", "1.1"), a_wheel(files, "gamma")]
        write_index(self.root / "index", wheels)
        a_kit_wheel(self.shelf)
        (self.patches / "gamma").mkdir(parents=True)
        (self.patches / "gamma" / "two.patch").write_text(PATCH)
        self.venv(self.first)
        self.install(self.first, "alpha==1.0", "gamma==1.0", "kitty")
        where = ("--python", str(self.first), "--patches", str(self.patches))
        done = self.run("patch", "apply", "gamma", "--installed", *where)
        assert done.returncode == 0, done.stderr
        done = self.run("lock", "--python", str(self.first), "--find-links", str(self.shelf))
        assert done.returncode == 0, done.stderr

    def venv(self, root: Path) -> None:
        self._uv("venv", "--python", sys.executable, root)

    def install(self, root: Path, *requirements: str | Path) -> None:
        index = ("--index-url", self.environment["PIP_INDEX_URL"], "--find-links", self.shelf)
        # Copies, as pip makes them: what a test edits must not reach uv's cache.
        self._uv("pip", "install", "--link-mode=copy", "--python", root, *index, *requirements)

    def _uv(self, *args: str | Path) -> None:
        variables = self.environment | {
            "UV_CACHE_DIR": str(self.root / "cache" / "uv"),
            "UV_NO_CONFIG": "1",
        }
        subprocess.run([uv_binary(), *args, "--quiet"], env=variables, check=True)

    def run(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            kit(*args),
            env=self.environment | variables,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )

    def sync(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Bring the second environment to the lock."""
        where = ("--find-links", str(self.shelf), "--patches", str(self.patches))
        return self.run("sync", "--create", str(self.second), *where, *args, **variables)

    def check(self, *args: str) -> dict[str, object]:
        """Return what a check of the second environment tells."""
        done = self.run("sync", "--check", "--json", "--python", str(self.second), *args)
        document: dict[str, object] = json.loads(done.stdout)
        assert done.returncode == (1 if document["differences"] else 0)
        return document

    def kinds(self) -> list[tuple[str, str]]:
        """Return name and kind of each difference of the second environment."""
        return [(item["name"], item["kind"]) for item in self.check()["differences"]]


def site(root: Path) -> Path:
    """Return the site-packages directory of an environment."""
    (found,) = (root / "lib").glob("python*/site-packages")
    return found


def files_of(root: Path) -> dict[str, bytes]:
    """Return what an environment imports, without what differs from installer to installer."""
    own = {"INSTALLER", "REQUESTED", "RECORD", "uv_cache.json", "direct_url.json"}
    return {
        path.relative_to(site(root)).as_posix(): path.read_bytes()
        for path in site(root).rglob("*")
        if path.is_file() and path.name not in own and path.suffix != ".pyc"
    }
