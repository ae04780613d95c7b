"""Jobs as the policy sees them, and what it may decide: values, with what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from buildkit.governor.curve import DOWN_SHARE, NEAR_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Decision",
    "Kill",
    "Limit",
    "Pause",
    "Resume",
    "Running",
    "Start",
    "State",
    "TooBig",
    "Waiting",
]

#: The part of a peak that was only guessed, from other units of this build, that a job must have
#: held before a fall counts as the end of its peak. Source: flash-attn's first build, where the
#: front end held a quarter of the guess and the peaks themselves 0.6 to 1.1 of it.
GUESS_SHARE = 0.5

#: What a job that has outgrown its estimate, and still grows, is expected to add.
OVERSHOOT = 1.1

#: Part of its expected time after which a job that does not grow is taken at what it has shown, and
#: the margin on that. Source: benchmarks/governor_sim.py, with peaks expected 30 % wrong.
SETTLED_SHARE = 0.7
SETTLED_MARGIN = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A compiler call that asks to start."""

    job: int
    """Number that is never used twice; smaller ones came first."""
    build: str
    """Which ``make`` it belongs to."""
    peak_bytes: int
    """Expected peak of the process tree."""
    seconds: float
    """Expected duration."""
    tail_bytes: int | None = None
    """The most that it is expected to hold once it has come down from its peak; None: it does not,
    or nobody knows."""
    is_guess: bool = False
    """Its peak is guessed from other units."""
    cpus: int = 1
    arrived_seconds: float
    """When it asked, on the clock of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A compiler call that was started."""

    job: int
    build: str
    peak_bytes: int
    """Expected peak, as when it was started."""
    seconds: float
    tail_bytes: int | None = None
    is_guess: bool = False
    cpus: int = 1
    elapsed_seconds: float
    """Since its start, without pauses."""
    rss_bytes: int
    """What its process tree holds now."""
    seen_bytes: int
    """The most that it has held."""
    is_growing: bool
    is_paused: bool = False
    is_ending: bool = False
    """It was killed, but its memory is not free yet."""

    @property
    def is_down(self) -> bool:
        """Whether it has held its peak and let go of it."""
        near = GUESS_SHARE if self.is_guess else NEAR_SHARE
        return (
            self.tail_bytes is not None
            and self.seen_bytes >= near * self.peak_bytes
            and self.rss_bytes < DOWN_SHARE * self.seen_bytes
        )

    @property
    def claim_bytes(self) -> int:
        """The most that it is expected to hold from now on."""
        if self.is_ending:
            return self.rss_bytes
        if self.tail_bytes is not None and self.is_down:
            return max(self.tail_bytes, int(self.rss_bytes * (OVERSHOOT if self.is_growing else 1)))
        if self.rss_bytes > self.peak_bytes:
            return int(self.rss_bytes * OVERSHOOT) if self.is_growing else self.rss_bytes
        if self.is_growing or self.elapsed_seconds < SETTLED_SHARE * self.seconds:
            return self.peak_bytes
        return min(self.peak_bytes, int(self.seen_bytes * SETTLED_MARGIN))

    @property
    def owed_bytes(self) -> int:
        """Growth that is still expected of it."""
        return self.claim_bytes - self.rss_bytes

    @property
    def remaining_seconds(self) -> float:
        """Expected time to its end; a job that is overdue takes a tenth longer, again and again."""
        return max(self.seconds - self.elapsed_seconds, 0.1 * self.elapsed_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What one build of several may use of what they share."""

    memory_bytes: int
    cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that a decision depends on."""

    now_seconds: float
    waiting: tuple[Waiting, ...]
    running: tuple[Running, ...]
    cap_bytes: int
    """What all jobs together may hold."""
    headroom_bytes: int
    """What can be taken right now before the machine or its container is out of memory."""
    cpus: int
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """By build; one that is not named may use everything."""

    def limit_of(self, build: str) -> Limit:
        """Return what a build may use, which is never more than there is."""
        limit = self.limits.get(build)
        if limit is None:
            return Limit(memory_bytes=self.cap_bytes, cpus=self.cpus)
        return Limit(
            memory_bytes=min(limit.memory_bytes, self.cap_bytes), cpus=min(limit.cpus, self.cpus)
        )


@dataclass(frozen=True, slots=True)
class Start:
    """Let a waiting job begin."""

    job: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop a running job where it is; it keeps its memory."""

    job: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused job go on."""

    job: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End a running job and let it wait again, with a raised peak."""

    job: int


@dataclass(frozen=True, slots=True)
class TooBig:
    """End the build: this job runs alone and holds more than the whole cap."""

    job: int
    rss_bytes: int


Decision = Start | Pause | Resume | Kill | TooBig
