"""What launchers say to the governor, as values. Pure; the other side is ``native/wire.h``.

What enters: lines without their end. What leaves: one value per line, or None for a line that
means nothing, whose sender is then no launcher of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote_to_bytes

from buildkit.governor.policy import Kill, Pause, Resume, Start, TooBig

if TYPE_CHECKING:
    from buildkit.governor.estimate import Language
    from buildkit.governor.policy import Decision

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


def _message(words: list[str]) -> Message | None:
    match words:
        case ["ask", build, source, output, flags, "cuda" | "c++" | "link" as language, *numbers]:
            passes, floor_bytes = map(int, numbers)
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
            return Rss(int(rss))
        case ["resume", rss, elapsed]:
            return Resumed(int(rss), float(elapsed))
        case ["out", "governor" | "kernel" as reason, peak]:
            return Out(reason, int(peak))
        case ["end", status, peak, seconds]:
            return End(int(status), int(peak), float(seconds))
        case ["report", build]:
            return Report(build)
        case ["giveup", build]:
            return GiveUp(build)
        case _:
            return None
