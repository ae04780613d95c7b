"""The story of ``lock``: what an environment holds is written down, or refused with every reason.

Each distribution is traced to one wheel with a digest: a local wheel by its contents, a file of the
package index by its tags. The environment is not changed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from buildkit.cache import require_cache
from buildkit.digest import digest_file
from buildkit.errors import Location, LockError
from buildkit.lock.file import package_document, refuse_foreign, render_lock, write_lock
from buildkit.lock.index import ask_index
from buildkit.lock.inventory import read_inventory
from buildkit.lock.model import Hashes, LockedWheel
from buildkit.lock.shelf import Shelf, local_folders
from buildkit.sizes import render_number
from buildkit.sources.settings import read_index_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from buildkit.kit import Kit
    from buildkit.lock.inventory import Distribution, Inventory

__all__ = ["Recorded", "lock_environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What ``lock`` wrote."""

    file: Path
    packages: int
    made: tuple[str, ...]
    """Distributions whose wheel this kit made."""
    patched: tuple[str, ...]
    """Distributions that are patched in place."""


def lock_environment(
    spec: str | None,
    file: Path,
    kit: Kit,
    *,
    find_links: Sequence[Path] = (),
    is_offline: bool = False,
) -> Recorded:
    """Write down what an environment holds.

    :param spec: The environment or its interpreter; None is the one that runs the kit.
    :param find_links: Directories of wheels that no index has.
    :raises LockError: if anything in it cannot be traced to a wheel; all of it at once.
    """
    refuse_foreign(file)
    settings = read_index_settings(kit.environment)
    folders = local_folders(find_links, settings.find_links)
    require_cache(kit.paths)
    kit.events.step("read", str(spec or sys.prefix))
    inventory = read_inventory(spec, kit)
    issues = list(_issues(inventory))
    refused = {name for name, _ in issues}
    wanted = [item for item in inventory.distributions if item.name not in refused]
    shelf = Shelf(folders, kit.paths, kit.holds)
    wheels = {item.name: wheel for item in wanted if (wheel := _local(item, shelf)) is not None}
    rest = [item for item in wanted if item.name not in wheels]
    if rest:
        kit.events.step("resolve", f"{render_number(len(rest), 'package')} of the index")
    supply = kit.supply(settings, is_offline=is_offline)
    found = ask_index(rest, spec or sys.executable, supply)
    wheels |= found.wheels
    issues += [
        (item.name, _untraced(item, found.reasons[item.name]))
        for item in rest
        if item.name in found.reasons
    ]
    _refuse(issues, spec)
    documents = [_document(item, wheels[item.name], shelf) for item in wanted]
    write_lock(file, render_lock(inventory.python, documents))
    return Recorded(
        file=file,
        packages=len(wanted),
        made=tuple(item.name for item in wanted if item.made is not None),
        patched=tuple(item.name for item in wanted if item.patched is not None),
    )


def _issues(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Yield what cannot be made again anywhere else."""
    if inventory.sees_system:
        yield "the environment", "it also imports the packages of another interpreter"
    names = [item.name for item in inventory.distributions]
    for item in inventory.distributions:
        if item.refusal:
            yield item.name, item.refusal
        elif item.is_interrupted:
            yield item.name, "a change of its patches was interrupted; run `buildkit patch` again"
        elif item.drift:
            yield item.name, f"its files are not what was installed ({_few(item.drift)})"
        elif names.count(item.name) > 1:
            yield item.name, f"{item.version} is there besides another version"
    for name in inventory.strays:
        yield name, "it belongs to no distribution; remove it"


def _local(item: Distribution, shelf: Shelf) -> LockedWheel | None:
    """Return the wheel of a distribution if it lies on this machine, or its installer noted it."""
    place = shelf.wheel_of(item)
    if place is not None:
        digest, name = str(digest_file(place)), place.name
    elif item.wheel is not None and item.wheel_sha256:
        digest, name = item.wheel_sha256, item.wheel.name
    else:
        return None
    return LockedWheel(name=name, hashes=Hashes(sha256=digest), path=name)


def _untraced(item: Distribution, reason: str) -> str:
    if item.made is None:
        return reason
    return f"its wheel is neither in the cache nor in a directory of wheels, and {reason}"


def _document(item: Distribution, wheel: LockedWheel, shelf: Shelf) -> dict[str, Any]:
    notes: dict[str, Any] = {"contents": str(item.contents)}
    if item.made is not None:
        made = msgspec.structs.replace(item.made, fields=shelf.key_fields(item.made))
        notes["made"] = msgspec.to_builtins(made)
    if item.patched is not None:
        notes["patched"] = msgspec.to_builtins(item.patched)
    values = {
        "name": item.name,
        "version": item.version,
        "wheels": [msgspec.to_builtins(wheel)],
    }
    return package_document(values, notes)


def _few(items: Sequence[str]) -> str:
    more = f"; {len(items) - 3} more" if len(items) > 3 else ""
    return "; ".join(items[:3]) + more


def _refuse(issues: Sequence[tuple[str, str]], spec: str | None) -> None:
    if not issues:
        return
    lines = [f"  {name}: {reason}." for name, reason in issues]
    raise LockError(
        "\n".join(["The environment cannot be locked:", *lines, ""]).rstrip(),
        where=Location(file=str(spec or sys.prefix)),
        remedy="Install these from wheels; give --find-links DIR for wheels that no index has.",
    )
