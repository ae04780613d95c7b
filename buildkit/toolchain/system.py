"""Headers and libraries of the operating system that a recipe needs: found, or provided.

What enters: what the recipe names. What leaves: a :class:`~buildkit.values.SystemChoice`, and
before a build the sysroot of its packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.borrowed import SystemChoice
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.toolchain.distribution import install_command, package_of, read_distribution
from buildkit.toolchain.memo import remembered
from buildkit.toolchain.packages import package_file, package_tool, take_packages
from buildkit.toolchain.sysroot import make_sysroot, sysroot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildkit.borrowed import SystemPackage
    from buildkit.kit import Supply
    from buildkit.recipe.model import System, SystemFile
    from buildkit.toolchain.distribution import Distribution
    from buildkit.toolchain.sysroot import Sysroot
    from buildkit.values import ToolIdentity

__all__ = ["choose_system", "ensure_sysroot", "library_folders", "recipe_packages"]

#: The header of the interpreter, which a package brings for the distribution's interpreters alone.
_PYTHON = "Python.h"

_RELEASE = Path("/etc/os-release")


def choose_system(
    system: System,
    gcc: ToolIdentity,
    python_include: Path,
    supply: Supply,
    *,
    may_fetch: bool,
    os_release: Path = _RELEASE,
) -> SystemChoice:
    """Return where everything that a recipe names comes from.

    What the machine lacks is taken from the distribution's packages, whose digests a plan needs to
    know; what cannot be had stands in the choice.

    :param python_include: Where the interpreter that is built for keeps its headers.
    :param may_fetch: Whether packages of the distribution may be taken.
    """
    missing = _missing(system, gcc, python_include, supply)
    present = [file.file for file in (*system.headers, *system.libraries) if file not in missing]
    notes = [f"{', '.join(present)}: of this machine"] if present else []
    if not missing:
        return SystemChoice(notes=tuple(notes))
    distribution = read_distribution(os_release)
    files = tuple(file.file for file in missing)
    remedy = _remedy(missing, distribution, python_include)
    lacks = f"Missing on this machine: {', '.join(files)}."
    if not may_fetch:
        return SystemChoice(notes=tuple(notes), lacks=lacks, remedy=remedy)
    try:
        names = _names(system, missing, distribution, python_include)
        packages = take_packages(
            names,
            distribution,
            supply,
            lambda known: sysroot_of(known, supply.paths).root.is_dir(),
        )
    except ToolchainError as error:
        told = f"{lacks} {error.what}"
        return SystemChoice(notes=tuple(notes), lacks=told, remedy=remedy)
    listed = ", ".join(f"{package.name} {package.version}" for package in packages)
    notes.append(f"{', '.join(files)}: not on this machine; for the build alone from {listed}")
    return SystemChoice(packages=packages, files=files, notes=tuple(notes), remedy=remedy)


def ensure_sysroot(
    choice: SystemChoice, gcc: ToolIdentity, supply: Supply, *, os_release: Path = _RELEASE
) -> Sysroot | None:
    """Return the sysroot of a build, made if it does not exist, or None where none is needed.

    :raises ToolchainError: if something can be had in no way, with the command that installs it.
    """
    if choice.lacks:
        raise ToolchainError(choice.lacks, remedy=choice.remedy)
    if not choice.packages:
        return None
    sysroot = sysroot_of(choice.packages, supply.paths)
    supply.holds.hold(sysroot.root)
    if not sysroot.root.is_dir():
        listed = ", ".join(f"{one.name} {one.version}" for one in choice.packages)
        supply.events.step("system", f"unpacking {listed}")
        try:
            tool = package_tool(read_distribution(os_release), supply)
            files = [(package, _file(package, supply)) for package in choice.packages]
            make_sysroot(files, sysroot, tool.unpack, gcc, supply.runner)
        except ToolchainError as error:
            raise ToolchainError(error.what, remedy=choice.remedy) from error
    lacking = sysroot.lacks(choice.files)
    if lacking:
        listed = ", ".join(package.name for package in choice.packages)
        raise ToolchainError(
            f"The packages {listed} do not bring {', '.join(lacking)}.",
            remedy=f"Correct the package in the recipe's system table. {choice.remedy}",
        )
    return sysroot


def recipe_packages(system: System, distribution: Distribution) -> tuple[str, ...]:
    """Return the packages of a distribution that a recipe may need, but for those of Python."""
    files = (*system.headers, *system.libraries)
    names = {package_of(file, distribution.family) for file in files if file.file != _PYTHON}
    return tuple(sorted(names - {""}))


def library_folders(gcc: ToolIdentity, supply: Supply) -> list[Path]:
    """Return where the compiler's linker looks. Source: GCC manual, ``-print-search-dirs``."""

    def ask() -> dict[str, str]:
        done = supply.runner.capture(
            [gcc.path, "-print-search-dirs"],
            env=base_environment(supply.environment),
            timeout_seconds=60,
        )
        _, _, rest = done.stdout.partition("libraries: =")
        return {"folders": rest.partition("\n")[0]}

    answer = remembered(supply.paths.memo, "gcc-libraries", gcc.path, ask)["folders"]
    return [Path(folder) for folder in answer.split(":") if folder]


