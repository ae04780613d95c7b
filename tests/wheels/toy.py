"""Small wheels of a package ``toy_x``, each sound unless a test says otherwise."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

from buildkit.wheels import read_wheel, rewrite_wheel

if TYPE_CHECKING:
    from pathlib import Path

NAME = "toy_x-1.0-py3-none-any.whl"
INFO = "toy_x-1.0.dist-info"
METADATA = b"Metadata-Version: 2.1\nName: toy-x\nVersion: 1.0\n\nVersion: of the toy.\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n\n"

#: A wheel with everything that makes copying one hard, without its RECORD.
CONTENTS = {
    "toy_x/__init__.py": b"value = 1\n",
    "toy_x/data.bin": bytes(range(256)) * 40,
    "toy_x/big.txt": b"the same line\n" * 5000,
    "toy_x/na\u00efve \u65e5\u672c.txt": b"x",
    'toy_x/a, "b".txt': b"y",
    "toy_x/empty": b"",
    "toy_x-1.0.data/scripts/toy": b"#!python\nprint('hi')\n",
    f"{INFO}/METADATA": METADATA,
    f"{INFO}/WHEEL": WHEEL,
}


def a_record(contents: dict[str, bytes], info: str = INFO) -> bytes:
    """Return the RECORD of some members. Source: PEP 376, PEP 427; not by the kit's own writer."""
    out = io.StringIO()
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        csv.writer(out).writerow([name, f"sha256={digest}", len(data)])
    return (out.getvalue() + f"{info}/RECORD,,\r\n").encode()


class Unseekable(io.RawIOBase):
    """A target that makes zipfile write data descriptors."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, block) -> int:
        self.data += bytes(block)
        return len(block)


def a_zip(
    contents: dict[str, bytes], *, method=zipfile.ZIP_DEFLATED, target=None, is_zip64=False
) -> bytes:
    """Return an archive of some members; the program in it may be run."""
    place = io.BytesIO() if target is None else target
    with zipfile.ZipFile(place, "w") as archive:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (2024, 5, 6, 7, 8, 10))
            info.compress_type = zipfile.ZIP_STORED if name.endswith(".bin") else method
            info.external_attr = (0o100755 if name.endswith("/toy") else 0o100644) << 16
            with archive.open(info, "w", force_zip64=is_zip64) as member:
                member.write(data)
    return place.data if isinstance(place, Unseekable) else place.getvalue()


def complete(**changes: bytes | None) -> dict[str, bytes]:
    """Return the contents of a wheel whose RECORD is right, some members changed or taken away."""
    contents = {name: data for name, data in (CONTENTS | changes).items() if data is not None}
    return contents | {f"{INFO}/RECORD": a_record(contents)}


def a_wheel(folder: Path, *, name: str = NAME, record: bytes | None = None, **files) -> Path:
    """Write a wheel that requires something; ``__`` in a file's name stands for a slash."""
    contents = {
        "toy_x/__init__.py": b"value = 1\n",
        "toy_x-1.0.data/scripts/toy": b"#!python\nprint('hi')\n",
        f"{INFO}/METADATA": (
            b"Metadata-Version: 2.1\nName: toy-x\nVersion: 1.0\nRequires-Dist: torch\n"
            b"Requires-Dist: torch; extra == 'more'\nRequires-Dist: numpy>=1\n\nA toy.\n"
        ),
        f"{INFO}/WHEEL": WHEEL,
    } | {key.replace("__", "/"): value for key, value in files.items()}
    contents[f"{INFO}/RECORD"] = a_record(contents) if record is None else record
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(a_zip(contents))
    return folder / name


def rewritten(tmp_path: Path, **changes) -> Path:
    """Return a wheel as a make labels it."""
    values = {
        "label": "cu130.sm120.k12345678",
        "pins": {"torch": "torch==2.14.*"},
        "provenance": b'{"schema": 1}\n',
    }
    contents = read_wheel(a_wheel(tmp_path / "in"))
    return rewrite_wheel(contents, tmp_path / "out", **(values | changes))
