"""Packages of the distribution: taken once, then held by a lock, as what else a build is made from.

What enters: names of packages. What leaves: their files in the download cache, by digest, with
those of the libraries that they need. A lock says what was taken, so that keys do not change by
themselves; while what it names is there, nothing is asked and nothing is fetched.
"""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from buildkit.borrowed import SystemPackage
from buildkit.digest import Digest, digest_file, digest_value
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.fs import clone_file, write_atomic
from buildkit.toolchain.apt import Apt
from buildkit.toolchain.rpm import Dnf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from buildkit.kit import Supply
    from buildkit.toolchain.distribution import Distribution

__all__ = [
    "PackageTool",
    "lock_name",
    "package_file",
    "package_tool",
    "parse_lock",
    "render_lock",
    "take_packages",
]

_ROW = re.compile(r"([\w.+-]+) (\S+) (\w+) ([0-9a-f]{64}) ([^\s/.][^\s/]*)")


class PackageTool(Protocol):
    """What the kit needs of a distribution's package manager."""

    def take(self, names: Sequence[str], folder: Path) -> tuple[tuple[SystemPackage, Path], ...]:
        """Download packages, and the libraries that they need, and prove them."""

    def unpack(self, file: Path, folder: Path) -> None:
        """Unpack a package's files into a directory."""


def package_tool(distribution: Distribution, supply: Supply) -> PackageTool:
    """Return what fetches packages on this machine without root.

    :raises ToolchainError: if nothing does.
    """
    path = base_environment(supply.environment)["PATH"]

    def lacks(programs: Sequence[str]) -> list[str]:
        return [program for program in programs if shutil.which(program, path=path) is None]

    match distribution.family:
        case "debian":
            missing = lacks(Apt.programs)
            if not missing:
                return Apt(supply.runner, supply.environment, supply.paths.package_lists)
        case "fedora":
            missing = lacks(Dnf.programs)
            if not missing:
                return Dnf(supply.runner, supply.environment)
        case _:
            raise ToolchainError(
                "The kit cannot fetch packages of this system"
                f" ({distribution.name or 'unknown'}), only with apt and dnf."
            )
    raise ToolchainError(f"Fetching packages of this system needs {', '.join(missing)}.")


def take_packages(
    names: Sequence[str],
    distribution: Distribution,
    supply: Supply,
    is_unpacked: Callable[[tuple[SystemPackage, ...]], bool],
) -> tuple[SystemPackage, ...]:
    """Return packages and those that they need: the ones of the lock, else the newest.

    :param is_unpacked: Tells whether packages are unpacked already; their files may be gone then.
    :raises ToolchainError: if they cannot be had.
    """
    name = lock_name(names, distribution)
    lock = supply.paths.locks / f"{name}.lock"
    known: tuple[SystemPackage, ...] = ()
    with suppress(OSError, UnicodeDecodeError):
        known = parse_lock(lock.read_text(encoding="utf-8"))
    if not known and supply.mirror is not None:
        known = parse_lock(supply.mirror.lock(name) or "")
    if known and (is_unpacked(known) or all(package_file(one, supply) for one in known)):
        return known
    if supply.is_offline:
        raise ToolchainError(f"{', '.join(names)}: not fetched before, and this is --offline.")
    tool = package_tool(distribution, supply)
    supply.events.step("system", f"fetching {', '.join(names)}, without root")
    with tempfile.TemporaryDirectory(prefix="buildkit-package-") as folder:
        # apt's own user has to reach it when root runs the kit.
        Path(folder).chmod(0o755)
        taken = tool.take(names, Path(folder))
        for package, file in taken:
            place = supply.paths.download(package.sha256, package.filename)
            supply.holds.hold(place.parent)
            clone_file(file, place)
    packages = tuple(package for package, _ in taken)
    write_atomic(lock, render_lock(names, distribution, packages).encode())
    return packages


def package_file(package: SystemPackage, supply: Supply) -> Path | None:
    """Return the file of a package from the cache or the mirror, with its digest checked, or None.

    :raises SourceError: if the mirror's is another.
    """
    place = supply.paths.download(package.sha256, package.filename)
    supply.holds.hold(place.parent)
    with suppress(OSError):
        if digest_file(place) == package.sha256:
            return place
    if supply.mirror is None:
        return None
    return supply.mirror.file(package.sha256, package.filename)


def lock_name(names: Sequence[str], distribution: Distribution) -> str:
    """Return what the lock of packages is called on this distribution and machine."""
    question = [distribution.name, distribution.version, platform.machine(), sorted(names)]
    return f"system-{digest_value(question)[:24]}"


def render_lock(
    names: Sequence[str], distribution: Distribution, packages: Sequence[SystemPackage]
) -> str:
    """Return the text of a lock."""
    asked = f"# {' '.join(sorted(names))} of {distribution.name} {distribution.version}"
    rows = [
        f"{one.name} {one.version} {one.architecture} {one.sha256} {one.filename}"
        for one in packages
    ]
    head = f"{asked} {platform.machine()}; remove this file to take newer ones"
    return "\n".join([head, *rows, ""])


def parse_lock(text: str) -> tuple[SystemPackage, ...]:
    """Return the packages of a lock; none if a line of it makes no sense."""
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = _ROW.fullmatch(line)
        if match is None:
            return ()
        name, version, architecture, sha256, filename = match.groups()
        found.append(
            SystemPackage(
                name=name,
                version=version,
                architecture=architecture,
                sha256=Digest(sha256),
                filename=filename,
            )
        )
    return tuple(found)
