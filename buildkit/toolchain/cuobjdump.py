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
    from buildkit.values import PythonIdentity

__all__ = ["WHEEL", "ensure_cuobjdump"]

#: Reads the code of every CUDA release up to its own.
WHEEL = ("nvidia-cuda-cuobjdump>=13.2",)


def ensure_cuobjdump(python: PythonIdentity, supply: Supply) -> Path:
    """Return the program, installed into an environment of its own if it is not there.

    :raises ToolchainError: if it cannot be installed.
    """
    file = data_root() / "recipes" / "cuda" / "cuobjdump.lock"
    lock = read_lock(file, WHEEL, python, name="cuda", memo=supply.paths.memo)
    home = ensure_environment(lock, python, supply)
    for program in home.glob("lib/python*/site-packages/nvidia/*/bin/cuobjdump"):
        return program
    raise ToolchainError(
        f"The wheel nvidia-cuda-cuobjdump holds no cuobjdump (looked in {home}).",
        remedy="Remove that directory and try again.",
    )
