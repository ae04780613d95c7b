"""A wheel is written anew under a version that tells what it is, with its provenance inside.

File name, ``.dist-info`` directory, METADATA and RECORD change together, since installers refuse a
wheel that only its name was changed of. Equal inputs give equal bytes: members are sorted, with the
``.dist-info`` last, and carry one fixed time.
"""

from __future__ import annotations

import base64
import re
import shutil
import zipfile
from typing import TYPE_CHECKING

from buildkit.digest import digest_stream
from buildkit.errors import VerifyError

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.wheels.read import WheelContents

__all__ = ["PROVENANCE", "file_name", "local_version", "rewrite_wheel"]

PROVENANCE = "buildkit.json"

#: The first moment that a zip archive can hold. Source: PKWARE APPNOTE 4.4.6.
_TIME = (1980, 1, 1, 0, 0, 0)

_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


def local_version(version: str, label: str) -> str:
    """Return a version with a local label added. Source: PEP 440, "Local version identifiers".

    >>> local_version("1.7.0", "cu130.sm120"), local_version("1.0+abc", "sm120")
    ('1.7.0+cu130.sm120', '1.0+abc.sm120')
    """
    if not label:
        return version
    return f"{version}{'.' if '+' in version else '+'}{label}"


def rewrite_wheel(
    wheel: WheelContents,
    destination: Path,
    *,
    label: str,
    pins: dict[str, str],
    provenance: bytes,
) -> Path:
    """Write the wheel into a directory and return its path.

    :param label: Local version label; empty leaves the version as it is.
    :param pins: Requirement that takes the place of all others on a project, by normalised name.
    :param provenance: Contents of ``buildkit.json`` in the ``.dist-info`` directory.
    :raises VerifyError: if the disk is full.
    """
    version = local_version(wheel.version, label)
    stem = wheel.dist_info.removesuffix(".dist-info").rpartition("-")[0]
    renames = {
        f"{wheel.dist_info}/": f"{stem}-{version}.dist-info/",
        f"{wheel.dist_info.removesuffix('.dist-info')}.data/": f"{stem}-{version}.data/",
    }
    name = file_name(wheel.path.name, version)
    destination.mkdir(parents=True, exist_ok=True)
    place = destination / name
    part = destination / f".{name}.part"
    try:
        with zipfile.ZipFile(wheel.path) as old, _Writer(part) as new:
            for member in sorted(old.infolist(), key=_order(wheel.dist_info)):
                base = member.filename.rpartition("/")[2]
                if member.is_dir() or base == "RECORD" or base in _SIGNATURES:
                    continue
                target = _renamed(member.filename, renames)
                is_program = bool((member.external_attr >> 16) & 0o100)
                if member.filename == f"{wheel.dist_info}/METADATA":
                    text = _metadata(old.read(member).decode(), version, pins)
                    new.add_bytes(target, text.encode())
                else:
                    new.copy(old, member, target, is_program=is_program)
            folder = f"{stem}-{version}.dist-info"
            new.add_bytes(f"{folder}/{PROVENANCE}", provenance)
            new.add_record(f"{folder}/RECORD")
        part.replace(place)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise VerifyError(
            f"The wheel cannot be written to {destination}: {error.strerror or error}.",
            remedy="Free some space.",
        ) from error
    return place


class _Writer:
    """A zip archive that is being written, and its record."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._rows: list[str] = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def copy(
        self, old: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, *, is_program: bool
    ) -> None:
        with old.open(member) as source:
            digest = digest_stream(source)
        with (
            old.open(member) as source,
            self._zip.open(_info(name, is_program), "w", force_zip64=True) as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
        self._note(name, digest, member.file_size)

    def add_bytes(self, name: str, data: bytes) -> None:
        import io

        self._zip.writestr(_info(name, False), data)
        self._note(name, digest_stream(io.BytesIO(data)), len(data))

    def add_record(self, name: str) -> None:
        self._rows.append(f"{name},,")
        self._zip.writestr(_info(name, False), "\n".join([*self._rows, ""]).encode())

    def _note(self, name: str, digest: bytes, size: int) -> None:
        code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        field = f'"{name}"' if "," in name or '"' in name else name
        self._rows.append(f"{field},sha256={code},{size}")


def _info(name: str, is_program: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = (0o100755 if is_program else 0o100644) << 16
    return info


def _order(dist_info: str):  # type: ignore[no-untyped-def]
    def key(member: zipfile.ZipInfo) -> tuple[bool, str]:
        return member.filename.startswith(f"{dist_info}/"), member.filename

    return key


def _renamed(name: str, renames: dict[str, str]) -> str:
    for old, new in renames.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def file_name(name: str, version: str) -> str:
    """Return the file name of a wheel with another version in it.

    >>> file_name("x-1.0-py3-none-any.whl", "1.0+sm120")
    'x-1.0+sm120-py3-none-any.whl'
    """
    parts = name.split("-")
    parts[1] = version.replace("-", "_")
    return "-".join(parts)


def _metadata(text: str, version: str, pins: dict[str, str]) -> str:
    """Return METADATA with another version and the pins; everything else as it was."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    head, blank, body = text.replace("\r\n", "\n").partition("\n\n")
    lines = []
    for line in head.split("\n"):
        if line.startswith("Version:"):
            lines.append(f"Version: {version}")
            continue
        found = re.match(r"Requires-Dist:\s*(.+)", line)
        if found is not None:
            requirement = Requirement(found[1])
            if canonicalize_name(requirement.name) in pins and requirement.marker is None:
                continue
        lines.append(line)
    lines += [f"Requires-Dist: {pin}" for pin in pins.values()]
    return "\n".join(line for line in lines if line) + blank + body + ("" if blank else "\n")
