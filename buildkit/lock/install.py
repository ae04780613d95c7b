"""What changes an environment: uv makes it, installs into it by digest, takes out of it.

What enters: locked packages and local wheels. What leaves: a changed environment, or an error in
uv's own words. Nothing is installed but the files whose digests are named; files are copied, never
linked, so that what is edited in the environment stays out of uv's cache.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_file
from buildkit.errors import Location, LockError
from buildkit.lock.index import render_reason
from buildkit.toolchain.uv import index_arguments, uv_binary, uv_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buildkit.kit import Supply
    from buildkit.lock.inventory import Inventory
    from buildkit.lock.model import LockedPackage

__all__ = ["Installer", "create_environment", "is_torn", "remove_leftovers", "require_writable"]

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


def require_writable(inventory: Inventory) -> None:
    """Refuse to start on an environment that cannot be changed.

    :raises LockError: naming the directory and the reason.
    """
    for folder in inventory.site_packages:
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise LockError(
                f"The environment cannot be changed: {error.strerror or error}.",
                where=Location(file=str(folder)),
                remedy="Make it writable, or make another one with --create DIR.",
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
            self._call(
                ("install", "--no-deps", "--require-hashes", "--no-build", "--link-mode", "copy"),
                (*again, "--requirements", file),
                folders=(stage, *self._folders),
            )

    def remove(self, names: Sequence[str]) -> None:
        """Remove distributions.

        :raises LockError: if uv fails.
        """
        self._supply.events.step("remove", _listed(names))
        self._call(("uninstall",), tuple(names), folders=())

    def _call(
        self,
        verb: Sequence[str],
        arguments: Sequence[str | Path],
        *,
        folders: Sequence[Path],
    ) -> None:
        supply = self._supply
        settings = dataclasses.replace(
            supply.settings,
            find_links=(*(str(folder) for folder in folders), *supply.settings.find_links),
        )
        variables = uv_environment(supply, settings)
        switches = index_arguments(settings, is_offline=supply.is_offline) if folders else ()
        command = [
            *(uv_binary(), "pip", verb[0], "--quiet", "--python", self._target),
            *verb[1:],
            *switches,
            *arguments,
        ]
        # What was fetched before needs no network.
        if folders and not supply.is_offline:
            done = supply.runner.capture([*command, "--offline"], env=variables)
            if done.status == 0:
                return
        done = supply.runner.capture(command, env=variables)
        if done.status != 0:
            remedy = "See what the index answers; wheels that it lacks are taken from --find-links."
            if "os error 28" in done.stderr:
                remedy = "Free some space; the next sync goes on from here."
            elif supply.is_offline:
                remedy = "Run it once without --offline, or give the wheels with --find-links."
            raise LockError(
                f"The environment cannot be brought to the lock: {render_reason(done.stderr)}.",
                remedy=remedy,
            )


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
