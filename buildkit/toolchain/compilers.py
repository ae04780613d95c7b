"""The host compiler: which GCC, whether the recipe and the CUDA toolkit accept it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import Digest, digest_file
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.toolchain.apt import known_compilers
from buildkit.toolchain.distribution import (
    compiler_packages,
    install_command,
    read_distribution,
)
from buildkit.toolchain.memo import remembered
from buildkit.values import ToolIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.run import Runner

__all__ = ["HostCompiler", "probe_binutils", "probe_gcc"]

#: Suffixes under which distributions install further GCCs beside the default one.
_SUFFIXES = ("", *(f"-{major}" for major in range(16, 8, -1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompiler:
    """The host compiler of a build."""

    gcc: ToolIdentity
    gxx: ToolIdentity
    note: str
    """Why it is not the default one, or empty."""


def probe_gcc(
    allowed: str,
    newest: int | None,
    *,
    runner: Runner,
    environment: Mapping[str, str],
    memo: Path,
    os_release: Path = Path("/etc/os-release"),
) -> HostCompiler:
    """Return the C and the C++ compiler: the first GCC on PATH that the recipe and CUDA accept.

    ``gcc`` itself is tried first, then ``gcc-16`` down to ``gcc-9``.

    :param allowed: PEP 440 range of the recipe; empty allows all.
    :param newest: Newest major version that the CUDA toolkit accepts; None for no limit.
    :raises ToolchainError: if none fits, naming those that were found, with the command that
        installs one on this system.
    """
    limits = [f"gcc {allowed}"] if allowed else ["gcc"]
    if newest is not None:
        limits.append(f"at most {newest}, the newest that this CUDA takes")
    found: list[str] = []
    for suffix in _SUFFIXES:
        pair = [
            _probe(f"{name}{suffix}", name, runner, environment, memo) for name in ("gcc", "g++")
        ]
        if pair[0] is None or pair[1] is None:
            continue
        if _fits(pair[0].version, allowed, newest):
            note = ""
            if found:
                note = (
                    f"gcc{suffix} {pair[0].version}, since {', '.join(found)} does not fit: allowed"
                    f" {', '.join(limits)}"
                )
            return HostCompiler(gcc=pair[0], gxx=pair[1], note=note)
        found.append(f"gcc{suffix} {pair[0].version}")
    raise ToolchainError(
        f"Host compiler: found {', '.join(dict.fromkeys(found)) or 'no gcc with g++'}, allowed"
        f" {', '.join(limits)}.",
        remedy=_remedy(allowed, newest if found else None, runner, environment, os_release),
    )


def _remedy(
    allowed: str,
    newest: int | None,
    runner: Runner,
    environment: Mapping[str, str],
    os_release: Path,
) -> str:
    """Return the command that installs a compiler which fits, beside the default one.

    :param newest: None when the system's default compiler will do.
    """
    distribution = read_distribution(os_release)
    known: list[int] = []
    path = base_environment(environment)["PATH"]
    if distribution.family == "debian" and shutil.which("apt-cache", path=path) is not None:
        listed = known_compilers(runner, environment)
        known = [major for major in listed if _fits(str(major), allowed, newest)]
    command = install_command(
        distribution.family, packages := compiler_packages(distribution, newest, known)
    )
    if not command:
        return "Install one that fits; one named gcc-14 beside the default is found too."
    told = f"Install with `{command}`; it is found beside the default one."
    if packages[0].startswith("gcc-toolset-"):
        told += f" Put /opt/rh/{packages[0]}/root/usr/bin first in PATH."
    return told


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
