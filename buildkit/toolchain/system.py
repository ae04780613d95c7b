"""Headers and libraries of the operating system that a recipe needs, named before the build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.environ import base_environment
from buildkit.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buildkit.recipe.model import System, SystemFile
    from buildkit.run import Runner
    from buildkit.values import ToolIdentity

__all__ = ["check_system"]


def check_system(
    system: System,
    gcc: ToolIdentity,
    python_include: Path,
    *,
    runner: Runner,
    environment: Mapping[str, str],
    os_release: Path = Path("/etc/os-release"),
) -> None:
    """Refuse a machine on which something is missing; all of it is named at once.

    :param python_include: Where the interpreter that is built for keeps its headers.
    :raises ToolchainError: with the command that installs what is missing.
    """
    missing: list[SystemFile] = []
    if system.headers:
        folders = [python_include, *_header_folders(gcc, runner, environment)]
        missing += [
            header
            for header in system.headers
            if not any((folder / header.file).is_file() for folder in folders)
        ]
    missing += [
        library
        for library in system.libraries
        if not _has_library(library.file, gcc, runner, environment)
    ]
    if missing:
        raise ToolchainError(
            f"Missing on this machine: {', '.join(file.file for file in missing)}.",
            remedy=_advice(missing, os_release),
        )


def _header_folders(
    gcc: ToolIdentity, runner: Runner, environment: Mapping[str, str]
) -> list[Path]:
    """Return where the compiler looks. Source: GCC manual, ``-v`` with ``-E``."""
    done = runner.capture(
        [gcc.path, "-xc", "-E", "-v", "/dev/null"],
        env=base_environment(environment),
        timeout_seconds=60,
    )
    _, _, rest = done.stderr.partition("#include <...> search starts here:")
    listed, _, _ = rest.partition("End of search list.")
    return [Path(line.strip()) for line in listed.splitlines() if line.strip()]


def _has_library(
    name: str, gcc: ToolIdentity, runner: Runner, environment: Mapping[str, str]
) -> bool:
    """Ask the compiler; it answers with the bare name when it finds nothing."""
    done = runner.capture(
        [gcc.path, f"-print-file-name={name}"],
        env=base_environment(environment),
        timeout_seconds=60,
    )
    return done.stdout.strip() not in ("", name)


def _advice(missing: Sequence[SystemFile], os_release: Path) -> str:
    try:
        text = os_release.read_text()
    except OSError:
        text = ""
    is_rpm = any(name in text for name in ("rhel", "fedora", "centos", "suse", "amzn"))
    packages = {file.rpm if is_rpm else file.debian for file in missing} - {""}
    if not packages:
        return "Install them with the package manager of this distribution."
    command = "dnf install" if is_rpm else "apt-get install"
    return f"Install with `{command} {' '.join(sorted(packages))}`."
