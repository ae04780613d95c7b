"""The distribution that the kit runs on, and the commands that install something on it.

What enters: ``os-release``. What leaves: a family, packages, one command. Installs nothing.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from buildkit.recipe.model import SystemFile

__all__ = [
    "Distribution",
    "compiler_packages",
    "install_command",
    "package_of",
    "parse_distribution",
    "read_distribution",
]

Family = Literal["debian", "fedora", "suse", "alpine", "arch", "unknown"]

#: Names in ID and ID_LIKE by family. Source: os-release(5), and the files of these distributions.
_FAMILIES: tuple[tuple[Family, frozenset[str]], ...] = (
    ("debian", frozenset({"debian", "ubuntu"})),
    ("suse", frozenset({"suse", "opensuse", "sles", "opensuse-leap", "opensuse-tumbleweed"})),
    ("fedora", frozenset({"fedora", "rhel", "centos", "rocky", "almalinux", "amzn", "ol"})),
    ("alpine", frozenset({"alpine"})),
    ("arch", frozenset({"arch", "archlinux"})),
)

_INSTALL: dict[Family, tuple[str, ...]] = {
    "debian": ("apt-get", "install"),
    "fedora": ("dnf", "install"),
    "suse": ("zypper", "install"),
    "alpine": ("apk", "add"),
    "arch": ("pacman", "-S"),
}

_COMPILERS: dict[Family, tuple[str, ...]] = {
    "debian": ("gcc", "g++"),
    "fedora": ("gcc", "gcc-c++"),
    "suse": ("gcc", "gcc-c++"),
    "alpine": ("gcc", "g++", "musl-dev"),
    "arch": ("gcc",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What ``os-release`` says."""

    name: str
    """Such as ``ubuntu``; empty when nothing says."""
    version: str
    family: Family


def read_distribution(os_release: Path = Path("/etc/os-release")) -> Distribution:
    """Return the distribution of this machine."""
    try:
        text = os_release.read_text(errors="replace")
    except OSError:
        text = ""
    return parse_distribution(text)


def parse_distribution(text: str) -> Distribution:
    r"""Return the distribution that an ``os-release`` file names.

    >>> parse_distribution('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"').family
    'debian'
    """
    fields = {}
    for line in text.splitlines():
        name, found, value = line.partition("=")
        if found:
            fields[name.strip()] = value.strip().strip("\"'")
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    known = [family for name in names for family, members in _FAMILIES if name in members]
    family: Family = known[0] if known else "unknown"
    return Distribution(name=names[0], version=fields.get("VERSION_ID", ""), family=family)


def package_of(file: SystemFile, family: Family) -> str:
    """Return what to install for a header or library: a package, a path, or nothing.

    The tools of RPM families take the path of a file in place of a package's name.
    """
    match family:
        case "debian":
            return file.debian
        case "fedora" | "suse":
            folder = "/usr/lib64" if file.file.startswith("lib") else "/usr/include"
            return file.rpm or f"{folder}/{file.file}"
        case "alpine" | "arch" | "unknown":
            return ""


def install_command(family: Family, packages: Iterable[str]) -> str:
    """Return the line that installs packages, or an empty text where none is known.

    >>> install_command("debian", ["libnuma-dev"]).removeprefix("sudo ")
    'apt-get install libnuma-dev'
    """
    words = _INSTALL.get(family)
    names = sorted(set(packages) - {""})
    if words is None or not names:
        return ""
    return ("" if os.geteuid() == 0 else "sudo ") + shlex.join([*words, *names])


def compiler_packages(
    distribution: Distribution, major: int | None, known: Iterable[int] = ()
) -> tuple[str, ...]:
    """Return the packages of a C and C++ compiler.

    :param major: Newest major version of GCC that will do; None for the default one.
    :param known: Major versions that the distribution has and that will do, where it can be asked.
    """
    if major is None:
        return _COMPILERS.get(distribution.family, ())
    match distribution.family:
        case "debian":
            best = max(known, default=major)
            return (f"gcc-{best}", f"g++-{best}")
        case "suse":
            return (f"gcc{major}", f"gcc{major}-c++")
        case "arch":
            return (f"gcc{major}",)
        case "fedora":
            # Source: RHEL "GCC Toolset"; Fedora itself has one GCC at a time.
            return () if distribution.name == "fedora" else (f"gcc-toolset-{major}",)
        case "alpine" | "unknown":
            return ()
