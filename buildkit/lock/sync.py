"""The story of ``sync``: an environment is brought to a lock, or it is said what differs.

Read, compare, find every wheel and patch, and only then change: install, patch, prune, compare
again. A sync that was killed is completed by the next one, since each begins by comparing.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.cache import require_cache
from buildkit.errors import Location, LockError, ToolchainError
from buildkit.fs import remove_tree
from buildkit.lock.again import make_again, require_same_key
from buildkit.lock.compare import Comparison, Difference, compare, misfits
from buildkit.lock.file import read_lock
from buildkit.lock.install import (
    Installer,
    create_environment,
    held,
    is_torn,
    remove_leftovers,
    require_writable,
)
from buildkit.lock.inventory import identity_of, read_inventory
from buildkit.lock.repatch import find_patches, repatch
from buildkit.lock.shelf import Shelf, local_folders
from buildkit.paths import data_root
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.python import probe_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from buildkit.kit import Kit, Supply
    from buildkit.lock.inventory import Distribution, Inventory
    from buildkit.lock.model import Interpreter, Lock, LockedPackage
    from buildkit.request import Request
    from buildkit.values import PythonIdentity

__all__ = ["SyncRequest", "Synced", "check_environment", "sync_environment"]

#: Kinds of difference that a fresh installation of the wheel heals.
_REINSTALLED = {"missing", "version", "twice", "files", "key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """What a user wants of ``sync``."""

    file: Path
    python: str | None = None
    """An environment that exists, or its interpreter."""
    create: Path | None = None
    """An environment to make, unless an earlier sync made it."""
    find_links: tuple[Path, ...] = ()
    patches: Path | None = None
    """None is the kit's own."""
    is_offline: bool = False
    is_exact: bool = False
    """Only the locked bytes count, also of wheels that could be made again."""
    is_pruned: bool = False


@dataclass(slots=True, kw_only=True)
class Synced:
    """What ``sync`` did, and what still differs."""

    environment: str
    comparison: Comparison
    installed: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def check_environment(request: SyncRequest, kit: Kit) -> Synced:
    """Tell what differs; changes nothing.

    :raises LockFileError: if the lock is not as it was written.
    """
    lock = read_lock(request.file)
    target = request.python or str(request.create)
    kit.events.step("read", target)
    comparison = compare(lock, read_inventory(target, kit), is_exact=request.is_exact)
    return Synced(environment=target, comparison=comparison)


def sync_environment(request: SyncRequest, kit: Kit) -> Synced:
    """Bring an environment to a lock.

    :returns: With what still differs: what was not pruned, and strays.
    :raises LockFileError: if the lock is not as it was written.
    :raises LockError: if that cannot be done; before the environment is changed, if this can be
        known.
    """
    lock = read_lock(request.file)
    settings = read_index_settings(kit.environment)
    named = (*request.find_links, request.file.absolute().parent)
    folders = local_folders(named, settings.find_links)
    supply = kit.supply(settings, is_offline=request.is_offline)
    require_cache(kit.paths)
    target = request.python or str(request.create)
    if request.create is not None:
        create_environment(request.create, _interpreter(lock, kit).executable, supply)
    with held(Path(target), kit):
        return _Sync(lock, request, target, folders, supply, kit).run()


def _interpreter(lock: Lock, kit: Kit) -> PythonIdentity:
    """Return an interpreter of this machine that the lock is for, of its patch level if possible.

    :raises LockError: if the lock is for another platform.
    :raises ToolchainError: if there is none of that version.
    """

    def probe(spec: str | None) -> PythonIdentity:
        return probe_python(
            spec, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo
        )

    wanted = lock.python
    python = probe(None)
    if python.platform == wanted.platform and python.version != wanted.version:
        try:
            python = probe(wanted.version)
        except ToolchainError:
            if python.tag != wanted.tag:
                python = probe(".".join(wanted.version.split(".")[:2]))
    _refuse_misfits(lock, identity_of(python))
    return python


def _refuse_misfits(lock: Lock, python: Interpreter) -> None:
    found = misfits(lock, python)
    if found:
        raise LockError(
            f"The lock is for another machine: {'; '.join(item.detail for item in found)}.",
            remedy="Lock an environment of this kind; nothing was changed.",
        )


