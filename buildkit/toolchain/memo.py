"""What a probe said, kept beside the fingerprint of the file that it asked.

A second ``make`` must not start compilers only to hear their versions again. An answer is kept
under the program's path and is good as long as size, mtime_ns and inode of the file are the same.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from buildkit.digest import digest_bytes
from buildkit.fs import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["remembered"]


def remembered(
    memo: Path, question: str, file: Path, ask: Callable[[], dict[str, str]]
) -> dict[str, str]:
    """Return what ``ask`` says of a file, from memory if the file has not changed.

    :param memo: Directory of the answers; one that cannot be written is no error.
    :param question: What is asked; part of the answer's name.
    """
    real = file.resolve()
    stat = real.stat()
    stamp = [str(real), stat.st_size, stat.st_mtime_ns, stat.st_ino]
    place = memo / f"{question}-{digest_bytes(str(file).encode())[:16]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(place.read_bytes())
        if known["stamp"] == stamp:
            return {str(name): str(value) for name, value in known["answer"].items()}
    answer = ask()
    with suppress(OSError):
        write_atomic(place, json.dumps({"stamp": stamp, "answer": answer}).encode())
    return answer
