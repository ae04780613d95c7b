"""Sizes and counts as people write them. Pure."""

from __future__ import annotations

import re

__all__ = ["parse_size", "render_number", "render_size"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Return the bytes that a text such as ``12GiB``, ``1.5G`` or ``800 MB`` names.

    Decimal units (``GB``) are read as binary ones: what people mean by "12 GB of memory".

    >>> parse_size("1.5GiB"), parse_size("2048")
    (1610612736, 2048)

    :raises ValueError: if the text is no size, or not positive.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"found {text!r}, allowed a number with KiB, MiB, GiB or TiB, as 12GiB")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def render_size(size_bytes: float) -> str:
    """Return a size in the largest unit that leaves at least one whole.

    >>> render_size(1610612736), render_size(300)
    ('1.5 GiB', '300 B')
    """
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes:.0f} B"


def render_number(count: int, noun: str, plural: str = "") -> str:
    """Return how many of a thing there are.

    >>> render_number(1, "wheel"), render_number(0, "wheel"), render_number(2, "hash", "hashes")
    ('1 wheel', '0 wheels', '2 hashes')

    :param plural: Of a noun that does not only take an s.
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
