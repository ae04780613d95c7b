"""What the libraries of a wheel ask of the loader.

What enters: a wheel. What leaves: pairs of a library in it and one that it needs.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from typing import TYPE_CHECKING

from buildkit.wheels.elf import is_elf, read_needed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["list_needed"]


def list_needed(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield each library of a wheel with each library that it needs."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                if not is_elf(stream.read(4)):
                    continue
            with archive.open(member) as stream, tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(stream, copy, 1 << 20)
                for needed in read_needed(copy):
                    yield member.filename, needed
