"""Packages of Fedora, RHEL and their like, taken with dnf and unpacked by rpm's own tools.

What enters: names of packages. What leaves: package files with version and SHA-256. What guarantees
them: the signature in each package, which must be there and be by a key of this system; the lists
themselves are not always signed. ``rpm2archive`` comes with rpm; minimal images lack cpio.
Installs nothing, runs no script of a package.
"""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

from buildkit.borrowed import SystemPackage
from buildkit.digest import digest_file
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from buildkit.run import Runner

__all__ = ["Dnf"]

#: Never taken: what every such system has with its compiler.
_BASE = re.compile(
    r"glibc.*|kernel-headers|lib(gcc|stdc\+\+).*|gcc.*|pkgconf.*|bash|coreutils.*|filesystem"
    r"|python3(\.\d+)?(-libs)?|rpm.*|systemd.*|setup"
)

_FORMAT = "%{name} %{evr} %{arch}\\n"


class Dnf:
    """Asks and fetches with dnf."""

    #: What has to be on PATH.
    programs = ("dnf", "rpmkeys", "rpm2archive", "tar")

    def __init__(self, runner: Runner, environment: Mapping[str, str]) -> None:
        self._runner = runner
        self._variables = base_environment(environment, network=True)

    def take(self, names: Sequence[str], folder: Path) -> tuple[tuple[SystemPackage, Path], ...]:
        """Download packages and those that they directly need into an empty directory.

        :raises ToolchainError: if one cannot be had, or no key of this system signed it.
        """
        wanted = self._resolve(names)
        done = self._runner.capture(
            ["dnf", "download", "--quiet", "--destdir", folder, *sorted(wanted)],
            env=self._variables,
            cwd=folder,
            timeout_seconds=600,
        )
        if done.status != 0:
            raise ToolchainError(
                f"dnf cannot download {', '.join(sorted(wanted))}: {_reason(done.stderr)}."
            )
        return tuple(self._checked(full, wanted[full], folder) for full in sorted(wanted))

    def unpack(self, file: Path, folder: Path) -> None:
        """Unpack a package's files into a directory.

        ``tar`` refuses members that name a parent directory, and follows no link out of the tree.

        :raises ToolchainError: if it is damaged.
        """
        # rpm2archive writes beside the package, which need not be a place of ours.
        package = folder.parent / file.name
        package.symlink_to(file)
        archive = package.with_name(f"{package.name}.tgz")
        commands: tuple[list[str | Path], ...] = (
            ["rpm2archive", package],
            ["tar", "--no-same-owner", "-xzf", archive, "-C", folder],
        )
        for command in commands:
            done = self._runner.capture(command, env=self._variables)
            if done.status != 0:
                raise ToolchainError(f"{file.name} cannot be unpacked: {_reason(done.stderr)}.")

    def _resolve(self, names: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return name, version and architecture of packages, by all of these in one word."""
        found = {row[0]: row for row in self._query(names)}
        # A path stands for the package that holds it; dnf says which.
        lacking = [name for name in names if not name.startswith("/") and name not in found]
        if lacking or not found:
            raise ToolchainError(f"dnf knows no {', '.join(lacking or names)}.")
        for row in self._query(["--requires", "--resolve", *found]):
            if not _BASE.fullmatch(row[0]):
                found.setdefault(row[0], row)
        return {f"{name}-{evr}.{arch}": (name, evr, arch) for name, evr, arch in found.values()}

    def _query(self, arguments: Sequence[str]) -> list[tuple[str, str, str]]:
        done = self._runner.capture(
            [
                *("dnf", "repoquery", "--quiet", "--latest-limit", "1"),
                *("--arch", f"{platform.machine()},noarch", "--qf", _FORMAT, *arguments),
            ],
            env=self._variables,
            timeout_seconds=600,
        )
        if done.status != 0:
            raise ToolchainError(f"dnf cannot be asked: {_reason(done.stderr)}.")
        rows = [line.split() for line in done.stdout.splitlines()]
        return [(row[0], row[1], row[2]) for row in rows if len(row) == 3]

    def _checked(
        self, full: str, row: tuple[str, str, str], folder: Path
    ) -> tuple[SystemPackage, Path]:
        """Return a package with its file, if a key of this system signed it."""
        name, evr, arch = row
        file = folder / f"{name}-{evr.rpartition(':')[2]}.{arch}.rpm"
        if not file.is_file():
            raise ToolchainError(f"dnf left no file for {full}.")
        # Source: rpmkeys(8). A package without a signature says "digests OK" and no more.
        signed = self._runner.capture(["rpmkeys", "--checksig", file], env=self._variables)
        if signed.status != 0 or "signatures OK" not in signed.stdout:
            told = " ".join(signed.stdout.partition(":")[2].split()) or "no answer"
            raise ToolchainError(f"{file.name} is not signed by a key of this system: {told}.")
        package = SystemPackage(
            name=name,
            version=evr,
            architecture=arch,
            sha256=digest_file(file),
            filename=file.name,
        )
        return package, file


def _reason(text: str) -> str:
    return " ".join(text[-300:].split()).rstrip(".") or "it said nothing"
