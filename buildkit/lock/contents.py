"""The contents digest: what a wheel brings to site-packages, whoever installed it.

Two ways to the same value: from the rows of an installed RECORD, and from a wheel that was not
installed yet. Pure but for reading the wheel.
"""

from __future__ import annotations

import base64
import csv
import io
import zipfile
from typing import TYPE_CHECKING

from buildkit.digest import Digest, digest_value
from buildkit.wheels.installed import STATE
from buildkit.wheels.rewrite import PROVENANCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["contents_of_wheel", "digest_of_rows", "is_generated", "parse_record_digest"]

#: Files of a ``.dist-info`` directory that an installer writes, that RECORD does not hash, or that
#: the lock states in another way. Source: PyPA, "Recording installed projects"; uv.
_GENERATED = {
    "RECORD",
    "RECORD.jws",
    "RECORD.p7s",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
    "uv_cache.json",
    "uv_build.json",
    PROVENANCE,
    STATE,
}


def digest_of_rows(rows: Mapping[str, str], dist_info: str) -> Digest:
    """Return the digest of files, by name and SHA-256.

    :param dist_info: Name of the ``.dist-info`` directory among them.
    """
    kept = [[name, rows[name]] for name in sorted(rows) if not is_generated(name, dist_info)]
    return digest_value(kept)


def is_generated(name: str, dist_info: str) -> bool:
    """Tell whether a name of RECORD is none of the wheel's own in site-packages."""
    if name.startswith(("../", "/")) or name.endswith(".pyc"):
        return True
    folder, _, base = name.rpartition("/")
    return folder == dist_info and base in _GENERATED


def contents_of_wheel(wheel: Path) -> Digest | None:
    """Return the contents digest of a wheel, or None if the file is no wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (record,) = (
                name
                for name in archive.namelist()
                if name.endswith(".dist-info/RECORD") and name.count("/") == 1
            )
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
    except (OSError, ValueError, zipfile.BadZipFile, csv.Error):
        return None
    dist_info = record.partition("/")[0]
    data = f"{dist_info.removesuffix('.dist-info')}.data/"
    found = {}
    for row in rows:
        if len(row) < 2 or not row[1]:
            continue
        name = row[0]
        if name.startswith(data):
            scheme, _, name = name.removeprefix(data).partition("/")
            if scheme not in ("purelib", "platlib"):
                continue
        digest = parse_record_digest(row[1])
        if digest is None:
            return None
        found[name] = digest
    return digest_of_rows(found, dist_info)


def parse_record_digest(noted: str) -> str | None:
    """Return the SHA-256 that a row of RECORD notes, or None if it notes another digest.

    >>> parse_record_digest("sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")[:8]
    'e3b0c442'
    """
    algorithm, _, code = noted.partition("=")
    if algorithm != "sha256":
        return None
    try:
        return base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)).hex()
    except ValueError:
        return None
