"""Digests: the one place that hashes.

What enters: bytes, files, or plain values. What leaves: a :class:`Digest`. The canonical
encoding of values is JSON with sorted keys, no blanks and no NaN, in UTF-8, so that equal values
have equal digests on every machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import IO, TYPE_CHECKING, Any, NewType

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Digest",
    "canonical",
    "digest_bytes",
    "digest_file",
    "digest_stream",
    "digest_tree",
    "digest_value",
]

Digest = NewType("Digest", str)
"""A SHA-256 in lower-case hexadecimal, 64 characters."""


def digest_bytes(data: bytes) -> Digest:
    """Return the digest of ``data``."""
    return Digest(hashlib.sha256(data).hexdigest())


def digest_file(path: Path) -> Digest:
    """Return the digest of a file's contents, read block by block.

    :raises OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        return Digest(hashlib.file_digest(file, "sha256").hexdigest())


def digest_stream(stream: IO[bytes]) -> bytes:
    """Return the raw SHA-256 of the rest of a stream, for formats that want it in base64."""
    state = hashlib.sha256()
    while block := stream.read(1 << 20):
        state.update(block)
    return state.digest()


def canonical(value: Any) -> bytes:
    r"""Return the canonical encoding of a value made of dicts, lists, strings, numbers, None.

    A file's name that is no UTF-8 keeps its bytes, as ``os.fsdecode`` has taken them.

    >>> canonical({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    >>> canonical("\udcff")
    b'"\xff"'
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode(errors="surrogateescape")


def digest_value(value: Any) -> Digest:
    """Return the digest of a plain value's canonical encoding."""
    return digest_bytes(canonical(value))


def digest_tree(root: Path) -> Digest:
    """Return the digest of a directory: relative names, executable bits, links and contents.

    Times, owners and the place of ``root`` do not count. ``.git`` and ``__pycache__`` directories
    are left out.

    :raises OSError: if a file cannot be read.
    """
    entries: list[list[str]] = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if ".git" in relative.parts or "__pycache__" in relative.parts:
            continue
        name = relative.as_posix()
        if path.is_symlink():
            entries.append([name, "link", str(path.readlink())])
        elif path.is_file():
            kind = "exec" if path.stat().st_mode & 0o111 else "file"
            entries.append([name, kind, digest_file(path)])
    return digest_value(entries)
