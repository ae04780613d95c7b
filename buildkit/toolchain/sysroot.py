"""A sysroot: packages of the distribution, unpacked for builds at a path that stays the same.

What enters: packages with versions and digests. What leaves: a directory with their headers and
libraries, complete or not there. Where the static form of a library can become part of a shared
library, it alone is offered, so that the wheel needs nothing at run time; the static libraries of
distributions are often not made for that, so the linker is asked. Nothing is installed.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_value
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.fs import locked, staged_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from buildkit.borrowed import SystemPackage
    from buildkit.paths import Paths
    from buildkit.run import Runner
    from buildkit.values import ToolIdentity

__all__ = ["Sysroot", "make_sysroot", "sysroot_of"]

#: Raised when the layout of a sysroot changes.
_LAYOUT = 2

#: Names which package brought a shared library.
_OWNERS = "libraries.json"

#: Where packages keep headers and libraries. Where /lib is a link to /usr/lib they may still ship
#: files below either.
_PARTS = ("usr/include", "usr/lib", "usr/lib64", "lib", "lib64")

#: The places of a system in a pkg-config file. Source: pc(5).
_PLACE = re.compile(r"(?m)(?<=[=LI\s])/(?=(usr|lib|lib64|include)(/|$))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sysroot:
    """Where the files of unpacked packages lie."""

    root: Path

    @property
    def prefix(self) -> Path:
        """What CMake calls a prefix."""
        return self.root / "usr"

    @property
    def includes(self) -> tuple[Path, ...]:
        """Where compilers find headers."""
        top = self.prefix / "include"
        return (top, *sorted(top.glob("*-linux-*")), *self.python_includes)

    @property
    def python_includes(self) -> tuple[Path, ...]:
        """Directories of a Python's own headers."""
        return tuple(sorted(file.parent for file in self.prefix.glob("include/*/Python.h")))

    @property
    def libraries(self) -> tuple[Path, ...]:
        """Where the linker finds libraries: Debian's multiarch directory comes first."""
        folders = [*self.prefix.glob("lib/*-linux-*"), self.prefix / "lib64", self.prefix / "lib"]
        return tuple(folder for folder in folders if folder.is_dir())

    def owners(self) -> dict[str, str]:
        """Return the package of each shared library, by the name that the loader looks for."""
        try:
            found = json.loads((self.root / _OWNERS).read_bytes())
        except (OSError, ValueError):
            return {}
        return {str(name): str(package) for name, package in found.items()}

    def lacks(self, files: Sequence[str]) -> list[str]:
        """Return the headers and libraries that are not in it, in either form."""
        folders = (*self.includes, *self.libraries)

        def is_there(name: str) -> bool:
            names = {name, f"{name.removesuffix('.so')}.a"}
            return any((folder / one).exists() for folder in folders for one in names)

        return [file for file in files if not is_there(file)]


def sysroot_of(packages: Sequence[SystemPackage], paths: Paths) -> Sysroot:
    """Return where packages are unpacked, or will be."""
    rows = [[one.name, one.version, one.architecture, one.sha256] for one in packages]
    return Sysroot(root=paths.system / digest_value([_LAYOUT, rows])[:16])


def make_sysroot(
    files: Sequence[tuple[SystemPackage, Path]],
    sysroot: Sysroot,
    unpack: Callable[[Path, Path], None],
    gcc: ToolIdentity,
    runner: Runner,
) -> None:
    """Unpack package files into a sysroot, unless it is there.

    :param unpack: Puts what a package file holds into a directory.
    :raises ToolchainError: if one cannot be unpacked; nothing is left then.
    """
    root = sysroot.root
    with locked(root.with_name(f"{root.name}.lock")):
        if root.is_dir():
            return
        with staged_directory(root) as stage:
            for name in ("lib", "lib64"):  # as on the systems of today
                (stage / name).symlink_to(Path("usr") / name)
            owners: dict[str, str] = {}
            for package, file in files:
                with tempfile.TemporaryDirectory(prefix="buildkit-package-") as folder:
                    unpacked = Path(folder).resolve() / "unpacked"
                    unpacked.mkdir()
                    unpack(file, unpacked)
                    _lay(unpacked, stage, package)
                    for library in unpacked.rglob("*.so.*"):
                        owners[library.name] = package.name
            (stage / _OWNERS).write_text(json.dumps(owners, indent=1, sort_keys=True))
            _drop_dangling(stage)
            _place_pkgconfig(stage, root)
            for place in Sysroot(root=stage).libraries:
                for archive in sorted(place.glob("lib*.a")):
                    _prefer_static(archive, gcc, runner)


