"""The ledger: the jobs of all builds, from arrival to end, in the terms of the policy.

What enters: arrivals, measurements and ends, each with its time. What leaves: the policy's
decisions, already entered here; whoever holds the processes carries them out. It reads no clock
and touches no process, so that the live server and the simulator are the same from here on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from buildkit.governor.curve import tail_of
from buildkit.governor.jobs import (
    Kill,
    Limit,
    Pause,
    Resume,
    Running,
    Start,
    State,
    TooBig,
    Waiting,
)
from buildkit.governor.policy import SHARED_ATTEMPTS, decide, raised_peak

if TYPE_CHECKING:
    from buildkit.governor.jobs import Decision

__all__ = ["Ledger", "Load"]

#: A job counts as growing until it has not grown for so long, or for this share of its age if that
#: is longer; and growing means by at least so much.
GROWTH_SECONDS = 2.0
GROWTH_WINDOW_SHARE = 0.05
GROWTH_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the jobs of a build do at one moment."""

    running: int
    paused: int
    waiting: int
    held_bytes: int
    cap_bytes: int
    seconds_left: float
    """The least that its jobs which have arrived will still take."""


@dataclass(slots=True)
class _Entry:
    """One job that was started."""

    wish: Waiting
    rss_bytes: int
    seen_bytes: int
    active_seconds: float
    """Time that it ran, without pauses, up to ``counted_seconds``."""
    counted_seconds: float
    grew_seconds: float
    """When it last grew, in active time: a paused job does not grow, and settles no more."""
    held: list[int] = field(default_factory=list)
    """What it was seen to hold, one sample after the other."""
    is_paused: bool = False
    is_ending: bool = False

    def advance(self, now: float) -> None:
        if not self.is_paused:
            self.active_seconds += now - self.counted_seconds
        self.counted_seconds = now

    def seen(self) -> Running:
        return Running(
            job=self.wish.job,
            build=self.wish.build,
            peak_bytes=self.wish.peak_bytes,
            seconds=self.wish.seconds,
            tail_bytes=self.wish.tail_bytes,
            is_guess=self.wish.is_guess,
            cpus=self.wish.cpus,
            elapsed_seconds=self.active_seconds,
            rss_bytes=self.rss_bytes,
            seen_bytes=self.seen_bytes,
            is_growing=self.active_seconds - self.grew_seconds
            <= max(GROWTH_SECONDS, GROWTH_WINDOW_SHARE * self.active_seconds),
            is_paused=self.is_paused,
            is_ending=self.is_ending,
        )


