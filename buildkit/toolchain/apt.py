"""Packages of Debian and Ubuntu, taken with apt and unpacked by dpkg-deb, as any user.

What enters: names of packages. What leaves: package files with version and SHA-256. What guarantees
them: ``apt-get update`` checks the signature of each archive's lists with the keys of this system,
the lists state the SHA-256 of every package, and the file is compared with it by apt and here. The
lists are the kit's own, since the system's need root and are missing in slim containers; sources,
keys and proxies are those of the system. Installs nothing; no script of a package runs.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from buildkit.borrowed import SystemPackage
from buildkit.digest import Digest, digest_file
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.fs import locked
from buildkit.sizes import render_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from buildkit.run import Completed, Runner

__all__ = ["Apt", "known_compilers", "parse_records"]

#: Never taken: the C library and what belongs to the compiler, which the machine has with its GCC,
#: and Python's own library, which extension modules do not link.
_BASE = re.compile(
    r"libc6.*|libc-dev.*|linux-libc-dev|libgcc.*|lib(std)?c\+\+.*|libcrypt.*|libpython.*|libjs-.*"
    r"|gcc-.*|debconf.*"
)

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")

#: Rounds of dependencies to follow; rdma-core, the deepest of this field, has three.
_ROUNDS = 6


class Apt:
    """Asks and fetches with apt.

    :param lists: Directory of the kit's own lists.
    """

    #: What has to be on PATH.
    programs = ("apt-get", "apt-cache", "dpkg-deb")

    def __init__(self, runner: Runner, environment: Mapping[str, str], lists: Path) -> None:
        self._runner = runner
        self._variables = base_environment(environment, network=True)
        self._lists = lists

    def take(self, names: Sequence[str], folder: Path) -> tuple[tuple[SystemPackage, Path], ...]:
        """Download packages and the libraries that they need into an empty directory.

        :raises ToolchainError: if one cannot be had, or differs from the signed lists.
        """
        with locked(self._lists.with_name(f"{self._lists.name}.lock")):
            told = self._update()
            packages = self._resolve(names, told)
            wanted = [f"{package.name}={package.version}" for package in packages]
            done = self._apt("apt-get", "-q", "download", *wanted, cwd=folder)
        if done.status != 0:
            raise ToolchainError(
                f"apt-get cannot download {', '.join(wanted)}: {_reason(done.stderr)}."
            )
        return tuple((package, _checked(package, folder)) for package in packages)

    def unpack(self, file: Path, folder: Path) -> None:
        """Unpack a package's files into a directory.

        ``tar`` does it for dpkg-deb: it refuses members that name a parent directory, and follows
        no link out of the tree.

        :raises ToolchainError: if it is damaged.
        """
        done = self._runner.capture(["dpkg-deb", "-x", file, folder], env=self._variables)
        if done.status != 0:
            raise ToolchainError(f"dpkg-deb cannot unpack {file.name}: {_reason(done.stderr)}.")

    def _update(self) -> str:
        """Bring the lists up to date and return what was wrong.

        One archive of several that does not answer is no failure of the others.
        """
        (self._lists / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (self._lists / "cache").mkdir(exist_ok=True)
        os.utime(self._lists)  # a use, for whoever collects
        done = self._apt("apt-get", "-q", "update")
        return _reason(done.stderr) if done.status != 0 else ""

    def _resolve(self, names: Sequence[str], told: str) -> tuple[SystemPackage, ...]:
        """Return packages with the libraries that they depend on, by name."""
        found: dict[str, SystemPackage] = {}
        wanted = set(names)
        for _ in range(_ROUNDS):
            done = self._apt("apt-cache", "show", "--no-all-versions", *sorted(wanted))
            new = set()
            for fields in parse_records(done.stdout):
                package = _package(fields)
                if package is None or package.name in found:
                    continue
                found[package.name] = package
                # Headers of Python need nothing but themselves.
                if not package.name.startswith("libpython"):
                    new |= _dependencies(fields.get("Depends", ""))
            wanted = new - set(found)
            if not wanted:
                break
        lacking = sorted(set(names) - set(found))
        if lacking:
            told = told or "correct the name in the recipe, or add an archive to apt's sources"
            raise ToolchainError(f"apt's lists hold no {', '.join(lacking)}: {told}.")
        return tuple(found[name] for name in sorted(found))

    def _apt(self, program: str, *arguments: str, cwd: Path | None = None) -> Completed:
        """Run apt with the kit's own lists, and never without signatures. Source: apt.conf(5)."""
        settings = {
            "Dir::State::Lists": str(self._lists / "lists"),
            "Dir::Cache": str(self._lists / "cache"),
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::Languages": "none",
            "APT::Get::AllowUnauthenticated": "false",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return self._runner.capture(
            [program, *options, *arguments], env=self._variables, cwd=cwd, timeout_seconds=600
        )


def known_compilers(runner: Runner, environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return the major versions of GCC that the system's own lists hold."""
    done = runner.capture(["apt-cache", "pkgnames", "g++-"], env=base_environment(environment))
    return tuple(sorted({int(number) for number in re.findall(r"(?m)^g\+\+-(\d+)$", done.stdout)}))


def parse_records(text: str) -> list[dict[str, str]]:
    r"""Return the stanzas of a Debian control file, without continuation lines.

    >>> parse_records("Package: a\nVersion: 1\n\nPackage: b\n")
    [{'Package': 'a', 'Version': '1'}, {'Package': 'b'}]
    """
    records = []
    for stanza in re.split(r"\n\s*\n", text.strip()):
        fields = {}
        for line in stanza.splitlines():
            name, found, value = line.partition(": ")
            if found and not line.startswith(" "):
                fields[name] = value.strip()
        if fields:
            records.append(fields)
    return records


def _checked(package: SystemPackage, folder: Path) -> Path:
    """Return the file of a package, which apt names after it."""
    files = sorted(folder.glob(f"{package.name}_*.deb"))
    if len(files) != 1:
        raise ToolchainError(
            f"apt-get left {render_number(len(files), 'file')} for {package.name}, not one."
        )
    found = digest_file(files[0])
    if found != package.sha256:
        raise ToolchainError(
            f"{files[0].name} differs from apt's signed lists: found sha256 {found}, allowed"
            f" {package.sha256}."
        )
    return files[0]


def _package(fields: Mapping[str, str]) -> SystemPackage | None:
    """Return a package that can be fetched; one that is only installed has no digest."""
    values = [fields.get(key, "") for key in ("Package", "Version", "Architecture", "SHA256")]
    if not all(values):
        return None
    name, version, architecture, sha256 = values
    return SystemPackage(
        name=name,
        version=version,
        architecture=architecture,
        sha256=Digest(sha256),
        filename=fields.get("Filename", "").rpartition("/")[2],
    )


def _dependencies(text: str) -> set[str]:
    """Return the libraries and headers that a Depends field names, the first of alternatives."""
    found = set()
    for clause in text.split(","):
        match = _NAME.match(clause.strip())
        name = match[0] if match else ""
        is_library = name.startswith("lib") or name.endswith("-dev")
        if is_library and not _BASE.fullmatch(name):
            found.add(name)
    return found


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith(("E:", "dpkg-deb:", "tar:"))]
    return " ".join(" ".join(lines or [text[-300:]]).split()).rstrip(".") or "it said nothing"
