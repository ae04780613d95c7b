"""The twin of sgl-kernel: repositories on a server of loopback, a recipe, and CMake without a kit.

The recipe is the kit's own of sgl-kernel, read from the file that ships and written with other
addresses and without torch: what the twin proves, it proves of that recipe.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tomlkit

from buildkit.paths import data_root
from tests.world import World

PROJECT = Path(__file__).parents[1] / "projects" / "twin"
RECIPES = data_root() / "recipes"

#: The repository of the project itself; all others are its dependencies, and come before it.
UPSTREAM = "sglang"

#: Nothing of a commit is left to chance, and nothing of the user's git comes in.
_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2026-01-01T00:00:00Z"))
    },
}


def git(folder: Path, *args: str) -> str:
    """Run git as nobody in particular."""
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env=os.environ | _GIT,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass(frozen=True)
class Served:
    """The repositories while a server offers them, as git's documentation of "dumb" HTTP says."""

    root: Path
    address: str

    @property
    def trees(self) -> Path:
        """What each repository holds, by its name; flashinfer with upstream's patch."""
        return self.root / "trees"

    @property
    def upstream(self) -> Path:
        return self.trees / UPSTREAM / "sgl-kernel"


@contextmanager
def serve(root: Path) -> Iterator[Served]:
    """Make the repositories and serve them until the end of the block."""
    offered = root / "offered"
    offered.mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(offered)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served = Served(root, f"http://127.0.0.1:{server.server_port}")
    words = {"SERVER": served.address}
    folders = [path for path in sorted(PROJECT.iterdir()) if path.is_dir()]
    for folder in sorted(folders, key=lambda path: path.name == UPSTREAM):
        tree = served.trees / folder.name
        shutil.copytree(folder, tree)
        for file in (*tree.rglob("CMakeLists.txt"), *tree.rglob("*.cmake")):
            file.write_text(re.sub(r"%([\w-]+)%", lambda found: words[found[1]], file.read_text()))
        store = offered / f"{folder.name}.git"
        git(tree, "init", "-q", "-b", "main", "--separate-git-dir", str(store))
        git(tree, "add", ".")
        git(tree, "commit", "-qm", "first")
        git(tree, "tag", "v1")
        words[folder.name] = git(tree, "rev-parse", "HEAD")
    _patch_flashinfer(served)
    for store in offered.iterdir():
        git(store, "update-server-info")
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


def _patch_flashinfer(served: Served) -> None:
    """Commit upstream's patch, for a recipe that hands the source over."""
    tree = served.trees / "flashinfer"
    git(tree, "apply", str(served.upstream / "cmake" / "flashinfer.patch"))
    git(tree, "commit", "-qam", "the patch of sgl-kernel")
    git(tree, "tag", "patched")


def read_recipe() -> dict[str, Any]:
    """Return the kit's recipe of sgl-kernel, its first version alone and without torch."""
    recipe = tomllib.loads((RECIPES / "sgl-kernel.toml").read_text())
    del recipe["torch"]
    recipe["versions"] = recipe["versions"][:1]
    build = recipe["build"]
    build["requires"] = [text for text in build["requires"] if not text.startswith("torch")]
    build["unpatched"] = ["repo-flashinfer"]
    recipe["verify"]["needs-gpu"] = False
    # The least that the governor may take for granted of a unit that it has not met.
    recipe["memory"] = {"cuda": "0.5GiB", "cxx": "0.25GiB"}
    return recipe


def write_recipe(recipe: dict[str, Any], served: Served, world: World) -> None:
    """Write a recipe of the twin, with what lies beside it, where a world has its recipes."""
    (version,) = recipe["versions"]
    version["source"] = {
        "kind": "git",
        "url": f"{served.address}/{UPSTREAM}.git",
        "ref": "v1",
        "subdirectory": version["source"]["subdirectory"],
    }
    for name, source in version["sources"].items():
        if source["kind"] != "bundled":
            ref = "patched" if name == "flashinfer" else "v1"
            url = f"{served.address}/{name}.git"
            version["sources"][name] = {"kind": "git", "url": url, "ref": ref}
    world.recipes.mkdir(parents=True, exist_ok=True)
    shutil.copytree(RECIPES / "sgl-kernel", world.recipes / "sgl-kernel", dirs_exist_ok=True)
    (world.recipes / "sgl-kernel.toml").write_text(tomlkit.dumps(recipe))