class _Sync:
    """One sync of one environment."""

    def __init__(
        self,
        lock: Lock,
        request: SyncRequest,
        target: str,
        folders: Sequence[Path],
        supply: Supply,
        kit: Kit,
    ) -> None:
        self._lock = lock
        self._request = request
        self._target = target
        self._supply = supply
        self._kit = kit
        self._shelf = Shelf(folders, kit.paths, kit.holds)
        self._installer = Installer(target, folders, supply)
        self._packages = {package.name: package for package in lock.packages}
        self._inventory: Inventory
        self._synced: Synced

    def run(self) -> Synced:
        """Compare, change, compare."""
        comparison = self._compare()
        self._synced = Synced(environment=self._target, comparison=comparison)
        _refuse_misfits(self._lock, self._inventory.python)
        if not self._is_due(comparison):
            return self._synced
        require_writable(self._inventory.site_packages)
        self._change(comparison)
        again = self._compare()
        # An extra distribution may have taken files of a locked one along when it went.
        if self._synced.removed and any(self._reinstalled(again)):
            self._change(again)
            again = self._compare()
        self._synced.comparison = again
        return self._synced

    def _is_due(self, comparison: Comparison) -> bool:
        kinds = {item.kind for item in comparison.differences}
        is_prunable = self._request.is_pruned and "extra" in kinds
        return bool(kinds & (_REINSTALLED | {"patches"}) or is_prunable or self._torn())

    def _torn(self) -> list[Path]:
        """Return what a killed sync or patch left half written."""
        roots, names = self._inventory.site_packages, self._inventory.strays
        places = {(root / name).resolve() for root in roots for name in names}
        return [place for place in places if place.is_file() and is_torn(place)]

    def _compare(self) -> Comparison:
        self._kit.events.step("read", self._target)
        self._inventory = read_inventory(self._target, self._kit)
        return compare(self._lock, self._inventory, is_exact=self._request.is_exact)

    def _reinstalled(self, comparison: Comparison) -> Iterator[LockedPackage]:
        names = {item.name for item in comparison.differences if item.kind in _REINSTALLED}
        return (package for name, package in self._packages.items() if name in names)

    def _change(self, comparison: Comparison) -> None:
        packages = list(self._reinstalled(comparison))
        repatched = self._repatched(comparison, packages)
        local = self._local_wheels(packages)
        if packages:
            self._installer.install(packages, local)
            self._synced.installed += [package.name for package in packages]
        if packages or repatched:
            self._inventory = read_inventory(self._target, self._kit)
            self._tidy(packages, self._inventory.distributions)
            self._patch(repatched, self._inventory.distributions)
        for file in self._torn():
            file.unlink()
        extras = self._extras(comparison.differences) if self._request.is_pruned else []
        if extras:
            self._installer.remove(extras)
            self._synced.removed += extras

    def _extras(self, differences: Sequence[Difference]) -> list[str]:
        return sorted({item.name for item in differences if item.kind == "extra"})

    def _repatched(
        self, comparison: Comparison, packages: Sequence[LockedPackage]
    ) -> dict[str, Path | None]:
        """Return the packages whose patches change, each with where the locked patches lie."""
        names = {item.name for item in comparison.differences if item.kind == "patches"}
        names |= {package.name for package in packages if package.notes.patched is not None}
        # A fresh installation has no patches to take back.
        names -= {package.name for package in packages if package.notes.patched is None}
        root = self._request.patches or data_root() / "patches"
        found: dict[str, Path | None] = {}
        for name in sorted(names):
            patched = self._packages[name].notes.patched
            if patched is None:
                found[name] = None
            else:
                found[name] = find_patches(self._packages[name], patched, root)
        return found

    def _tidy(
        self, packages: Sequence[LockedPackage], distributions: Sequence[Distribution]
    ) -> None:
        """Remove what interrupted installations left of the packages that are whole now."""
        versions = {package.name: package.version for package in packages}
        for found in distributions:
            if found.name not in versions or found.dist_info.suffix != ".dist-info":
                continue
            if found.version == versions[found.name]:
                remove_leftovers(found.dist_info)
            else:
                remove_tree(found.dist_info)

    def _patch(
        self, folders: dict[str, Path | None], distributions: Sequence[Distribution]
    ) -> None:
        for found in distributions:
            package = self._packages.get(found.name)
            if package is None or found.name not in folders or found.version != package.version:
                continue
            repatch(package, found, folders[found.name], self._kit.events)
            self._synced.patched.append(found.name)

    def _local_wheels(self, packages: Sequence[LockedPackage]) -> dict[str, Path]:
        """Return the wheels that lie on this machine, and those that are made again."""
        local: dict[str, Path] = {}
        requests: dict[str, Request] = {}
        is_exact = self._request.is_exact
        for package in packages:
            wheel = self._shelf.locked_wheel(package, is_exact=is_exact)
            if wheel is not None:
                local[package.name] = wheel
            elif package.notes.made is not None and package.wheel.url is None:
                requests[package.name] = self._request_again(package)
        with tempfile.TemporaryDirectory(prefix="buildkit-sync-") as out:
            for name, request in requests.items():
                package = self._packages[name]
                local[name] = make_again(package, request, self._kit, Path(out))
        return local

    def _request_again(self, package: LockedPackage) -> Request:
        made = package.notes.made
        if made is None or self._request.is_exact:
            raise LockError(
                f"The wheel {package.wheel.name} with sha256 {package.wheel.hashes.sha256} is not"
                " on this machine.",
                where=Location(file=str(self._request.file), key=package.name),
                remedy="Name its directory with --find-links, or leave --exact away.",
            )
        return require_same_key(
            package, made, self._target, self._kit, is_offline=self._request.is_offline
        )
