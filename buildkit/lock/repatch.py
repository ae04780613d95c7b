"""Patches in place are brought to what the lock says, with the patches of this kit.

What enters: a locked package and a distribution. What leaves: patched files. A patch of another
digest than the locked one is never applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.errors import Location, LockError
from buildkit.installed import Installed, apply_installed, revert_installed
from buildkit.patches.select import known_patches, select_patches

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.lock.inventory import Distribution
    from buildkit.lock.model import LockedPackage, PatchedInPlace

__all__ = ["find_patches", "repatch"]


def find_patches(package: LockedPackage, patched: PatchedInPlace, root: Path) -> Path:
    """Return the directory that holds the locked patches, each with its locked digest.

    :param root: Directory of the directories of packages.
    :raises LockError: if there is none.
    """
    best: tuple[str, ...] = tuple(patched.patches)
    for folder in sorted(path for path in root.glob("*") if path.is_dir()):
        missing = _missing(patched, folder)
        if not missing:
            return folder
        if len(missing) < len(best):
            best = missing
    listed = ", ".join(f"{name} (sha256 {patched.patches[name][:12]})" for name in best)
    raise LockError(
        f"Patches of {package.name} that the lock names are not here: {listed}.",
        where=Location(file=str(root)),
        remedy="Give the directory of patches that was used with --patches, or use that kit.",
    )


def _missing(patched: PatchedInPlace, folder: Path) -> tuple[str, ...]:
    there = [name for name in known_patches(folder) if name in patched.patches]
    digests = {patch.name: str(patch.digest) for patch in select_patches(there, folder)}
    return tuple(name for name, digest in patched.patches.items() if digests.get(name) != digest)


def repatch(
    package: LockedPackage, found: Distribution, folder: Path | None, events: Events
) -> None:
    """Apply the locked patches, or take patches back that the lock does not name.

    :param folder: Where the locked patches lie; None if the lock names none.
    :raises PatchError: if one does not apply.
    """
    stem, _, version = found.dist_info.name.removesuffix(".dist-info").rpartition("-")
    installed = Installed(name=stem, version=version, root=found.root, dist_info=found.dist_info)
    patched = package.notes.patched
    if patched is None or folder is None:
        revert_installed(installed)
        return
    names = list(patched.patches)
    # Named one by one, a patch for files that this release lacks would be an error.
    apply_installed(installed, folder, () if names == known_patches(folder) else names, events)
