"""Names of the kit's directories: the one place that knows the layout. Pure; makes nothing.

``root`` is ``BUILDKIT_CACHE``, else ``$XDG_CACHE_HOME/buildkit``, else ``~/.cache/buildkit``. The
layout below it has to stay the same from build to build, since compiler caches and debug
information see these paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Paths", "Slot", "data_root", "paths_from"]


@dataclass(frozen=True, slots=True)
class Paths:
    """Every directory that the kit writes to, below one root."""

    root: Path

    @property
    def downloads(self) -> Path:
        """Fetched archives, by SHA-256; immutable."""
        return self.root / "downloads"

    def download(self, sha256: str, filename: str) -> Path:
        """Where a fetched file lies, if it was fetched."""
        return self.downloads / sha256[:2] / sha256 / filename

    @property
    def git(self) -> Path:
        """Bare mirrors of git repositories, one per URL."""
        return self.root / "git"

    @property
    def environments(self) -> Path:
        """Isolated build environments, one per lock and interpreter."""
        return self.root / "environments"

    @property
    def uv(self) -> Path:
        """Cache of uv, from which environments are hard-linked."""
        return self.root / "uv"

    @property
    def toolkits(self) -> Path:
        """CUDA toolkit roots assembled from NVIDIA's wheels."""
        return self.root / "toolkits"

    @property
    def system(self) -> Path:
        """Packages of the distribution, unpacked for builds."""
        return self.root / "system"

    @property
    def package_lists(self) -> Path:
        """The package manager's own lists, kept here since the system's need root."""
        return self.root / "package-lists"

    @property
    def locks(self) -> Path:
        """What was resolved once: a user's own constraints, packages of the distribution."""
        return self.root / "locks"

    @property
    def governors(self) -> Path:
        """Sockets of governors, one directory per machine."""
        return self.root / "governors"

    @property
    def builds(self) -> Path:
        """Build slots: source tree, build directory and logs."""
        return self.root / "builds"

    @property
    def objects(self) -> Path:
        """Compiled objects; the directory of the cache of objects, which keeps its size."""
        return self.root / "objects"

    @property
    def wheels(self) -> Path:
        """Verified wheels, by key."""
        return self.root / "wheels"

    @property
    def damaged(self) -> Path:
        """Entries that did not match their digests, for a person to look at."""
        return self.root / "damaged"

    @property
    def patchlog(self) -> Path:
        """Notes of packages that were patched in place, by environment and name."""
        return self.root / "patchlog"

    @property
    def patched(self) -> Path:
        """Notes of patched wheels, by key; a wheel itself is made anew from its download."""
        return self.root / "patched"

    @property
    def history(self) -> Path:
        """What compiler calls took on this machine."""
        return self.root / "history-2.sqlite3"

    @property
    def memo(self) -> Path:
        """What probes said of programs, by the programs' file fingerprints."""
        return self.root / "memo"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one build: recipe, version, target and environment.

    It outlives the build, so that a killed ``make`` goes on from the objects that it has and a
    changed patch recompiles only what it touches.
    """

    root: Path

    @property
    def lock(self) -> Path:
        """Held by the one ``make`` that may use the slot."""
        return self.root.with_name(f"{self.root.name}.lock")

    @property
    def stamp(self) -> Path:
        """Names the toolchain whose objects lie here; another one empties the slot."""
        return self.root / "toolchain"

    @property
    def unpacked(self) -> Path:
        """The source as it was fetched, then patched; made anew for each build."""
        return self.root / "unpacked"

    @property
    def source(self) -> Path:
        """The patched source that is built; files that did not change keep their times."""
        return self.root / "source"

    @property
    def source_key(self) -> Path:
        """Key of the plan that the source was prepared for."""
        return self.root / "source.key"

    @property
    def wheel_key(self) -> Path:
        """Key of the plan whose wheel lies in ``dist``; empty when its source was edited."""
        return self.root / "dist.key"

    @property
    def sources(self) -> Path:
        """Further sources that are handed to the build, one directory each."""
        return self.root / "sources"

    @property
    def build(self) -> Path:
        """Objects and generated files."""
        return self.root / "build"

    @property
    def dist(self) -> Path:
        """The wheel as the build made it."""
        return self.root / "dist"

    @property
    def result(self) -> Path:
        """The wheel with its local version and provenance."""
        return self.root / "result"

    @property
    def shims(self) -> Path:
        """Compilers by name, each a link to the launcher."""
        return self.root / "shims"

    @property
    def build_tools(self) -> Path:
        """Links to the launcher named ninja and make; first in the build's PATH."""
        return self.root / "tools"

    @property
    def temporary(self) -> Path:
        """TMPDIR of the build."""
        return self.root / "tmp"

    @property
    def log(self) -> Path:
        """Everything that the build printed."""
        return self.root / "build.log"

    @property
    def launch_config(self) -> Path:
        """What ``bk-launch`` has to do."""
        return self.root / "launch.conf"

    @property
    def project_include(self) -> Path:
        """The recipe's CMake file, as its digest in the plan says."""
        return self.root / "project.cmake"

    @property
    def setuptools_config(self) -> Path:
        """Tells setuptools where to put objects."""
        return self.root / "setuptools.cfg"

    @property
    def records(self) -> Path:
        """What ``bk-launch`` measured, one line per call."""
        return self.root / "records.jsonl"

    @property
    def knowledge(self) -> Path:
        """What was known of the build's units before it began."""
        return self.root / "knowledge.json"

    @property
    def governed(self) -> Path:
        """Under which limits the last build ran, and how it ended."""
        return self.root / "governed.json"


def paths_from(environment: Mapping[str, str]) -> Paths:
    """Return the layout that the environment asks for."""
    if named := environment.get("BUILDKIT_CACHE"):
        return Paths(Path(named).expanduser().absolute())
    if base := environment.get("XDG_CACHE_HOME"):
        return Paths(Path(base).absolute() / "buildkit")
    return Paths(Path.home() / ".cache" / "buildkit")


def data_root() -> Path:
    """Return the directory that holds ``recipes`` and ``patches``.

    In an installed wheel they lie in the package; in a checkout (editable installs too) at the top
    level, so that an edited recipe takes effect at once instead of a stale copy.
    """
    package = Path(__file__).parent
    checkout = package.parent
    if (checkout / "recipes").is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout
    return package / "data"
