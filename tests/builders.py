"""Values for tests, each with what a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from buildkit.arch import parse_arch
from buildkit.digest import Digest, digest_bytes
from buildkit.recipe.model import (
    ArchSettings,
    Build,
    BundledSource,
    Recipe,
    Toolchain,
    Version,
)
from buildkit.request import Request
from buildkit.values import (
    EnvLock,
    Facts,
    PinnedArchive,
    PythonIdentity,
    SelectedPatch,
    ToolIdentity,
)
from buildkit.values import Toolchain as FoundToolchain


def a_digest(text: str = "x") -> Digest:
    return digest_bytes(text.encode())


def a_recipe(**changes: Any) -> Recipe:
    recipe = Recipe(
        name="toy",
        summary="A toy.",
        default_version="1.0",
        architectures=("sm90", "sm120"),
        versions=(Version(version="1.0", source=BundledSource(path="toy")),),
        build=Build(requires=("setuptools",)),
        toolchain=Toolchain(cuda=">=12.8"),
        arch={"sm120": ArchSettings(code="sm120a")},
    )
    return msgspec.structs.replace(recipe, **changes)


def a_request(**changes: Any) -> Request:
    return replace(Request(recipe="toy", arch=parse_arch("sm120")), **changes)


def a_source(**changes: Any) -> PinnedArchive:
    source = PinnedArchive(
        kind="sdist",
        name="toy",
        version="1.0",
        filename="toy-1.0.tar.gz",
        url=None,
        sha256=a_digest("toy"),
    )
    return replace(source, **changes)


def a_python(**changes: Any) -> PythonIdentity:
    python = PythonIdentity(
        version="3.11.7",
        tag="cp311",
        platform="linux_x86_64",
        libc="glibc-2.36",
        executable=Path("/usr/bin/python3"),
    )
    return replace(python, **changes)


def a_tool(name: str, version: str, text: str = "bits") -> ToolIdentity:
    return ToolIdentity(
        name=name, version=version, digest=a_digest(text), path=Path("/usr/bin") / name
    )


def a_toolchain(**changes: Any) -> FoundToolchain:
    toolchain = FoundToolchain(
        tools=(a_tool("nvcc", "13.0.88"), a_tool("gcc", "12.2.0"), a_tool("g++", "12.2.0")),
        cuda_root=Path("/usr/local/cuda"),
        cuda_lock=None,
    )
    return replace(toolchain, **changes)


def a_lock(**versions: str) -> EnvLock:
    text = "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))
    return EnvLock(text=text, digest=a_digest(text), versions=versions)


def a_patch(name: str = "fix", text: str = "diff") -> SelectedPatch:
    return SelectedPatch(name=name, file=Path(f"/patches/{name}.patch"), digest=a_digest(text))


def some_facts(**changes: Any) -> Facts:
    facts = Facts(
        source=a_source(),
        extra_sources=(),
        patches=(),
        python=a_python(),
        toolchain=a_toolchain(),
        lock=a_lock(setuptools="84.0.0"),
    )
    return replace(facts, **changes)


def a_value_patch(package: str) -> str:
    """Return the text of a patch that makes a package's ``value = 1`` a 2, and proves it."""
    return f"""\
Description: another value
Goal: {package}/__init__.py: text matches /value = 2/

--- a/{package}/__init__.py
+++ b/{package}/__init__.py
@@ -1 +1 @@
-value = 1
+value = 2
"""
