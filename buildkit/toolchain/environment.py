"""Isolated build environments: one per lock and interpreter, at a path that stays the same.

A compiler cache keys by the paths of headers, so a fresh random directory per build, as PEP 517
frontends make, would defeat it. Environments share their gigabytes: uv unpacks each wheel once and
links its files. An environment counts only once its stamp is written, which happens last.
"""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

from buildkit.digest import digest_value
from buildkit.environ import base_environment
from buildkit.errors import Location, RequestError, ToolchainError
from buildkit.fs import locked, remove_tree, write_atomic
from buildkit.sizes import render_number, render_size
from buildkit.toolchain.lock import download_bytes
from buildkit.toolchain.mirrored import lay_out, split
from buildkit.toolchain.uv import index_arguments, uv_binary, uv_environment
from buildkit.values import EnvLock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.mirrored import Mirror
    from buildkit.paths import Paths
    from buildkit.run import Runner
    from buildkit.values import PythonIdentity

__all__ = ["ensure_environment", "read_environment"]

_STAMP = ".buildkit-complete"

#: Bytes on disk per byte of wheel, unpacked; the wheel itself is not kept. Source: 5.6 GB of
#: site-packages from 2.5 GB of wheels (torch 2.14.1 for CUDA 13), rounded up.
UNPACKED_PER_BYTE = 2.5

#: Inodes to have free; torch with its CUDA libraries brings some 25 000 files.
INODES = 50_000


def ensure_environment(lock: EnvLock, python: PythonIdentity, supply: Supply) -> Path:
    """Return the environment of a lock, made if it does not exist.

    :raises ToolchainError: if it cannot be made; what is left of it is not used by anyone.
    """
    root = supply.paths.environments / f"{python.tag}-{lock.digest[:12]}"
    stamp = root / _STAMP
    supply.holds.hold(root)
    if stamp.is_file():
        return root
    with locked(
        root.with_name(f"{root.name}.lock"),
        waiting=lambda: supply.events.step("wait", f"another make is filling {root}"),
    ):
        if not stamp.is_file():
            _Maker(lock, python, root, supply).fill()
            write_atomic(stamp, lock.digest.encode())
    return root


class _Maker:
    """Makes one environment."""

    def __init__(self, lock: EnvLock, python: PythonIdentity, root: Path, supply: Supply) -> None:
        self._lock = lock
        self._python = python
        self._root = root
        self._supply = supply
        offline = supply.is_offline
        self._switches = [*index_arguments(supply.settings, is_offline=offline), "--quiet"]
        self._variables = uv_environment(supply, supply.settings)

    def fill(self) -> None:
        """Make the environment anew.

        :raises ToolchainError: if uv fails.
        """
        remove_tree(self._root)
        file = self._root.with_name(f"{self._root.name}.txt")
        write_atomic(file, self._lock.text.encode())
        self._call("venv", "--python", self._python.executable, self._root)
        arguments = ("--require-hashes", "--python", self._root / "bin" / "python", file)
        sync = ("pip", "sync", "--link-mode", "hardlink", *arguments)
        count = render_number(len(self._lock.versions), "package")
        # What was fetched before needs no network and next to no space.
        if not self._supply.is_offline and self._try(*sync, "--offline"):
            self._supply.events.step("install", f"{count}, all fetched before")
            return
        if self._supply.mirror is not None:
            self._take(self._supply.mirror, sync, count)
            return
        wanted = download_bytes(self._lock)
        _check_space(self._supply.paths, wanted)
        size = f", {render_size(wanted)} to fetch at most" if wanted else ""
        self._supply.events.step("install", f"{count}{size}")
        self._call(*sync)

    def _take(self, mirror: Mirror, sync: tuple[str | Path, ...], count: str) -> None:
        """Install from a mirror first, and from the index what it lacks.

        :raises ToolchainError: if it lacks something and there is nothing else to ask.
        """
        files, lacking = split(self._lock, self._python, mirror)
        if lacking and self._supply.is_offline:
            if self._try(*sync):
                return
            raise ToolchainError(
                f"The mirror {mirror.root} lacks wheels for {self._python.tag}"
                f" {self._python.platform}: {', '.join(lacking)}.",
                remedy="Fill it with `buildkit fetch`, where the network is.",
            )
        folder = self._root.with_name(f"{self._root.name}.wheels")
        settings = self._supply.settings
        if lacking:
            self._supply.events.step("mirror", f"it lacks {', '.join(lacking)}")
            places = (*settings.find_links, str(folder))
            settings = dataclasses.replace(settings, find_links=places)
        else:
            # Nobody else is asked, not even the user's own directories of wheels.
            settings = dataclasses.replace(
                settings,
                index_url=None,
                extra_index_urls=(),
                find_links=(str(folder),),
                no_index=True,
            )
        self._supply.events.step("install", f"{count} from the mirror")
        _check_space(self._supply.paths, download_bytes(self._lock))
        lay_out(files, folder)
        offline = self._supply.is_offline or not lacking
        supply = dataclasses.replace(self._supply, settings=settings, is_offline=offline)
        try:
            _Maker(self._lock, self._python, self._root, supply)._call(*sync)
        finally:
            remove_tree(folder)

    def _try(self, *arguments: str | Path) -> bool:
        done = self._supply.runner.capture(
            [uv_binary(), *arguments, *self._switches], env=self._variables
        )
        return done.status == 0

    def _call(self, *arguments: str | Path) -> None:
        done = self._supply.runner.capture(
            [uv_binary(), *arguments, *self._switches], env=self._variables
        )
        if done.status == 0:
            return
        remedy = "See what the index answers, or free some space, and try again."
        if self._supply.is_offline:
            remedy = "Run it once without --offline, so that what it needs is fetched."
        told = " ".join(done.stderr.split()) or f"uv ended with status {done.status}"
        raise ToolchainError(f"The build environment cannot be made: {told}", remedy=remedy)


