"""Version ranges, without the price of a library's import for the common ones. Pure."""

from __future__ import annotations

import operator
import re

__all__ = ["is_in_range"]

_CLAUSE = re.compile(r"\s*(==|!=|>=|<=|<|>)\s*(\d+(?:\.\d+)*)\s*")
_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}


def is_in_range(version: str, allowed: str) -> bool:
    """Tell whether a release is in a PEP 440 range.

    >>> is_in_range("13.0.88", ">=12.8,<14"), is_in_range("12.8", ">=12.8.1")
    (True, False)
    """
    clauses = [_CLAUSE.fullmatch(clause) for clause in allowed.split(",")]
    if not re.fullmatch(r"\d+(\.\d+)*", version) or None in clauses:
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(allowed).contains(version, prereleases=True)
    return all(
        _OPERATORS[clause[1]](*_equally_long(version, clause[2]))
        for clause in clauses
        if clause is not None
    )


def _equally_long(one: str, other: str) -> tuple[list[int], list[int]]:
    """Return both releases as numbers, the shorter filled with zeros, as PEP 440 compares them."""
    left = [int(part) for part in one.split(".")]
    right = [int(part) for part in other.split(".")]
    length = max(len(left), len(right))
    return left + [0] * (length - len(left)), right + [0] * (length - len(right))
