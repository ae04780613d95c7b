"""What ``bk-launch`` writes down of a compiler call; a value without behaviour."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HIT", "UnitRecord"]

#: What ``objects`` says of a call that no compiler has answered: its time and memory tell nothing.
HIT = "hit"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord:
    """What ``bk-launch`` measured of one compiler call."""

    source: str
    output: str
    tool: str
    decision: str
    """``pinned``, ``kept``, ``replaced``, ``none`` (no GPU code) or ``passed`` (not rewritten)."""
    start: float
    """Seconds since the epoch."""
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    """Peak memory of the whole process tree."""
    status: int
    stderr: str = ""
    """The end of what the compiler wrote to standard error; only of failed calls."""
    flags: str = ""
    """Digest of the flags without paths: tells two compilations of one source apart."""
    waited_seconds: float = 0.0
    """From asking for a slot to the start."""
    paused_seconds: float = 0.0
    """Part of ``wall_seconds`` in which the governor held it still."""
    byte_seconds: float = 0.0
    """Integral of the memory of the whole process tree."""
    memory: tuple[tuple[float, int], ...] = ()
    """Samples, at most 64: seconds since its start, and MiB of the whole process tree."""
    ended: str = ""
    """Who killed it for memory: ``governor``, ``kernel``, or ``cap``; empty: it ended by itself."""
    attempt: int = 1
    """Counted from 1; more after it was killed for memory."""
    objects: str = ""
    """What the cache of objects had to do with it: ``hit``, ``miss``, ``skipped: REASON``; empty
    without one."""