def _header_folders(gcc: ToolIdentity, supply: Supply) -> list[Path]:
    """Return where the compiler looks. Source: GCC manual, ``-v`` with ``-E``."""

    def ask() -> dict[str, str]:
        done = supply.runner.capture(
            [gcc.path, "-xc", "-E", "-v", "/dev/null"],
            env=base_environment(supply.environment),
            timeout_seconds=60,
        )
        _, _, rest = done.stderr.partition("#include <...> search starts here:")
        return {"folders": rest.partition("End of search list.")[0]}

    answer = remembered(supply.paths.memo, "gcc-headers", gcc.path, ask)["folders"]
    return [Path(line.strip()) for line in answer.splitlines() if line.strip()]


def _missing(
    system: System, gcc: ToolIdentity, python_include: Path, supply: Supply
) -> list[SystemFile]:
    missing: list[SystemFile] = []
    if system.headers:
        folders = [python_include, *_header_folders(gcc, supply)]
        missing += [file for file in system.headers if not _is_in(file.file, folders)]
    if system.libraries:
        folders = library_folders(gcc, supply)
        missing += [file for file in system.libraries if not _is_in(file.file, folders)]
    return missing


def _is_in(file: str, folders: Sequence[Path]) -> bool:
    return any((folder / file).is_file() for folder in folders)


def _names(
    system: System,
    missing: Sequence[SystemFile],
    distribution: Distribution,
    python_include: Path,
) -> list[str]:
    """Return the packages to take: all that the recipe may need, whichever of it is missing.

    :raises ToolchainError: if there is no telling for one of the files.
    """
    names: set[str] = set()
    for file in missing:
        if file.file == _PYTHON:
            names.add(_python_package(file, distribution, python_include))
        elif package_of(file, distribution.family):
            names.update(recipe_packages(system, distribution))
        else:
            raise ToolchainError(f"The recipe names no package of this system for {file.file}.")
    return sorted(names)


def _python_package(file: SystemFile, distribution: Distribution, include: Path) -> str:
    """Return the package of an interpreter's headers.

    :raises ToolchainError: if the interpreter is none of the distribution's.
    """
    if include.parent != Path("/usr/include"):
        raise ToolchainError(f"The interpreter has no headers in {include}.")
    if distribution.family == "debian":
        return f"lib{include.name}-dev"
    return package_of(file, distribution.family)


def _remedy(missing: Sequence[SystemFile], distribution: Distribution, python_include: Path) -> str:
    """Return the command that installs what is missing on this system, all of it at once."""
    if any(file.file == _PYTHON for file in missing) and (
        python_include.parent != Path("/usr/include")
    ):
        return "Name an interpreter that has its headers with --python."
    names = []
    for file in missing:
        name = package_of(file, distribution.family)
        if file.file == _PYTHON and distribution.family == "debian":
            name = f"{python_include.name}-dev"
        names.append(name)
    command = install_command(distribution.family, names)
    if not command or "" in names:
        known = ", ".join(f"{file.file} ({file.debian} on Debian)" for file in missing)
        return f"Install what brings {known} with the package manager of this system."
    return f"Install with `{command}`."


def _file(package: SystemPackage, supply: Supply) -> Path:
    file = package_file(package, supply)
    if file is None:
        raise ToolchainError(f"{package.filename} has gone from the cache since the plan.")
    return file
