"""The environment that is installed into: where it lies, who looks after it, what is in it.

What enters: what the user named. What leaves: a :class:`Place`, or the reason why nothing may be
installed there. Asks the interpreter itself; changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.environ import base_environment
from buildkit.errors import Location, RequestError, ToolchainError
from buildkit.toolchain.python import find_python

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution

    from buildkit.kit import Kit

__all__ = ["Place", "Present", "read_place", "read_present"]

#: ``markers`` are the target's own, as its requirements are judged by them. Source: PEP 508
#: "Environment Markers"; PEP 668 on the file that marks an interpreter of the system.
_QUESTION = """\
import json, os, platform, sys, sysconfig
stdlib = sysconfig.get_path("stdlib", sysconfig.get_default_scheme())
print(json.dumps({
    "root": sys.prefix,
    "is_virtual": sys.prefix != sys.base_prefix,
    "is_managed": os.path.isfile(os.path.join(stdlib, "EXTERNALLY-MANAGED")),
    "roots": [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")],
    "markers": {
        "implementation_name": sys.implementation.name,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_system": platform.system(),
        "python_full_version": platform.python_version(),
        "python_version": "%d.%d" % sys.version_info[:2],
        "sys_platform": sys.platform,
        "extra": "",
    },
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An environment that may be installed into."""

    root: Path
    python: Path
    """Its own interpreter, not the one that it was made from."""
    site_packages: tuple[Path, ...]
    markers: Mapping[str, str]
    """What requirements mean there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A distribution in an environment, by its metadata."""

    name: str
    """Normalised."""
    version: str
    requires: tuple[str, ...]
    record: Distribution
    """Knows its files."""


def read_place(spec: str, kit: Kit) -> Place:
    """Return the environment that is meant.

    :param spec: Its directory or its interpreter.
    :raises RequestError: if there is none, or its packages are not ours to change.
    """
    where = Location(file="command line", key="--python")
    try:
        python = find_python(spec, kit.runner, kit.environment)
    except ToolchainError as error:
        raise RequestError(
            f"Found {spec!r}, allowed an environment's directory or its interpreter.",
            where=where,
            remedy=f"Make it with `python3 -m venv {spec}`, or correct the path.",
        ) from error
    done = kit.runner.capture(
        [python, "-I", "-c", _QUESTION], env=base_environment(kit.environment), timeout_seconds=60
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise RequestError(
            f"{python} is no Python interpreter: it ended with status {done.status}.",
            where=where,
            remedy="Name the directory of a virtual environment.",
        ) from None
    if told["is_managed"] and not told["is_virtual"]:
        raise RequestError(
            f"{python} is the system's, whose packages only its package manager changes (PEP 668).",
            where=where,
            remedy="Make an environment, `python3 -m venv DIR`, and name that.",
        )
    root = Path(told["root"])
    version = told["markers"]["python_version"]
    roots = tuple(dict.fromkeys(Path(folder) for folder in told["roots"]))
    expected = {root / lib / f"python{version}" / "site-packages" for lib in ("lib", "lib64")}
    if not expected.issuperset(roots):
        raise RequestError(
            f"{python} is no virtual environment's: its packages lie in {roots[0]}.",
            where=where,
            remedy="Make an environment, `python3 -m venv DIR`, and name that.",
        )
    return Place(root=root, python=python, site_packages=roots, markers=told["markers"])


def read_present(place: Place) -> dict[str, Present]:
    """Return what is installed, by normalised name.

    :raises RequestError: if something is there twice, which a killed installer leaves.
    """
    from packaging.utils import canonicalize_name

    found: dict[str, Present] = {}
    roots = dict.fromkeys(str(root.resolve()) for root in place.site_packages)
    for record in distributions(path=list(roots)):
        # What a broken directory lacks is None, whatever its type says.
        named, version = str(record.metadata["Name"] or ""), str(record.metadata["Version"] or "")
        if not named or not version:
            continue
        name = str(canonicalize_name(named))
        if name in found:
            raise RequestError(
                f"{name} is installed twice, as {found[name].version} and {version}.",
                where=Location(file=str(place.root)),
                remedy="Uninstall it, until it is gone, and try again.",
            )
        found[name] = Present(
            name=name, version=version, requires=tuple(record.requires or ()), record=record
        )
    return found
