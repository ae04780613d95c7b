"""What launchers say to the governor, as values. Pure; the other side is ``native/wire.h``.

What enters: lines without their end. What leaves: one value per line, or None for a line that
means nothing, whose sender is then no launcher of ours.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote_to_bytes

from buildkit.governor.jobs import Kill, Pause, Resume, Start, TooBig

if TYPE_CHECKING:
    from buildkit.governor.estimate import Language
    from buildkit.governor.jobs import Decision

__all__ = [
    "Ask",
    "Began",
    "End",
    "GiveUp",
    "Message",
    "Out",
    "Report",
    "Resumed",
    "Rss",
    "parse_message",
    "render_request",
]

#: What the launcher is told for each decision.
ORDERS: dict[type[Decision], bytes] = {
    Start: b"start\n",
    Pause: b"pause\n",
    Resume: b"continue\n",
    Kill: b"kill\n",
    TooBig: b"toobig\n",
}

#: What a launcher is told that waits for nothing any more.
GIVE_UP = b"giveup\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A call wants to start."""

    build: str
    """File that tells what is known of the build's units."""
    source: str
    output: str
    flags: str
    """Digest of the flags without paths."""
    language: Language
    passes: int
    floor_bytes: int
    """What it held when it ran out of memory under an earlier governor; else 0."""


@dataclass(frozen=True, slots=True)
class Began:
    """Its compiler runs."""


@dataclass(frozen=True, slots=True)
class Rss:
    """Its process tree holds so much now."""

    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """It runs already: an earlier governor had started it."""

    rss_bytes: int
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class Out:
    """It ran out of memory and wants to start again."""

    reason: Literal["governor", "kernel"]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class End:
    """It has ended."""

    status: int
    peak_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """No launcher, but a ``make`` that wants to know how its build is doing."""

    build: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No launcher, but a ``make`` whose build has failed: its calls that wait shall not start."""

    build: str


Message = Ask | Began | Rss | Resumed | Out | End | Report | GiveUp


def parse_message(line: bytes) -> Message | None:
    r"""Return what a line says.

    >>> parse_message(b"rss\t4096")
    Rss(rss_bytes=4096)
    >>> parse_message(b"rss\tmany") is None
    True
    """
    words = [unquote_to_bytes(word).decode(errors="surrogateescape") for word in line.split(b"\t")]
    try:
        return _message(words)
    except ValueError:
        return None


def render_request(word: Literal["report", "giveup"], build: str) -> bytes:
    r"""Return the line by which a ``make`` asks something of a build.

    >>> render_request("report", "/a b")
    b'report\t/a%20b\n'
    """
    return f"{word}\t{quote(os.fsencode(build))}\n".encode()


def _message(words: list[str]) -> Message | None:
    match words:
        case ["ask", build, source, output, flags, "cuda" | "c++" | "link" as language, *numbers]:
            passes, floor_bytes = map(_count, numbers)
            return Ask(
                build=build,
                source=source,
                output=output,
                flags=flags,
                language=language,
                passes=max(1, passes),
                floor_bytes=floor_bytes,
            )
        case ["began"]:
            return Began()
        case ["rss", rss]:
            return Rss(_count(rss))
        case ["resume", rss, elapsed]:
            return Resumed(_count(rss), _seconds(elapsed))
        case ["out", "governor" | "kernel" as reason, peak]:
            return Out(reason, _count(peak))
        case ["end", status, peak, seconds]:
            return End(_count(status), _count(peak), _seconds(seconds))
        case ["report", build]:
            return Report(build)
        case ["giveup", build]:
            return GiveUp(build)
        case _:
            return None


def _count(word: str) -> int:
    """Return a number of bytes or passes.

    :raises ValueError: if it is none, or more than any machine has.
    """
    if not (word.isascii() and word.isdecimal() and len(word) < 20):
        raise ValueError(word)
    return int(word)


def _seconds(word: str) -> float:
    """Return a time span.

    :raises ValueError: if it is none; one that is not finite would spoil every sum.
    """
    seconds = float(word)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(word)
    return seconds