class Ledger:
    """Waiting and running jobs of one or several builds under one cap.

    :param cap_bytes: What all jobs together may hold.
    """

    def __init__(self, *, cap_bytes: int, cpus: int) -> None:
        self._cap_bytes = cap_bytes
        self._cpus = cpus
        self._limits: dict[str, Limit] = {}
        self._waiting: dict[int, Waiting] = {}
        self._running: dict[int, _Entry] = {}
        self._attempts: dict[int, int] = {}
        self._arrivals = 0

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._waiting)

    def waiting_of(self, build: str) -> list[int]:
        """Return the jobs of one build that wait."""
        return [job for job, wish in self._waiting.items() if wish.build == build]

    @property
    def running(self) -> int:
        """How many jobs run or are paused."""
        return len(self._running)

    @property
    def held_bytes(self) -> int:
        """What all running jobs hold, as last measured."""
        return sum(entry.rss_bytes for entry in self._running.values())

    def revise(
        self, job: int, *, peak_bytes: int, seconds: float, tail_bytes: int | None = None
    ) -> None:
        """Expect something else of a job that waits; its raised peak after a failure stays."""
        wish = self._waiting.get(job)
        if wish is not None and job not in self._attempts:
            self._waiting[job] = replace(
                wish, peak_bytes=peak_bytes, seconds=seconds, tail_bytes=tail_bytes
            )

    def tail_bytes(self, job: int) -> int | None:
        """Return the most that a running job has held since it came down from its peak."""
        entry = self._running[job]
        tail = tail_of(entry.held, entry.seen_bytes)
        return None if tail is None else int(tail)

    def is_running(self, job: int) -> bool:
        """Tell whether a job was started and has not ended or been put back."""
        return job in self._running

    def limit(self, build: str, limit: Limit) -> None:
        """Say what the jobs of one build may use.

        All together they may use what is shared, or what the build of the largest limit may if
        that is less. CPUs are only shared out: a build may ask for more jobs than there are.
        """
        self._limits[build] = limit
        self._cpus = max(self._cpus, limit.cpus)

    def _cap(self) -> int:
        builds = {wish.build for wish in self._waiting.values()}
        builds |= {entry.wish.build for entry in self._running.values()}
        limits = [self._limits.get(build) for build in builds]
        if not limits or None in limits:
            return self._cap_bytes
        largest = max(limit.memory_bytes for limit in limits if limit is not None)
        return min(self._cap_bytes, largest)

    def load(self, build: str) -> Load:
        """Return what the jobs of one build do at this moment."""
        running = [entry for entry in self._running.values() if entry.wish.build == build]
        waiting = [wish for wish in self._waiting.values() if wish.build == build]
        left = [max(0.0, entry.wish.seconds - entry.active_seconds) for entry in running]
        area = sum(
            seconds * entry.wish.peak_bytes for seconds, entry in zip(left, running, strict=True)
        ) + sum(wish.seconds * wish.peak_bytes for wish in waiting)
        work = sum(left) + sum(wish.seconds for wish in waiting)
        limit = self._limits.get(build, Limit(memory_bytes=self._cap_bytes, cpus=self._cpus))
        cap_bytes = min(self._cap_bytes, limit.memory_bytes)
        return Load(
            running=sum(not entry.is_paused for entry in running),
            paused=sum(entry.is_paused for entry in running),
            waiting=len(waiting),
            held_bytes=sum(entry.rss_bytes for entry in running),
            cap_bytes=cap_bytes,
            seconds_left=max(
                work / limit.cpus,
                area / cap_bytes,
                max((wish.seconds for wish in waiting), default=0.0),
                max(left, default=0.0),
            ),
        )

    def arrive(
        self,
        *,
        build: str,
        peak_bytes: int,
        seconds: float,
        now: float,
        tail_bytes: int | None = None,
        is_guess: bool = False,
        cpus: int = 1,
    ) -> int:
        """Enter a job that asks to start.

        :param peak_bytes: Expected peak of its process tree.
        :param seconds: Expected duration.
        :param tail_bytes: The most to expect of it once it has come down from its peak.
        :param is_guess: All this is guessed from other jobs.
        :returns: The number that the decisions name it by.
        """
        self._arrivals += 1
        job = self._arrivals
        self._waiting[job] = Waiting(
            job=job,
            build=build,
            peak_bytes=peak_bytes,
            seconds=seconds,
            tail_bytes=tail_bytes,
            is_guess=is_guess,
            cpus=cpus,
            arrived_seconds=now,
        )
        return job

    def adopt(self, job: int, *, elapsed_seconds: float, now: float) -> None:
        """Enter a waiting job as running: another governor had started it."""
        self._enter(Start(job), now)
        self._running[job].active_seconds = elapsed_seconds
        self._running[job].grew_seconds = elapsed_seconds

    def measure(self, job: int, rss_bytes: int, now: float) -> None:
        """Enter what the process tree of a running job holds."""
        entry = self._running[job]
        if rss_bytes > entry.rss_bytes * (1 + GROWTH_SHARE):
            entry.advance(now)
            entry.grew_seconds = entry.active_seconds
        entry.held.append(rss_bytes)
        entry.rss_bytes = rss_bytes
        entry.seen_bytes = max(entry.seen_bytes, rss_bytes)

    def leave(self, job: int) -> None:
        """Strike out a job that has ended or whose launcher is gone."""
        self._waiting.pop(job, None)
        self._running.pop(job, None)
        self._attempts.pop(job, None)

    def requeue(self, job: int, now: float, *, is_alone: bool = False) -> None:
        """Let a running job that was ended for memory wait again, with a raised peak.

        :param is_alone: Let nothing run beside it the next time.
        """
        entry = self._running.pop(job)
        self._attempts[job] = SHARED_ATTEMPTS if is_alone else self._attempts.get(job, 0) + 1
        peak = raised_peak(
            entry.wish.peak_bytes, entry.seen_bytes, self._attempts[job], self._cap_bytes
        )
        # What was wrong about its peak is likely wrong about what comes after it.
        self._waiting[job] = replace(
            entry.wish, peak_bytes=peak, tail_bytes=None, arrived_seconds=now
        )

    def step(self, *, now: float, headroom_bytes: int) -> tuple[Decision, ...]:
        """Let the policy decide, enter its decisions and return them.

        :param headroom_bytes: What can be taken right now before memory runs out.
        """
        for entry in self._running.values():
            entry.advance(now)
        decisions = decide(
            State(
                now_seconds=now,
                waiting=tuple(self._waiting.values()),
                running=tuple(entry.seen() for entry in self._running.values()),
                cap_bytes=self._cap(),
                headroom_bytes=headroom_bytes,
                cpus=self._cpus,
                limits=self._limits,
            )
        )
        for decision in decisions:
            self._enter(decision, now)
        return decisions

    def _enter(self, decision: Decision, now: float) -> None:
        match decision:
            case Start(job):
                self._running[job] = _Entry(
                    wish=self._waiting.pop(job),
                    rss_bytes=0,
                    seen_bytes=0,
                    active_seconds=0.0,
                    counted_seconds=now,
                    grew_seconds=0.0,
                )
            case Pause(job):
                self._running[job].is_paused = True
            case Resume(job):
                self._running[job].is_paused = False
            case Kill(job) | TooBig(job):
                self._running[job].is_ending = True
            case _:
                assert_never(decision)
