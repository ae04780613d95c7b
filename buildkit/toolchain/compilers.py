"""The host compiler: which GCC, whether the recipe and the CUDA toolkit accept it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import Digest, digest_file
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.toolchain.memo import remembered
from buildkit.values import ToolIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.run import Runner

__all__ = ["probe_binutils", "probe_gcc"]

#: Suffixes under which distributions install further GCCs beside the default one.
_SUFFIXES = ("", *(f"-{major}" for major in range(16, 8, -1)))


def probe_gcc(
    allowed: str,
    newest: int | None,
    *,
    runner: Runner,
    environment: Mapping[str, str],
    memo: Path,
) -> tuple[ToolIdentity, ToolIdentity]:
    """Return the C and the C++ compiler: the first GCC on PATH that the recipe and CUDA accept.

    ``gcc`` itself is tried first, then ``gcc-16`` down to ``gcc-9``.

    :param allowed: PEP 440 range of the recipe; empty allows all.
    :param newest: Newest major version that the CUDA toolkit accepts; None for no limit.
    :raises ToolchainError: if none fits, naming those that were found.
    """
    found = []
    for suffix in _SUFFIXES:
        pair = [
            _probe(f"{name}{suffix}", name, runner, environment, memo) for name in ("gcc", "g++")
        ]
        if pair[0] is None or pair[1] is None:
            continue
        if _fits(pair[0].version, allowed, newest):
            return pair[0], pair[1]
        found.append(f"gcc{suffix} {pair[0].version}")
    limits = [f"gcc {allowed}"] if allowed else ["gcc"]
    if newest is not None:
        limits.append(f"at most {newest}, the newest that this CUDA takes")
    raise ToolchainError(
        f"Host compiler: found {', '.join(dict.fromkeys(found)) or 'no gcc with g++'}, allowed"
        f" {', '.join(limits)}.",
        remedy="Install one that fits (`apt-get install gcc g++`, `dnf install gcc-c++`); one named"
        " gcc-12 beside the default is found too.",
    )


def _probe(
    program: str, name: str, runner: Runner, environment: Mapping[str, str], memo: Path
) -> ToolIdentity | None:
    variables = base_environment(environment)
    place = shutil.which(program, path=variables["PATH"])
    if place is None:
        return None
    path = Path(place)

    def ask() -> dict[str, str]:
        done = runner.capture([path, "-dumpfullversion"], env=variables, timeout_seconds=60)
        return {"version": done.stdout.strip(), "digest": digest_file(path.resolve())}

    answer = remembered(memo, "gcc", path, ask)
    if not re.fullmatch(r"\d+(\.\d+)*", answer["version"]):
        return None  # clang under gcc's name, or a script
    return ToolIdentity(
        name=name, version=answer["version"], digest=Digest(answer["digest"]), path=path
    )


def probe_binutils(
    gcc: ToolIdentity, *, runner: Runner, environment: Mapping[str, str], memo: Path
) -> tuple[ToolIdentity, ...]:
    """Return the assembler and the linker that a GCC calls; many take the first ones on PATH.

    What is missing is left out: the build will say so itself.
    """
    found = (_binutil(name, gcc, runner, environment, memo) for name in ("as", "ld"))
    return tuple(tool for tool in found if tool is not None)


def _binutil(
    name: str, gcc: ToolIdentity, runner: Runner, environment: Mapping[str, str], memo: Path
) -> ToolIdentity | None:
    variables = base_environment(environment)

    def ask_gcc() -> dict[str, str]:
        done = runner.capture(
            [gcc.path, f"-print-prog-name={name}"], env=variables, timeout_seconds=60
        )
        return {"place": done.stdout.strip()}

    named = remembered(memo, f"gcc-{name}", gcc.path, ask_gcc)["place"]
    place = shutil.which(named, path=variables["PATH"]) if named else None
    if place is None:
        return None
    path = Path(place)

    def ask() -> dict[str, str]:
        done = runner.capture([path, "--version"], env=variables, timeout_seconds=60)
        first = done.stdout.partition("\n")[0].split()
        return {"version": first[-1] if first else "0", "digest": digest_file(path.resolve())}

    answer = remembered(memo, name, path, ask)
    return ToolIdentity(
        name=name, version=answer["version"], digest=Digest(answer["digest"]), path=path
    )


def _fits(version: str, allowed: str, newest: int | None) -> bool:
    if newest is not None and int(version.split(".", maxsplit=1)[0]) > newest:
        return False
    if not allowed:
        return True
    from buildkit.toolchain.ranges import is_in_range

    return is_in_range(version, allowed)
