"""What changes an environment: uv makes it, installs into it by digest, takes out of it.

What enters: locked packages and local wheels. What leaves: a changed environment, or an error in
uv's own words. Nothing is installed but the files whose digests are named; files are copied, never
linked, so that what is edited in the environment stays out of uv's cache.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_file, digest_value
from buildkit.errors import Location, LockError
from buildkit.fs import locked
from buildkit.lock.index import render_reason
from buildkit.toolchain.uv import call_pip, uv_binary, uv_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from buildkit.kit import Kit, Supply
    from buildkit.lock.model import LockedPackage
    from buildkit.run import Completed

__all__ = [
    "Installer",
    "create_environment",
    "held",
    "is_full",
    "is_torn",
    "remove_leftovers",
    "require_writable",
]

#: Names of files that a killed writer leaves: uv's, and those of :mod:`buildkit.fs` and the file
#: that they were to replace. Source: tempfile of Rust, tempfile of Python.
_TORN = re.compile(r"\.tmp[A-Za-z0-9]{6}|\.(?P<replaced>.+)\.[a-z0-9_]{8}")


def create_environment(root: Path, python: Path, supply: Supply) -> None:
    """Make an empty environment; one that is there already stays as it is.

    :raises LockError: if something else is there, or it cannot be made.
    """
    if (root / "pyvenv.cfg").is_file() and (root / "bin" / "python").exists():
        return
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise LockError(
            f"{root} exists and is no virtual environment.",
            where=Location(file="command line", key="--create"),
            remedy="Name another directory, or remove it.",
        )
    supply.events.step("create", str(root))
    done = supply.runner.capture(
        [uv_binary(), "venv", "--quiet", "--no-project", "--python", python, root],
        env=uv_environment(supply, supply.settings),
    )
    if done.status != 0:
        raise LockError(
            f"The environment {root} cannot be made: {render_reason(done.stderr)}.",
            remedy="See who may write there, or name another directory.",
        )


def require_writable(site_packages: Iterable[Path]) -> None:
    """Refuse to start on an environment that cannot be changed.

    :raises LockError: naming the directory and the reason.
    """
    for folder in site_packages:
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise LockError(
                f"The environment cannot be changed: {error.strerror or error}.",
                where=Location(file=str(folder)),
                remedy="Make it writable, or choose another one.",
            ) from error


class Installer:
    """Changes one environment."""

    def __init__(self, target: str, folders: Sequence[Path], supply: Supply) -> None:
        self._target = target
        self._folders = folders
        self._supply = supply

    def install(
        self,
        packages: Sequence[LockedPackage],
        local: Mapping[str, Path],
    ) -> None:
        """Install packages, whatever of them is there already.

        :param local: Wheels on this machine, by name of the package; each was compared.
        :raises LockError: if uv fails; it changes nothing before it has every file.
        """
        with tempfile.TemporaryDirectory(prefix="buildkit-sync-") as folder:
            stage = Path(folder)
            lines = []
            for package in packages:
                digest = package.wheel.hashes.sha256
                wheel = local.get(package.name)
                if wheel is not None:
                    (stage / package.wheel.name).symlink_to(wheel.absolute())
                    digest = digest_file(wheel)
                lines.append(f"{package.name}=={package.version} --hash=sha256:{digest}\n")
            file = stage / "requirements.txt"
            file.write_text("".join(lines))
            self._supply.events.step("install", _listed([item.name for item in packages]))
            again = [f"--reinstall-package={package.name}" for package in packages]
            switches = ("--no-deps", "--require-hashes", "--no-build", "--link-mode", "copy")
            self._refuse(
                call_pip(
                    "install",
                    ("--python", self._target, *switches, *again, "--requirements", file),
                    self._supply,
                    folders=(stage, *self._folders),
                    is_pinned=True,
                )
            )

    def remove(self, names: Sequence[str]) -> None:
        """Remove distributions.

        :raises LockError: if uv fails.
        """
        self._supply.events.step("remove", _listed(names))
        done = self._supply.runner.capture(
            [uv_binary(), "pip", "uninstall", "--quiet", "--python", self._target, *names],
            env=uv_environment(self._supply, self._supply.settings),
        )
        self._refuse(done)

    def _refuse(self, done: Completed) -> None:
        """Raise what uv says, if it failed.

        :raises LockError: with what to do next.
        """
        if done.status == 0:
            return
        remedy = "See what the index answers; wheels that it lacks are taken from --find-links."
        if is_full(done):
            remedy = "Free some space; the next sync goes on from here."
        elif self._supply.is_offline:
            remedy = "Run it once without --offline, or give the wheels with --find-links."
        raise LockError(
            f"The environment cannot be brought to the lock: {render_reason(done.stderr)}.",
            remedy=remedy,
        )


def is_full(done: Completed) -> bool:
    """Tell whether uv ended for want of space. Source: errno(3), ENOSPC as Rust prints it."""
    return "os error 28" in done.stderr


@contextmanager
def held(root: Path, kit: Kit) -> Iterator[None]:
    """Keep other processes of the kit from changing an environment meanwhile.

    :param root: Its directory; an interpreter in its ``bin`` names it too.
    """
    place = root.absolute()
    if place.parent.name == "bin" and not place.is_dir():
        place = place.parent.parent
    mark = digest_value(str(place))[:16]
    with locked(
        kit.paths.locks / f"sync-{mark}.lock",
        waiting=lambda: kit.events.step("wait", f"another buildkit is changing {place}"),
    ):
        yield


def is_torn(place: Path) -> bool:
    """Tell whether a file that belongs to nobody was left by a killed installation or patch."""
    found = _TORN.fullmatch(place.name)
    if found is None:
        return False
    return found["replaced"] is None or place.with_name(found["replaced"]).is_file()


def remove_leftovers(folder: Path) -> None:
    """Remove what uv could not take out of a distribution that had lost its RECORD.

    :param folder: Its ``.dist-info`` directory, installed anew.
    """
    try:
        record = csv.reader(io.StringIO((folder / "RECORD").read_text(encoding="utf-8")))
        names = {row[0] for row in record if row}
    except (OSError, UnicodeDecodeError, csv.Error):
        return
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        if f"{folder.name}/{file.relative_to(folder).as_posix()}" not in names:
            file.unlink()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
