"""The values that travel between the stages of a ``make``.

Frozen and free of behaviour, so that each stage is a function from one of them to the next, and so
that the types carry the guarantees: only a :class:`PatchedTree` can be built, only a
:class:`VerifiedWheel` can be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from buildkit.borrowed import SystemChoice

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.arch import GpuArch
    from buildkit.digest import Digest
    from buildkit.records import UnitRecord

__all__ = [
    "AlreadyUpstream",
    "Applied",
    "BuiltWheel",
    "CacheEntry",
    "EnvLock",
    "Facts",
    "FlagRule",
    "GpuCode",
    "ImportPassed",
    "ImportSkipped",
    "IndexSettings",
    "KeyField",
    "LocalTree",
    "LockedPackage",
    "PatchedTree",
    "PinnedArchive",
    "PinnedCommit",
    "Plan",
    "ProjectInclude",
    "PythonIdentity",
    "ResolvedSource",
    "SelectedPatch",
    "SourceTree",
    "ToolIdentity",
    "Toolchain",
    "Unpinned",
    "VerifiedWheel",
]


# --- sources -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedArchive:
    """A file with a known SHA-256: an sdist or wheel of an index, or an archive at a URL."""

    kind: Literal["sdist", "wheel", "archive"]
    name: str
    """The project on the index; for an archive, the source's name."""
    version: str
    filename: str
    url: str | None
    """None for files of an index: the user's own pip configuration decides where it lies."""
    sha256: Digest
    subdirectory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedCommit:
    """A git commit, by its full object name."""

    url: str
    commit: str
    ref: str = ""
    """The tag or branch that the commit was pinned from, to say more if it is gone; not in the
    key."""
    subdirectory: str = ""
    has_submodules: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTree:
    """A directory on this machine, known by a fingerprint."""

    path: Path
    fingerprint: Digest
    method: Literal["content", "stat"]
    """``stat``: from size, mtime_ns, ctime_ns and inode of each file, quick and local to a disk."""
    subdirectory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpinned:
    """A source whose digest or commit the recipe does not hold yet: planned, never made."""

    description: str
    reason: str


ResolvedSource = PinnedArchive | PinnedCommit | LocalTree | Unpinned


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """How the user's pip reaches package indexes. Addresses may hold credentials."""

    index_url: str | None = None
    """None: pip's own default."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    trusted_hosts: tuple[str, ...] = ()
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree:
    """An unpacked source."""

    path: Path
    stamp: Digest
    """Digest of what it was made from."""


# --- patches -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedPatch:
    """A patch that a recipe names for the version at hand."""

    name: str
    file: Path
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInclude:
    """A recipe's CMake file that runs at the end of each ``project()`` call."""

    file: Path
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The patch was needed and took effect."""

    patch: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyUpstream:
    """The tree reaches the patch's goals by itself."""

    patch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedTree:
    """A source tree on which every patch of the plan has proven its effect."""

    path: Path
    stamp: Digest
    outcomes: tuple[Applied | AlreadyUpstream, ...]


# --- toolchain -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolIdentity:
    """A program that takes part in the build; version and digest enter the key, the path not."""

    name: str
    version: str
    digest: Digest
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonIdentity:
    """The interpreter that a wheel is built for."""

    version: str
    """Full version, such as ``"3.11.7"``."""
    tag: str
    """PEP 425 Python tag, such as ``"cp311"``."""
    platform: str
    """Such as ``"linux_x86_64"``."""
    libc: str
    """Such as ``"glibc-2.36"``."""
    flags: str = ""
    """Digest of the flags that it was compiled with, which setuptools uses for extensions too."""
    executable: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvLock:
    """Exact versions and hashes of everything that an isolated environment holds.

    ``text`` is a requirements file with ``--hash`` options (pip's hash-checking mode).
    """

    text: str
    digest: Digest
    versions: dict[str, str] = field(hash=False)
    """Version of each locked project that applies to this interpreter, by normalised name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """One project of a lock, and the files that the lock allows for it."""

    name: str
    version: str
    digests: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Every tool of a build."""

    tools: tuple[ToolIdentity, ...]
    cuda_root: Path | None
    """Toolkit root, or None when the recipe compiles no CUDA."""
    cuda_lock: EnvLock | None
    """What the toolkit is assembled from, when it comes from NVIDIA's wheels."""
    note: str = ""
    """Why the host compiler is not the default one; for people, not in the key."""


