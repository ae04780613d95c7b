"""NVIDIA's cuobjdump, from its wheel: the one tool that reads machine code out of a library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.errors import ToolchainError
from buildkit.paths import data_root
from buildkit.toolchain.environment import ensure_environment
from buildkit.toolchain.lock import read_lock

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.values import EnvLock, PythonIdentity

__all__ = ["WHEEL", "cuobjdump_lock", "ensure_cuobjdump"]

#: Reads the code of every CUDA release up to its own.
WHEEL = ("nvidia-cuda-cuobjdump>=13.2",)


def ensure_cuobjdump(python: PythonIdentity, supply: Supply) -> Path:
    """Return the program, installed into an environment of its own if it is not there.

    :raises ToolchainError: if it cannot be installed.
    """
    home = ensure_environment(cuobjdump_lock(python, supply), python, supply)
    for program in home.glob("lib/python*/site-packages/nvidia/*/bin/cuobjdump"):
        return program
    raise ToolchainError(
        f"The wheel nvidia-cuda-cuobjdump holds no cuobjdump (looked in {home}).",
        remedy="Remove that directory and try again.",
    )


def cuobjdump_lock(python: PythonIdentity, supply: Supply) -> EnvLock:
    """Return the lock of the program's wheel."""
    file = data_root() / "recipes" / "cuda" / "cuobjdump.lock"
    return read_lock(file, WHEEL, python, name="cuda", memo=supply.paths.memo)
