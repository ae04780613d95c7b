"""The RECORD of a wheel: parsed, compared with the members that it lists, rendered.

Source: PyPA "Recording installed projects".
"""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.digest import digest_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SIGNATURES", "Row", "parse_record", "record_issues", "render_record", "row_of"]

SIGNATURES = ("RECORD.jws", "RECORD.p7s")
"""Signatures of a RECORD, which lists neither of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One file in a RECORD."""

    name: str
    digest: str
    """Such as ``sha256=2jmj7l5rSw0yVb_vlWAYkK_YBwk``; empty for RECORD itself."""
    size: str


def parse_record(text: str) -> tuple[Row, ...]:
    r"""Return the rows of a RECORD.

    >>> parse_record("a.py,sha256=x,3\n")
    (Row(name='a.py', digest='sha256=x', size='3'),)

    :raises ValueError: if a line has not three fields.
    """
    rows = []
    try:
        for fields in csv.reader(io.StringIO(text, newline="")):
            if not fields:
                continue
            name, digest, size = fields
            rows.append(Row(name=name, digest=digest, size=size))
    except (csv.Error, ValueError):
        raise ValueError(f"line {len(rows) + 1} of its RECORD has not three fields") from None
    return tuple(rows)


def render_record(rows: Iterable[Row]) -> bytes:
    """Return the text of a RECORD."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([row.name, row.digest, row.size] for row in rows)
    return out.getvalue().encode()


def row_of(name: str, data: bytes) -> Row:
    """Return the row for a file.

    >>> row_of("a", b"").size
    '0'
    """
    raw = bytes.fromhex(digest_bytes(data))
    code = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return Row(name=name, digest=f"sha256={code}", size=str(len(data)))


def record_issues(rows: Iterable[Row], sizes: dict[str, int], dist_info: str) -> Iterator[str]:
    """Tell in what a RECORD and the members of its wheel disagree, without reading them.

    :param sizes: Size of each member by name.
    """
    known = {row.name: row for row in rows}
    own = f"{dist_info}/RECORD"
    unlisted = {own, *(f"{dist_info}/{name}" for name in SIGNATURES)}
    for name, count in Counter(row.name for row in rows).items():
        if count > 1:
            yield f"RECORD lists {name} {count} times"
    for name in sorted(known.keys() - sizes.keys() - unlisted):
        yield f"RECORD lists {name}, which is not there"
    for name, size in sizes.items():
        if name in unlisted:
            continue
        if name not in known:
            yield f"{name} is not in RECORD"
        elif not known[name].digest:
            yield f"{name} has no digest in RECORD"
        elif known[name].size and known[name].size != str(size):
            yield f"{name} has {size} bytes, RECORD says {known[name].size}"
