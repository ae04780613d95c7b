"""Who requires what of whom, and which requirements an environment does not meet. Pure.

What enters: the ``Requires-Dist`` of distributions. What leaves: claims, those that a set of
versions breaks, and the pair of claims to blame when no set of versions meets all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.specifiers import SpecifierSet

__all__ = ["Claim", "broken", "claims_of", "disagreements", "public"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One distribution's requirement of another."""

    owner: str
    """Who requires it, as a person is told."""
    project: str
    """Normalised."""
    specifier: str
    """PEP 440 specifiers, such as ``==2.14.*``; empty if any version will do."""

    def __str__(self) -> str:
        return f"{self.owner} requires {self.project}{self.specifier}"


def claims_of(owner: str, requires: Iterable[str], markers: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the claims that hold in an environment; of extras none.

    >>> python = {"python_version": "3.11", "extra": ""}
    >>> lines = ["Torch (==2.9.1)", "tomli; python_version < '3.11'", "x; extra == 'test'"]
    >>> [str(claim) for claim in claims_of("toy 1.0", lines, python)]
    ['toy 1.0 requires torch==2.9.1']
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for text in requires:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue  # uv says so, if it matters
        if wanted.url is None and (wanted.marker is None or wanted.marker.evaluate({**markers})):
            name = str(canonicalize_name(wanted.name))
            yield Claim(owner=owner, project=name, specifier=str(wanted.specifier))


def broken(claims: Iterable[Claim], versions: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claims that a set of versions does not meet.

    :param versions: By normalised name.
    """
    return tuple(
        claim
        for claim in claims
        if claim.project not in versions or not _meets(claim, versions[claim.project])
    )


def disagreements(claims: Sequence[Claim]) -> tuple[tuple[Claim, Claim], ...]:
    """Return the pairs of claims on one project that no version meets that either of them names.

    That is a guess where ranges have no end, fit to explain a failure and not to predict one.
    """
    found = []
    for number, first in enumerate(claims):
        for second in claims[number + 1 :]:
            if first.owner != second.owner and first.project == second.project:
                named = _named(first) | _named(second)
                both = any(_meets(first, text) and _meets(second, text) for text in named)
                if named and not both:
                    found.append((first, second))
    return tuple(found)


def public(version: str) -> str:
    """Return a version without its local label.

    >>> public("2.9.1+cu130")
    '2.9.1'
    """
    return version.partition("+")[0]


def _meets(claim: Claim, version: str) -> bool:
    from packaging.version import InvalidVersion

    try:
        return _specifier(claim).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _named(claim: Claim) -> set[str]:
    return {item.version.removesuffix(".*") for item in _specifier(claim)}


def _specifier(claim: Claim) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(claim.specifier)
