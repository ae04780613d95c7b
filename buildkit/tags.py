"""Which wheels an interpreter takes, and which of them it likes best. Pure but for this machine.

Source: PyPA platform compatibility tags; the order is that of :mod:`packaging.tags`, which pip and
uv follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.tags import Tag

    from buildkit.values import PythonIdentity

__all__ = ["rank_of", "ranks"]


def ranks(python: PythonIdentity, machine: str | None) -> Mapping[Tag, int]:
    """Return the place of each tag that an interpreter takes; 0 is the best.

    :param machine: Such as ``aarch64``; None for the machine that the kit runs on.
    """
    return {tag: place for place, tag in reversed(list(enumerate(_tags(python, machine))))}


def rank_of(filename: str, known: Mapping[Tag, int]) -> int | None:
    """Return the best place of a wheel's tags; None for what is no wheel, or does not fit."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        tags = parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return None
    return min((known[tag] for tag in tags if tag in known), default=None)


def _tags(python: PythonIdentity, machine: str | None) -> Iterator[Tag]:
    from packaging.tags import compatible_tags, cpython_tags, platform_tags

    platforms = list(platform_tags()) if machine is None else list(_platforms(machine))
    major, minor = (int(part) for part in python.version.split(".")[:2])
    yield from cpython_tags((major, minor), abis=[python.tag], platforms=platforms)
    yield from compatible_tags((major, minor), python.tag, platforms)


def _platforms(machine: str) -> Iterator[str]:
    """Yield what a machine of today accepts. Source: PEP 600, and PEP 599 for the older names."""
    for minor in range(50, 16, -1):
        yield f"manylinux_2_{minor}_{machine}"
    yield from (f"manylinux2014_{machine}", f"linux_{machine}")
