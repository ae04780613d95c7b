"""A wheel of this kit is made again, if this machine would make the very same one.

What enters: a locked package. What leaves: a wheel under the locked key, or the difference between
the locked key and the key that would be made here, field by field.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from buildkit.arch import parse_arch
from buildkit.errors import BuildkitError, LockError
from buildkit.make import draft, make
from buildkit.plan import difference
from buildkit.request import Request
from buildkit.wheels.rewrite import local_version

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.kit import Kit
    from buildkit.lock.model import LockedPackage, Made

__all__ = ["make_again", "require_same_key"]

_REMEDY = "Bring the wheel itself along, in a directory that you name with --find-links."


def require_same_key(
    package: LockedPackage, made: Made, python: str, kit: Kit, *, is_offline: bool
) -> Request:
    """Return the request that makes a locked wheel here; makes nothing.

    :param python: The environment that the wheel is for.
    :raises LockError: if it cannot be planned here, or would be another wheel.
    """
    if not (made.recipe and made.target):
        raise LockError(
            f"The wheel {package.wheel.name} is not on this machine, and the lock does not say how"
            " to make it.",
            remedy=_REMEDY,
        )
    try:
        request = Request(
            recipe=made.recipe,
            arch=parse_arch(made.target),
            version=made.version or None,
            python=python,
            is_offline=is_offline,
            has_local_version=made.fields.get("local version", "yes") == "yes",
        )
        plan = draft(request, kit).plan
    except BuildkitError as error:
        raise LockError(
            f"The wheel {package.wheel.name} is not on this machine, and cannot be planned here:"
            f" {error}",
            remedy=_REMEDY,
        ) from error
    if plan.key == made.key:
        if local_version(plan.version, plan.local_version) != package.version:
            raise LockError(
                f"The wheel {package.wheel.name} is not on this machine, and it was made from a"
                " source that was edited by hand.",
                remedy=_REMEDY,
            )
        return request
    lines = difference(made.key_fields, plan.key_fields) if made.fields else ()
    told = [f"  {line}" for line in lines] or ["  The lock does not hold the fields of its key."]
    what = (
        f"The wheel {package.wheel.name} is not on this machine, and would be another one if it"
        f" was made here: key {plan.key[:12]}, locked {made.key[:12]}."
    )
    raise LockError("\n".join([what, *told]), remedy=_REMEDY)


def make_again(package: LockedPackage, request: Request, kit: Kit, out: Path) -> Path:
    """Return a locked wheel, made here.

    :param out: Where a copy is put.
    :raises LockError: if it has another name than the locked one.
    :raises BuildkitError: of the stage of the make that failed.
    """
    kit.events.step("make", f"{package.name} {package.version}, again")
    wheel = make(dataclasses.replace(request, out=out), kit).entry.wheel
    if wheel.name != package.wheel.name:
        raise LockError(
            f"The wheel that was made is named {wheel.name}, locked is {package.wheel.name}.",
            remedy=_REMEDY,
        )
    return wheel
