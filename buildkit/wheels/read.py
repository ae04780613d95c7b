"""A wheel is read and believed only when its record agrees with its contents.

What enters: a file. What leaves: a :class:`WheelContents`. Checked: the zip itself, names that lead
out, the RECORD with every hash, and that file name, ``.dist-info`` directory, METADATA and WHEEL
say the same. Source: PyPA binary distribution format.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import PurePath
from typing import TYPE_CHECKING

from buildkit.errors import Location, VerifyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from email.message import Message
    from pathlib import Path

__all__ = ["WheelContents", "broken", "read_wheel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelContents:
    """What a wheel says of itself."""

    path: Path
    name: str
    """Distribution name as its METADATA spells it."""
    version: str
    tags: tuple[str, ...]
    """Compatibility tags, such as ``cp311-cp311-linux_x86_64``."""
    requires: tuple[str, ...]
    """``Requires-Dist`` of its METADATA."""
    dist_info: str
    """Name of its ``.dist-info`` directory."""
    files: tuple[str, ...]


def read_wheel(path: Path) -> WheelContents:
    """Return what is in a wheel, after checking that it is whole and agrees with itself.

    :raises VerifyError: if it is not; every disagreement is named.
    """
    from installer.exceptions import InvalidWheelSource
    from installer.sources import WheelFile

    try:
        with WheelFile.open(path) as wheel:
            issues = _record_issues(wheel)
            metadata = HeaderParser().parsestr(wheel.read_dist_info("METADATA"))
            tags = HeaderParser().parsestr(wheel.read_dist_info("WHEEL")).get_all("Tag", [])
            contents = WheelContents(
                path=path,
                name=str(metadata["Name"]),
                version=str(metadata["Version"]),
                tags=tuple(sorted(str(tag) for tag in tags)),
                requires=tuple(str(item) for item in metadata.get_all("Requires-Dist", [])),
                dist_info=wheel.dist_info_dir,
                files=tuple(wheel._zipfile.namelist()),
            )
    except FileNotFoundError as error:
        raise VerifyError(
            f"There is no wheel {path}.", remedy="Give the path of a .whl file."
        ) from error
    except (zipfile.BadZipFile, OSError, KeyError, UnicodeDecodeError) as error:
        raise broken(path, [f"it cannot be read: {error}"]) from error
    except (InvalidWheelSource, ValueError) as error:
        raise broken(path, [str(error) or "its name is no wheel's"]) from error
    issues += _name_issues(contents, metadata)
    if issues:
        raise broken(path, issues)
    return contents


def _record_issues(wheel: object) -> list[str]:
    from installer.sources import WheelFile

    if not isinstance(wheel, WheelFile):  # pragma: no cover - only there for the type
        raise TypeError(wheel)
    unsafe = [
        name
        for name in wheel._zipfile.namelist()
        if name.startswith("/") or "\\" in name or ".." in name.split("/")
    ]
    if unsafe:
        return [f"{name!r} leads out of the wheel" for name in unsafe]
    try:
        wheel.validate_record()
    except WheelFile.validation_error as error:
        return [str(issue) for issue in error.issues]
    return []


def _name_issues(contents: WheelContents, metadata: Message) -> list[str]:
    """Compare what the file name, the directory and the metadata say."""
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
    from packaging.version import InvalidVersion, Version

    if metadata["Name"] is None or metadata["Version"] is None:
        return ["its METADATA lacks Name or Version"]
    try:
        name, version, _, tags = parse_wheel_filename(contents.path.name)
        stated = Version(contents.version)
    except (InvalidWheelFilename, InvalidVersion) as error:
        return [str(error)]
    issues = []
    if canonicalize_name(contents.name) != name:
        issues.append(f"its name is {name} in the file name, {contents.name} in METADATA")
    if stated != version:
        issues.append(f"its version is {version} in the file name, {contents.version} in METADATA")
    if {str(tag) for tag in tags} != set(contents.tags):
        listed = ", ".join(sorted(str(tag) for tag in tags))
        issues.append(
            f"its tags are {listed} in the file name, {', '.join(contents.tags)} in WHEEL"
        )
    return issues


def broken(file: Path | str, issues: Sequence[str]) -> VerifyError:
    """Return the error for a wheel that is not sound.

    :param file: Its path, or its name where that is all that is known.
    """
    more = f"; and {len(issues) - 10} more" if len(issues) > 10 else ""
    return VerifyError(
        f"The wheel {PurePath(file).name} is not sound: {'; '.join(issues[:10])}{more}.",
        where=Location(file=str(file)),
        remedy="Build or fetch it again; a renamed wheel needs its contents changed too.",
    )