# --- plan ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that a plan needs to know about sources, patches, tools and this machine."""

    source: ResolvedSource
    extra_sources: tuple[tuple[str, ResolvedSource], ...]
    """Dependencies that are handed to the build, by the name that the recipe gives them."""
    patches: tuple[SelectedPatch, ...]
    python: PythonIdentity
    toolchain: Toolchain
    lock: EnvLock
    launcher: str = ""
    """Digest of the sources of the kit's launcher, which rewrites compiler calls."""
    project_include: ProjectInclude | None = None
    system: SystemChoice = field(default_factory=SystemChoice)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRule:
    """One replacement that ``bk-launch`` makes in compiler calls."""

    old: str
    new: str
    """Empty: the flag is removed."""
    language: Literal["cuda", "c++", "c", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyField:
    """One line of what the key covers."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a ``make`` will do, decided; ``key`` is the digest of ``key_fields``."""

    recipe: str
    project: str
    """Name of the distribution that is built."""
    version: str
    local_version: str
    """PEP 440 local version label, or empty."""
    arch: GpuArch
    """The requested target; ``pins`` tells which code the wheel may hold."""
    code: GpuArch
    """The target that is named to the build: ``arch`` with the recipe's variant."""
    source: ResolvedSource
    extra_sources: tuple[tuple[str, ResolvedSource], ...]
    patches: tuple[SelectedPatch, ...]
    python: PythonIdentity
    toolchain: Toolchain
    lock: EnvLock
    backend: Literal["cmake", "torch", "python"]
    """Who drives the compilers."""
    defines: tuple[tuple[str, str], ...]
    environment: tuple[tuple[str, str], ...]
    config_settings: tuple[tuple[str, str], ...]
    rules: tuple[FlagRule, ...]
    without_code: Literal["keep", "replace", "drop"]
    """What to do with a compiler call that names no code for the target."""
    key_fields: tuple[KeyField, ...]
    key: Digest
    project_include: ProjectInclude | None = None
    unpatched: tuple[str, ...] = ()
    """Dependencies whose ``PATCH_COMMAND`` the recipe knows to be left out."""
    system: SystemChoice = field(default_factory=SystemChoice)

    @property
    def unpinned(self) -> tuple[Unpinned, ...]:
        """The sources that keep this plan from being made."""
        everything = (self.source, *(source for _, source in self.extra_sources))
        return tuple(source for source in everything if isinstance(source, Unpinned))


# --- results -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWheel:
    """A wheel as the build made it, not yet verified."""

    path: Path
    units: tuple[UnitRecord, ...]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """The GPU code of one shared library in a wheel."""

    library: str
    sass: tuple[str, ...]
    """Machine code, such as ``("sm_120a",)``, sorted, each once."""
    ptx: tuple[str, ...]
    """Virtual code, such as ``("compute_90",)``, sorted, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPassed:
    """The import check ran in a clean environment and passed."""

    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSkipped:
    """The import check did not run."""

    modules: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedWheel:
    """A wheel whose GPU code is known to be what was asked for."""

    path: Path
    sha256: Digest
    gpu_code: tuple[GpuCode, ...]
    imports: ImportPassed | ImportSkipped

    @property
    def verdict(self) -> str:
        """The one line that the terminal, ``--json`` and the provenance agree on."""
        ran = isinstance(self.imports, ImportPassed)
        return "code verified, import ok" if ran else "code verified, import NOT run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A verified wheel in the cache."""

    key: Digest
    wheel: Path
    sha256: Digest
    verdict: str
    targets: tuple[str, ...]
    """Machine code in the wheel, such as ``("sm_120a",)``."""
    origin: str = ""
    """Address of the remote that it came from; empty: it was made or imported here."""