def _check_space(paths: Paths, wanted_bytes: int) -> None:
    """Refuse what cannot fit before the first byte is fetched.

    :raises ToolchainError: naming what is needed and what is free.
    """
    paths.root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(paths.root).free
    needed = int(wanted_bytes * UNPACKED_PER_BYTE)
    if needed > free:
        raise ToolchainError(
            f"The build environment needs about {render_size(needed)}, found {render_size(free)}"
            f" free at {paths.root}.",
            remedy="Free some space, or point BUILDKIT_CACHE to a larger disk.",
        )
    import os

    stat = os.statvfs(paths.root)
    # A file system without a fixed number of inodes says 0 of 0.
    if stat.f_files and stat.f_favail < INODES:
        raise ToolchainError(
            f"The build environment needs about {INODES} inodes, found {stat.f_favail} free at"
            f" {paths.root}.",
            remedy="Remove small files, or point BUILDKIT_CACHE to another disk.",
        )


#: The digest is of the hashes of the files that a distribution brought: a rebuilt wheel often has
#: the version of the one before. What installers write by themselves does not count.
_INSTALLED = """\
import hashlib, importlib.metadata as m, json
def contents(d):
    rows = (d.read_text("RECORD") or "").splitlines()
    kept = sorted(
        row for row in rows
        if ",sha256=" in row and ".pyc," not in row and ".dist-info/" not in row
        and not row.startswith("..")
    )
    return hashlib.sha256("\\n".join(kept).encode()).hexdigest()
print(json.dumps(sorted((d.metadata["Name"], d.version, contents(d)) for d in m.distributions())))
"""


def read_environment(
    python: Path, *, runner: Runner, environment: Mapping[str, str]
) -> tuple[Path, EnvLock]:
    """Return root and lock of an environment that exists; its versions are what is installed.

    :param python: Its interpreter, or its root directory.
    :raises RequestError: if there is no such interpreter.
    """
    import json

    from packaging.utils import canonicalize_name

    if python.is_dir():
        python = python / "bin" / "python"
    if not python.is_file():
        raise RequestError(
            f"Found no interpreter {python}.",
            where=Location(file="command line", key="--env"),
            remedy="Give the python of the environment, such as .venv/bin/python.",
        )
    done = runner.capture(
        [python, "-I", "-c", _INSTALLED], env=base_environment(environment), timeout_seconds=120
    )
    if done.status != 0:
        raise RequestError(
            f"{python} ended with status {done.status} when asked what is installed.",
            where=Location(file="command line", key="--env"),
            remedy="Run it by hand to see why.",
        )
    rows = [(str(canonicalize_name(row[0])), *row[1:]) for row in json.loads(done.stdout)]
    versions = {name: version for name, version, _ in rows}
    text = "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))
    lock = EnvLock(text=text, digest=digest_value(sorted(rows)), versions=versions)
    return python.parent.parent, lock