def _lay(unpacked: Path, stage: Path, package: SystemPackage) -> None:
    """Lay the headers and libraries of one package into the stage.

    :raises ToolchainError: if a link in it leads out of the tree.
    """
    for part in _PARTS:
        source = unpacked / part
        if not source.is_dir() or source.is_symlink():
            continue
        place = stage / part if part.startswith("usr/") else stage / "usr" / part
        for path in sorted(source.rglob("*")):
            if path.is_symlink():
                _turn_inside(path, unpacked, package)
        shutil.copytree(
            source, place, symlinks=True, dirs_exist_ok=True, copy_function=_copy_plainly
        )


def _copy_plainly(source: str, destination: str) -> None:
    """Copy a file with no more of its mode than whether it runs: nothing in the cache is setuid."""
    shutil.copyfile(source, destination)
    runs = Path(source).stat().st_mode & 0o111
    Path(destination).chmod(0o755 if runs else 0o644)


def _turn_inside(link: Path, unpacked: Path, package: SystemPackage) -> None:
    """Make an absolute link relative to the tree of its package; refuse one that leads out."""
    target = link.readlink()
    inside = unpacked / target.relative_to("/") if target.is_absolute() else link.parent / target
    # The tree alone decides: what the disk holds behind other links does not count.
    parts: list[str] = []
    for part in inside.relative_to(unpacked).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise ToolchainError(
                f"Package {package.name} {package.version} holds a link that leads out of it:"
                f" {link.relative_to(unpacked)} -> {target}."
            )
    if target.is_absolute():
        up = [".."] * len(link.parent.relative_to(unpacked).parts)
        link.unlink()
        link.symlink_to(Path(*up, *parts))


def _drop_dangling(stage: Path) -> None:
    """Remove links to what no package brought, lest a linker stumbles over them."""
    top = stage.resolve()
    for path in sorted(stage.rglob("*")):
        is_inside = not path.is_symlink() or path.resolve().is_relative_to(top)
        if not is_inside or not path.exists():
            path.unlink()


def _place_pkgconfig(stage: Path, root: Path) -> None:
    """Let pkg-config files name the sysroot.

    ``PKG_CONFIG_SYSROOT_DIR`` would do so too, but for the packages of the machine as well.
    """
    # Flags are split as by a shell. Source: pc(5).
    top = str(root).replace(" ", "\\ ")
    for file in stage.glob("usr/**/pkgconfig/*.pc"):
        if file.is_symlink():
            continue
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        placed = _PLACE.sub(lambda _: f"{top}/", text)
        file.write_text(placed, encoding="utf-8", errors="surrogateescape")


def _prefer_static(archive: Path, gcc: ToolIdentity, runner: Runner) -> None:
    """Keep one form of a library: the static one if all of it can become part of a shared library.

    Source: ld manual, ``-z text`` (code without relocations) and ``-z defs`` (nothing is left
    undefined). A static library of its own, without a shared form, is kept whatever it is.
    """
    shared = archive.with_suffix(".so")
    if not shared.is_symlink() and not shared.exists():
        return
    with tempfile.TemporaryDirectory(prefix="buildkit-link-") as folder:
        done = runner.capture(
            [
                *(gcc.path, "-shared", "-Wl,-z,text,-z,defs"),
                *("-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"),
                *("-Wl,--as-needed", "-lm", "-lpthread", "-ldl"),
                *("-o", Path(folder) / "trial.so"),
            ],
            env=base_environment({}) | {"PATH": str(gcc.path.parent)},
            timeout_seconds=300,
        )
    (shared if done.status == 0 else archive).unlink()
