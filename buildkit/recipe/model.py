"""What a recipe file may say, as types.

What enters: nothing; these are the shapes into which :mod:`buildkit.recipe.decode` decodes TOML.
What leaves: frozen structs that refuse unknown keys. The docstring under each field is the one
source of the JSON Schema's descriptions and of the reference page.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "ArchSettings",
    "ArchiveSource",
    "Build",
    "BundledSource",
    "FlagReplacement",
    "Flags",
    "GitSource",
    "LocalSource",
    "Memory",
    "PypiSource",
    "Recipe",
    "Source",
    "System",
    "SystemFile",
    "Toolchain",
    "Verify",
    "Version",
]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in a recipe: immutable, by keyword, no unknown keys."""


class _Source(_Strict, frozen=True, kw_only=True, tag_field="kind", rename="kebab"):
    """Base of the kinds of source, told apart by ``kind``."""

    subdirectory: str = ""
    """Directory inside the source that holds ``pyproject.toml`` or ``setup.py``."""


class PypiSource(_Source, frozen=True, kw_only=True, tag="pypi"):
    """An sdist or wheel of the package index that the user's pip is configured for."""

    project: str = ""
    """Name on the index; by default the recipe's project."""
    filename: str = ""
    """File on the index, such as ``causal_conv1d-1.7.0.tar.gz``; written by ``buildkit pin``."""
    sha256: str = ""
    """SHA-256 of that file, hexadecimal; written by ``buildkit pin``."""


class GitSource(_Source, frozen=True, kw_only=True, tag="git"):
    """A git repository at a commit."""

    url: str
    """Address of the repository: https, ssh or a local path."""
    ref: str = ""
    """Tag or branch that ``buildkit pin`` resolves to a commit."""
    commit: str = ""
    """Full commit, 40 hexadecimal digits; written by ``buildkit pin``."""
    submodules: bool = False
    """Fetch submodules too, at the commits that the tree names."""


class ArchiveSource(_Source, frozen=True, kw_only=True, tag="archive"):
    """A tar or zip archive at a URL."""

    url: str
    """Address of the archive: https or file."""
    sha256: str = ""
    """SHA-256 of the archive, hexadecimal; written by ``buildkit pin``."""


class LocalSource(_Source, frozen=True, kw_only=True, tag="local"):
    """A directory or archive on this machine."""

    path: str
    """Path, relative to the recipe file."""


class BundledSource(_Source, frozen=True, kw_only=True, tag="bundled"):
    """A directory that ships beside the recipe file."""

    path: str
    """Path, relative to the recipe file; may not leave its directory."""


Source = PypiSource | GitSource | ArchiveSource | LocalSource | BundledSource