@dataclass(frozen=True)
class Cmake:
    """A CMake without a kit around it, and what the recipe would have told it."""

    program: Path
    ninja: Path
    source: Path
    build: Path
    defines: dict[str, str]

    def run(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *args], capture_output=True, text=True, check=False, env=plain()
        )

    def configure(self, *, without: str = "(?!)", **changes: str | Path) -> Configured:
        """Configure with the recipe's defines, less those whose names match, and with others."""
        kept = {k: v for k, v in self.defines.items() if not re.fullmatch(without, k)}
        given = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            "CMAKE_INSTALL_PREFIX": self.build / "out",
            "CMAKE_MAKE_PROGRAM": self.ninja,
            "Python_EXECUTABLE": sys.executable,
            **kept,
            **changes,
        }
        flags = [f"-D{name}={value}" for name, value in given.items()]
        done = self.run("-G", "Ninja", "-S", self.source, "-B", self.build, *flags)
        return Configured(done.returncode, done.stdout, " ".join(done.stderr.split()), self.build)


@dataclass(frozen=True)
class Configured:
    """What came of it."""

    status: int
    told: str
    errors: str
    """In one line, as CMake breaks its own."""
    build: Path

    def commands(self) -> dict[str, str]:
        """Return the compiler calls, by library and name of the source."""
        found = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            library = re.search(r"CMakeFiles/(\w+)\.dir/", entry["command"])
            assert library is not None
            found[f"{library[1]}/{Path(entry['file']).name}"] = entry["command"]
        return found

    def codes(self) -> dict[str, set[str]]:
        """Return the GPU targets of each library's CUDA sources."""
        found: dict[str, set[str]] = {}
        for name, command in self.commands().items():
            if name.endswith(".cu"):
                library = name.partition("/")[0]
                found.setdefault(library, set()).update(re.findall(r",code=(\S+)", command))
        return found


def plain() -> dict[str, str]:
    """Return the environment of someone who has no kit, and no settings of his own either."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "no_proxy")
    return {name: os.environ[name] for name in kept if name in os.environ} | _GIT


def old_cmake(root: Path, version: str) -> Path:
    """Return a CMake of the package index."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(root)]
    subprocess.run([*pip, f"cmake=={version}"], check=True, capture_output=True)
    return root / "cmake" / "data" / "bin" / "cmake"


MAKE = ("make", "sgl-kernel", "--arch", "sm120", "--out", "out")

#: What the recipe says to CMake about sources.
HANDED = "FETCHCONTENT_.*"


@dataclass(frozen=True)
class Twin:
    """The repositories, and a world in which the recipe was pinned and made."""

    served: Served
    world: World
    made: subprocess.CompletedProcess[str]

    @property
    def wheel(self) -> Path:
        return self.world.root / self.made.stdout.strip()

    def plan(self, arch: str = "sm120") -> dict[str, str]:
        """Return what the key of a target covers."""
        done = self.world.run("plan", "sgl-kernel", "--arch", arch, "--json")
        assert done.returncode == 0, done.stderr
        fields: dict[str, str] = json.loads(done.stdout)["key_fields"]
        return fields

    def defines(self, trees: Path, arch: str = "sm120") -> dict[str, str]:
        """Return what the plan of a target tells CMake, with sources in a directory."""
        found = {
            name.removeprefix("define "): re.sub(
                r"\$\{sources\.([^}]*)\}", lambda named: str(trees / named[1]), value
            )
            for name, value in self.plan(arch).items()
            if name.startswith("define ")
        }
        include = self.world.recipes / "sgl-kernel" / "project.cmake"
        return found | {"CMAKE_PROJECT_INCLUDE": str(include)}

    def cmake(self, root: Path) -> Cmake:
        """Return a CMake over a copy of the project, told what the plan tells it."""
        locked = sorted((self.world.cache / "environments").glob("*/bin/cmake"))[0]
        trees = root / "trees"
        shutil.copytree(self.served.trees, trees, ignore=shutil.ignore_patterns(".git"))
        shutil.copytree(self.world.recipes / "sgl-kernel" / "absent", trees / "absent")
        return Cmake(
            program=locked,
            ninja=locked.with_name("ninja"),
            source=trees / UPSTREAM / "sgl-kernel",
            build=root / "build",
            defines=self.defines(trees),
        )
