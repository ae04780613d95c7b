"""What differs between a lock and an environment. Pure.

What enters: a lock and an inventory. What leaves: one :class:`Difference` per distribution and
reason, and notes on what is different and harmless.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from buildkit.plan import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildkit.lock.inventory import Distribution, Inventory
    from buildkit.lock.model import Interpreter, Lock, LockedPackage, PatchedInPlace

__all__ = ["Comparison", "Difference", "compare", "misfits"]

Kind = Literal["python", "missing", "version", "twice", "files", "key", "patches", "extra", "stray"]

#: Names of files that one line lists.
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that an environment has otherwise than the lock."""

    name: str
    """The distribution; for a stray, the file."""
    kind: Kind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of comparing."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    """Other bytes of a build under the locked key, another patch level of Python."""


def misfits(lock: Lock, python: Interpreter) -> tuple[Difference, ...]:
    """Return why an interpreter cannot hold what is locked."""
    return tuple(
        Difference(name="python", kind="python", detail=f"{word}: locked {locked}, found {found}")
        for word, locked, found in (
            ("interpreter", lock.python.tag, python.tag),
            ("platform", lock.python.platform, python.platform),
        )
        if locked != found
    )


def compare(lock: Lock, inventory: Inventory, *, is_exact: bool) -> Comparison:
    """Return what differs.

    :param is_exact: A build under the locked key counts only if it has the locked bytes.
    """
    installed: dict[str, list[Distribution]] = defaultdict(list)
    for distribution in inventory.distributions:
        installed[distribution.name].append(distribution)
    found = list(misfits(lock, inventory.python))
    notes = list(_notes(lock.python, inventory.python))
    for package in lock.packages:
        there = installed.pop(package.name, [])
        if not there:
            found.append(_told(package, "missing", f"locked {package.version}, not installed"))
        elif len(there) > 1:
            versions = " and ".join(item.version for item in there)
            found.append(_told(package, "twice", f"locked {package.version}, found {versions}"))
        else:
            found += _differences(package, there[0], is_exact=is_exact)
            notes += _remade(package, there[0], is_exact=is_exact)
    found += [
        Difference(name=item.name, kind="extra", detail=f"found {item.version}, not in the lock")
        for rest in installed.values()
        for item in rest
    ]
    if inventory.sees_system:
        told = "it also imports the packages of the interpreter that it was made from"
        found.append(Difference(name="python", kind="python", detail=told))
    found += [
        Difference(name=name, kind="stray", detail="belongs to no distribution")
        for name in inventory.strays
    ]
    return Comparison(differences=tuple(found), notes=tuple(notes))


def _told(package: LockedPackage, kind: Kind, detail: str) -> Difference:
    return Difference(name=package.name, kind=kind, detail=detail)


def _notes(locked: Interpreter, found: Interpreter) -> Iterator[str]:
    pairs = (("Python", locked.version, found.version), ("libc", locked.libc, found.libc))
    for word, before, after in pairs:
        if before != after:
            yield f"{word}: locked {before}, found {after}"


def _differences(
    package: LockedPackage, found: Distribution, *, is_exact: bool
) -> Iterator[Difference]:
    if found.version != package.version:
        detail = f"locked {package.version}, found {found.version}"
        yield _told(package, "version", detail)
        return
    if found.refusal:
        yield _told(package, "files", f"{found.refusal}, not from the locked wheel")
        return
    if found.drift:
        more = len(found.drift) - _SHOWN
        listed = "; ".join(found.drift[:_SHOWN]) + (f"; {more} more" if more > 0 else "")
        yield _told(package, "files", listed)
    elif not _has_key(package, found):
        yield _told(package, "key", _keys(package, found))
    elif found.contents != package.notes.contents and (is_exact or package.notes.made is None):
        yield _told(package, "files", "installed from another wheel of this version")
    yield from _patch_differences(package, found)


def _has_key(package: LockedPackage, found: Distribution) -> bool:
    return _key(package.notes.made) == _key(found.made)


def _key(made: object) -> str:
    return getattr(made, "key", "")


def _keys(package: LockedPackage, found: Distribution) -> str:
    """Tell how a build under another key differs, field by field where both tell."""
    locked = package.notes.made
    before, after = _key(locked)[:12] or "none", _key(found.made)[:12] or "none"
    text = f"locked {before}, found {after}"
    if locked is None or found.made is None or not (locked.fields and found.made.fields):
        return text
    return "; ".join((text, *difference(locked.key_fields, found.made.key_fields)))


def _remade(package: LockedPackage, found: Distribution, *, is_exact: bool) -> Iterator[str]:
    made = package.notes.made
    if is_exact or made is None or found.drift or not _has_key(package, found):
        return
    if found.version == package.version and found.contents != package.notes.contents:
        yield f"{package.name}: made again under the locked key, its bytes are not the locked ones"


def _patch_differences(package: LockedPackage, found: Distribution) -> Iterator[Difference]:
    if found.is_interrupted:
        yield _told(package, "patches", "a change of its patches was interrupted")
        return
    lines = list(_patch_lines(package.notes.patched, found.patched))
    if lines:
        yield _told(package, "patches", "; ".join(lines))


def _patch_lines(locked: PatchedInPlace | None, found: PatchedInPlace | None) -> Iterator[str]:
    wanted = locked.patches if locked is not None else {}
    there = found.patches if found is not None else {}
    for name, digest in wanted.items():
        if name not in there:
            yield f"{name} is not applied"
        elif there[name] != digest:
            yield f"{name}: locked sha256 {digest[:12]}, found {there[name][:12]}"
    yield from (f"{name} is applied, not in the lock" for name in there if name not in wanted)
    if wanted != there or locked is None or found is None:
        return
    for name in sorted(locked.files.keys() | found.files.keys()):
        before, after = locked.files.get(name), found.files.get(name)
        if before != after:
            yield f"{name}: locked sha256 {(before or '-')[:12]}, found {(after or '-')[:12]}"