class Version(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """One version that the recipe can build."""

    version: str
    """PEP 440 version."""
    source: Source
    """Where its source comes from."""
    patches: tuple[str, ...] = ()
    """Patches of ``patches/<recipe>/`` that this version takes, in order."""
    patch_digests: dict[str, str] = {}
    """SHA-256 of each of them, hexadecimal; written by ``buildkit pin``. A patch that differs is
    refused."""
    sources: dict[str, Source] = {}
    """Dependencies that the build would otherwise download, by a name of your choice. A target
    fetches those that its defines or environment name."""
    project: str = ""
    """Distribution that this version is published as, if not as the recipe's project."""
    requires: tuple[str, ...] = ()
    """Requirements of the build environment, in place of those of ``build.requires``; locked in
    ``<recipe>-<version>.lock``."""
    defines: dict[str, str | bool | int] = {}
    """CMake cache variables, over those of ``build.defines``."""
    published: bool = False
    """Nothing is built: ``buildkit install`` takes the wheel that the package index has for the
    environment."""
    goes_with: dict[str, str] = {}
    """Versions of other recipes that this version works with, by recipe. ``buildkit install`` of
    both takes a pair that goes together."""


class FlagReplacement(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """One flag of compiler calls to replace or remove."""

    old: str
    """The flag as it stands in the call, joined: ``-std=c++17``, ``--threads=4``; a pattern
    ``--threads=*`` matches any value, also one given as the next argument."""
    new: str = ""
    """What takes its place; empty removes it."""
    language: Literal["cuda", "c++", "c", "any"] = "any"
    """Calls of which compiler it is for."""


class Flags(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """What ``bk-launch`` changes in compiler calls."""

    without_code: Literal["keep", "replace", "drop"] = "keep"
    """For calls that name no code for the target: keep them as they are and report it, replace
    their targets by the requested one, or drop the call's GPU code but for PTX."""
    replace: tuple[FlagReplacement, ...] = ()
    """Flags to replace."""


class Build(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """How the source becomes a wheel."""

    requires: tuple[str, ...] = ()
    """Requirements of the isolated build environment, PEP 508. Ranges resolve once, into the lock
    file beside the recipe."""
    backend: Literal["cmake", "torch", "python"] = "cmake"
    """Who drives the compilers: CMake (scikit-build-core and its like), torch's cpp_extension, or
    plain setuptools."""
    defines: dict[str, str | bool | int] = {}
    """CMake cache variables."""
    environment: dict[str, str] = {}
    """Environment variables of the build."""
    config_settings: dict[str, str] = {}
    """PEP 517 config settings."""
    arch_environment: dict[str, Literal["torch", "number", "flashinfer", "cmake"]] = {}
    """Variables that take the GPU target, and in which spelling."""
    project_include: str = ""
    """CMake file beside the recipe that runs at the end of each ``project()`` call
    (``CMAKE_PROJECT_INCLUDE``), for what no option can do. Its contents enter the key."""
    unpatched: tuple[str, ...] = ()
    """Dependencies whose ``PATCH_COMMAND`` may be left out, which is what handing over a directory
    does: the source that is handed over needs no patch, or has it already."""


class Toolchain(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """Which tools the build accepts."""

    cuda: str = ""
    """PEP 440 range of CUDA toolkits; empty when the recipe compiles no CUDA."""
    host_compiler: str = ""
    """PEP 440 range of GCC, such as ``>=9``."""


class ArchSettings(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """What differs for one GPU target."""

    code: str = ""
    """Target that is named to the build when the user leaves the variant open, for example
    ``sm120a``."""
    defines: dict[str, str | bool | int] = {}
    """CMake cache variables, over those of ``build.defines``."""
    environment: dict[str, str] = {}
    """Environment variables, over those of ``build.environment``."""
    known_gaps: tuple[str, ...] = ()
    """What does not work on this target even after a good build; printed before it starts."""


class SystemFile(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """A header or library of the system that the build needs."""

    file: str
    """Header such as ``Python.h`` or ``numa.h``, or library such as ``libnuma.so``."""
    debian: str = ""
    """Package that brings it on Debian and Ubuntu."""
    rpm: str = ""
    """Package that brings it on Fedora, RHEL and their like."""


class System(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """What the build needs of the operating system."""

    headers: tuple[SystemFile, ...] = ()
    """Headers."""
    libraries: tuple[SystemFile, ...] = ()
    """Libraries, by the name that the linker looks for."""


class Memory(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """Peak memory to expect of one compiler call before anything was measured."""

    cuda: str = "6GiB"
    """Of a CUDA translation unit, for one target."""
    cxx: str = "1.5GiB"
    """Of a C or C++ translation unit."""


class Verify(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """How the wheel proves itself."""

    libraries: tuple[str, ...] = ()
    """Glob patterns of libraries that must be in the wheel and hold code for the target."""
    imports: tuple[str, ...] = ()
    """Modules that must import in a clean environment."""
    needs_gpu: bool = False
    """The import needs a GPU: it is skipped, by name, on a machine without one."""
    allow_code: tuple[str, ...] = ()
    """Further code that the wheel may hold, such as ``sm_80`` or ``compute_90``, for example of
    files that are kept as they are."""


class Recipe(_Strict, frozen=True, kw_only=True, rename="kebab"):
    """A recipe file."""

    name: str
    """Name of the recipe; the file is ``<name>.toml``."""
    project: str = ""
    """Distribution that is built; by default the recipe's name."""
    summary: str
    """One sentence."""
    homepage: str = ""
    """Address of the upstream project."""
    default_version: str
    """Version that is made when the user names none."""
    architectures: tuple[str, ...]
    """GPU targets that the recipe supports, such as ``sm120``."""
    torch: bool = False
    """The wheel works only with the torch that it was built for: it then requires just that."""
    versions: tuple[Version, ...]
    """The versions."""
    build: Build = Build()
    """How the source becomes a wheel."""
    toolchain: Toolchain = Toolchain()
    """Which tools the build accepts."""
    arch: dict[str, ArchSettings] = {}
    """What differs per GPU target, by its name without variant."""
    flags: Flags = Flags()
    """What changes in compiler calls."""
    system: System = System()
    """What the build needs of the operating system; what a machine lacks is taken from the
    distribution's packages, without root."""
    memory: Memory = Memory()
    """Memory priors."""
    verify: Verify = Verify()
    """How the wheel proves itself."""
    installed_imports: tuple[str, ...] = ()
    """Modules that must import once the wheel is installed with all that it requires, which
    ``buildkit install`` tries besides those of ``verify.imports``."""
