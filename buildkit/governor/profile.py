"""Profiles: what each translation unit of a package costs, as reviewed data.

What enters: records of a build, or the text of a profile. What leaves: a :class:`Profile`, and its
text: JSON lines, a head and then one unit per line in the order of their names, so that a new
recording shows as a readable difference.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from buildkit.errors import Location, RecipeError
from buildkit.governor.estimate import Measured, measured_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from buildkit.records import UnitRecord

__all__ = ["Profile", "Unit", "parse_profile", "profile_of", "read_profile", "render_profile"]

#: First version of the format; a reader refuses any other.
FORMAT = 1

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One compiler call and what it costs."""

    source: str
    """Relative to the source tree; for a link, its output."""
    flags: str
    """Digest of the flags without paths; tells two compilations of one source apart."""
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    """Peak of the whole process tree."""
    tail_bytes: int | None = None
    """The most that it holds once it has come down from its peak; None: it does not."""

    @property
    def measured(self) -> Measured:
        """The run that it was recorded from."""
        return Measured(
            peak_bytes=self.peak_bytes, seconds=self.seconds, tail_bytes=self.tail_bytes
        )

    @property
    def cpus(self) -> int:
        """CPUs that it keeps busy, at least one."""
        return max(1, round(self.cpu_seconds / self.seconds)) if self.seconds else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The units of one package, version, target and compiler."""

    recipe: str
    version: str
    arch: str
    compiler: str
    """Name and version, such as ``nvcc 13.0.88``."""
    recorded: str
    """How: CPUs, jobs at the same time, and when; for the reviewer."""
    units: tuple[Unit, ...]


def render_profile(profile: Profile) -> str:
    """Return the text of a profile."""
    head = {
        "profile": FORMAT,
        "recipe": profile.recipe,
        "version": profile.version,
        "arch": profile.arch,
        "compiler": profile.compiler,
        "recorded": profile.recorded,
    }
    units = [
        {
            "source": unit.source,
            "flags": unit.flags,
            "seconds": round(unit.seconds, 1),
            "cpu_seconds": round(unit.cpu_seconds, 1),
            "peak_mib": round(unit.peak_bytes / _MIB),
            **({} if unit.tail_bytes is None else {"tail_mib": round(unit.tail_bytes / _MIB)}),
        }
        for unit in sorted(profile.units, key=lambda unit: (unit.source, unit.flags))
    ]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in (head, *units))


def read_profile(file: Path) -> Profile:
    """Return the profile in a file.

    :raises RecipeError: if the file cannot be read, is no profile, or holds no unit.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RecipeError(
            f"Profile: {reason}.",
            where=Location(file=str(file)),
            remedy="Give a file that `buildkit profile` wrote.",
        ) from error
    profile = parse_profile(text, file=str(file))
    if not profile.units:
        raise RecipeError(
            "Profile: found no unit, allowed one or more.",
            where=Location(file=str(file)),
            remedy="Record it again with `buildkit profile`.",
        )
    return profile


def parse_profile(text: str, *, file: str) -> Profile:
    """Return the profile that a text holds.

    :param file: Where the text comes from, for the message.
    :raises RecipeError: if a line is no JSON object of the expected keys; names the first five.
    """
    # Not splitlines(): it also splits at characters that JSON leaves alone in a name.
    lines = text.removesuffix("\n").split("\n")
    issues: list[str] = []
    head = _object(lines[0], issues, 1, _HEAD)
    if head and head["profile"] != FORMAT:
        issues.append(f"line 1: found format {head['profile']}, allowed {FORMAT}")
    found = [_object(line, issues, number, _UNIT) for number, line in enumerate(lines[1:], 2)]
    if issues or head is None:
        more = f"; and {len(issues) - 5} more" if len(issues) > 5 else ""
        raise RecipeError(
            f"Profile: {'; '.join(issues[:5])}{more}.",
            where=Location(file=file),
            remedy="Record it again with `buildkit profile`.",
        )
    return Profile(
        recipe=head["recipe"],
        version=head["version"],
        arch=head["arch"],
        compiler=head["compiler"],
        recorded=head["recorded"],
        units=tuple(
            Unit(
                source=unit["source"],
                flags=unit["flags"],
                seconds=float(unit["seconds"]),
                cpu_seconds=float(unit["cpu_seconds"]),
                peak_bytes=unit["peak_mib"] * _MIB,
                tail_bytes=unit["tail_mib"] * _MIB if "tail_mib" in unit else None,
            )
            for unit in found
            if unit is not None
        ),
    )


def profile_of(
    records: Iterable[UnitRecord],
    *,
    root: str,
    recipe: str,
    version: str,
    arch: str,
    compiler: str,
    recorded: str,
) -> Profile:
    """Return the profile of a recorded build; calls that failed are left out.

    Of several calls for one unit the last successful one counts.

    :param root: Source tree that names of sources become relative to.
    """
    units: dict[tuple[str, str], Unit] = {}
    for record in records:
        if record.status != 0:
            continue
        source = _relative(record.source or record.output, root)
        units[source, record.flags] = Unit(
            source=source,
            flags=record.flags,
            seconds=record.wall_seconds,
            cpu_seconds=record.cpu_seconds,
            peak_bytes=record.peak_bytes,
            tail_bytes=measured_of(record).tail_bytes,
        )
    return Profile(
        recipe=recipe,
        version=version,
        arch=arch,
        compiler=compiler,
        recorded=recorded,
        units=tuple(units.values()),
    )


_HEAD: dict[str, type | tuple[type, ...]] = {
    "profile": int,
    "recipe": str,
    "version": str,
    "arch": str,
    "compiler": str,
    "recorded": str,
}
_UNIT: dict[str, type | tuple[type, ...]] = {
    "source": str,
    "flags": str,
    "seconds": (int, float),
    "cpu_seconds": (int, float),
    "peak_mib": int,
}
_OPTIONAL: dict[str, type | tuple[type, ...]] = {"tail_mib": int}


def _object(
    line: str, issues: list[str], number: int, keys: dict[str, type | tuple[type, ...]]
) -> dict[str, Any] | None:
    """Return a line's object if it has these keys, of these types; else tell why not."""
    try:
        value = json.loads(line)
    except ValueError:
        issues.append(f"line {number}: found no JSON")
        return None
    if not isinstance(value, dict) or value.keys() - _OPTIONAL.keys() != keys.keys():
        issues.append(f"line {number}: found other keys, allowed {', '.join(keys)}")
        return None
    kinds = {**keys, **_OPTIONAL}
    wrong = [key for key in value if not _is(value[key], kinds[key])]
    if wrong:
        issues.append(f"line {number}: found a wrong value of {', '.join(wrong)}")
        return None
    return value


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    """Tell whether a value is of a kind; numbers are finite, not negative, and no booleans."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return not isinstance(value, (int, float)) or 0 <= value < float("inf")


def _relative(name: str, root: str) -> str:
    path = PurePosixPath(name)
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
