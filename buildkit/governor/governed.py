"""The file beside a build's records that tells under which limits it ran.

What enters: the text of the file, or what a build knows of itself. What leaves: a
:class:`Governed`, and the text. It is written when a build starts and again when it ends, so one
that still says ``running`` belongs to a build that runs, or that was killed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from buildkit.errors import CacheError, RequestError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Governed", "parse_governed", "read_governed", "render_governed"]

Status = Literal["ok", "failed", "running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Governed:
    """The limits of one build, and how it ended."""

    cap_bytes: int
    """What all its compiler calls together may hold."""
    memory_source: str
    """Who says so, such as ``MemTotal``."""
    cpus: int
    cpu_source: str
    """Who says so, such as ``affinity``."""
    offered_jobs: int
    """How many calls the build tool was told to start at once."""
    hard_cap: str
    """What stands behind the governor if it fails, in words; may be empty."""
    started: float
    """Seconds since the epoch."""
    ended: float | None = None
    """None while it runs, and after it was killed."""
    first_record: int = 0
    """Line of the first record of this build, counted from 0."""
    status: Status = "running"

    @property
    def whole_seconds(self) -> float | None:
        """From its start to its end."""
        return None if self.ended is None else self.ended - self.started


def render_governed(governed: Governed) -> str:
    """Return the text of the file."""
    return json.dumps(asdict(governed)) + "\n"


def read_governed(file: Path) -> Governed:
    """Return what the file says.

    :raises RequestError: if there is none: nothing was built here.
    :raises CacheError: if it cannot be read, or is damaged.
    """
    try:
        return parse_governed(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise RequestError(
            f"No build left a record of its limits at {file}.", remedy="Make it first."
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CacheError(
            f"Record of the last build in {file}: {reason}.",
            remedy="Make it again with --clean.",
        ) from error


def parse_governed(text: str) -> Governed:
    """Return what a text says; keys that a later release adds are passed over.

    :raises ValueError: if a key is missing or of a wrong kind; says which.

    >>> parse_governed("{}")
    Traceback (most recent call last):
    ValueError: found a wrong or no value of cap_bytes, memory_source, cpus, cpu_source, \
offered_jobs, hard_cap, started, ended, first_record, status
    """
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError("found no JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"found {type(value).__name__}, allowed a JSON object")
    wrong = [key for key, is_right in _KEYS.items() if key not in value or not is_right(value[key])]
    if wrong:
        raise ValueError(f"found a wrong or no value of {', '.join(wrong)}")
    return Governed(**{key: value[key] for key in _KEYS})


def _is_number(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < 1e18  # type: ignore[operator] # a number, as just seen


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_positive(value: object) -> bool:
    return _is_count(value) and value != 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_KEYS: dict[str, Any] = {
    "cap_bytes": _is_positive,
    "memory_source": _is_text,
    "cpus": _is_positive,
    "cpu_source": _is_text,
    "offered_jobs": _is_count,
    "hard_cap": _is_text,
    "started": _is_number,
    "ended": lambda value: value is None or _is_number(value),
    "first_record": _is_count,
    "status": lambda value: value in get_args(Status),
}
