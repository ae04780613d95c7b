"""The simulator: a profile replayed under the governor's policy, or under a fixed ``-j``.

What enters: units, a machine and, for the governor, what it expects of each unit. What leaves: how
the build ends. The governed replay drives the same ledger and policy as the live server; only the
processes are made up. Time moves from event to event; while a job may outgrow what is expected of
it, also in small steps, as the live sampling does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildkit.governor.bounds import Load
from buildkit.governor.jobs import Kill, Pause, Resume, Start, TooBig
from buildkit.governor.ledger import Ledger
from buildkit.governor.policy import COLLECT_SECONDS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from buildkit.governor.jobs import Decision
    from buildkit.governor.profile import Unit

__all__ = [
    "Died",
    "Expected",
    "Finished",
    "Machine",
    "Outcome",
    "exactly",
    "load_of",
    "off_by",
    "replay_fixed",
    "replay_governed",
]

#: Memory over time of a compiler call: from a first share of its peak it rises in a straight line,
#: then stays, or falls to its tail if it has one. Source: an assumption; nvcc's front end is small
#: beside the optimiser that follows, and flash-attn's units came down after 0.4 of their time.
FIRST_SHARE = 0.1
RISE_ENDS = 0.7
RISE_ENDS_WITH_TAIL = 0.4

#: How long a peak lasts that is followed by a tail.
MOMENT_SECONDS = 0.01

#: Seconds between two looks at the memory of jobs that may outgrow what is expected of them.
SAMPLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the build is replayed."""

    memory_bytes: int
    """Where the kernel kills."""
    cap_bytes: int
    """What the governor lets jobs hold together."""
    cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the governor believes of one unit before it runs."""

    peak_bytes: int
    seconds: float
    tail_bytes: int | None = None
    """As of a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Every unit was built."""

    makespan_seconds: float
    peak_bytes: int
    """The most that all jobs held together."""
    kills: int = 0
    """Jobs that the governor ended for memory and repeated."""
    wasted_seconds: float = 0.0
    """Work that was lost with them."""
    paused_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The kernel killed a compiler: the build failed."""

    after_seconds: float
    finished_units: int


Outcome = Finished | Died


def exactly(units: Sequence[Unit]) -> list[Expected]:
    """Expect of each unit what it will do, as after a recorded build."""
    return [
        Expected(peak_bytes=unit.peak_bytes, seconds=unit.seconds, tail_bytes=unit.tail_bytes)
        for unit in units
    ]


def off_by(units: Sequence[Unit], share: float, chance: random.Random) -> list[Expected]:
    """Expect memory and seconds that are wrong by up to a share, each way, independently."""
    return [
        Expected(
            peak_bytes=int(unit.peak_bytes * (factor := chance.uniform(1 - share, 1 + share))),
            seconds=unit.seconds * chance.uniform(1 - share, 1 + share),
            tail_bytes=None if unit.tail_bytes is None else int(unit.tail_bytes * factor),
        )
        for unit in units
    ]


def load_of(unit: Unit) -> Load:
    """Return what the bounds need of a unit, with the simulator's memory over time."""
    rise = _rise_ends(unit)
    tail = 1.0 if unit.tail_bytes is None else unit.tail_bytes / max(1, unit.peak_bytes)
    held = (FIRST_SHARE + 1) / 2 * rise + (1 - rise) * tail
    return Load(
        seconds=unit.seconds,
        peak_bytes=unit.peak_bytes,
        cpu_seconds=unit.seconds * unit.cpus,
        byte_seconds=unit.seconds * unit.peak_bytes * held,
    )


def replay_governed(
    units: Sequence[Unit], expected: Sequence[Expected], machine: Machine
) -> Outcome:
    """Replay a build under the governor, all units waiting from the start."""
    ledger = Ledger(cap_bytes=machine.cap_bytes, cpus=machine.cpus)
    asked = {
        ledger.arrive(
            build="make",
            peak_bytes=wish.peak_bytes,
            seconds=wish.seconds,
            tail_bytes=wish.tail_bytes,
            now=0.0,
            cpus=unit.cpus,
        ): _Job(unit, outgrows=wish.peak_bytes < unit.peak_bytes)
        for unit, wish in zip(units, expected, strict=True)
    }
    world = _World(machine)
    world.advance(COLLECT_SECONDS)
    while ledger.waiting or ledger.running:
        headroom = machine.memory_bytes - world.held_bytes()
        for decision in ledger.step(now=world.now, headroom_bytes=headroom):
            _carry_out(decision, asked, world, ledger)
        for job in world.advance(world.until_next_event()):
            ledger.leave(job)
        if world.peak_bytes > machine.memory_bytes:
            return world.died()
        for job, process in world.running.items():
            ledger.measure(job, process.rss_bytes, world.now)
    return world.finished()


def replay_fixed(units: Sequence[Unit], jobs: int, machine: Machine) -> Outcome:
    """Replay a build under a fixed number of jobs, units in the order given."""
    world = _World(machine)
    queue = list(enumerate(units))[::-1]
    while queue or world.running:
        while queue and len(world.running) < jobs:
            job, unit = queue.pop()
            world.running[job] = _Job(unit, outgrows=True)
        world.advance(world.until_next_event())
        if world.peak_bytes > machine.memory_bytes:
            return world.died()
    return world.finished()


def _carry_out(decision: Decision, asked: dict[int, _Job], world: _World, ledger: Ledger) -> None:
    match decision:
        case Start(job):
            world.running[job] = asked[job]
        case Pause(job):
            world.running[job].is_paused = True
        case Resume(job):
            world.running[job].is_paused = False
        case Kill(job):
            world.end_early(job)
            ledger.requeue(job, world.now)
        case TooBig():
            # The live build ends here with an error; a replay of what once ran lets it go on.
            pass


def _rise_ends(unit: Unit) -> float:
    """Return the share of its time in which a unit's memory rises."""
    return RISE_ENDS if unit.tail_bytes is None else RISE_ENDS_WITH_TAIL


@dataclass(slots=True)
class _Job:
    """A made-up process."""

    unit: Unit
    outgrows: bool
    """It may hold more than expected: it has to be sampled."""
    done_seconds: float = 0.0
    is_paused: bool = False

    @property
    def rss_bytes(self) -> int:
        top = _rise_ends(self.unit) * self.unit.seconds
        if self.unit.tail_bytes is not None and self.done_seconds > top + MOMENT_SECONDS / 2:
            return self.unit.tail_bytes
        share = FIRST_SHARE + (1 - FIRST_SHARE) * (min(1.0, self.done_seconds / top) if top else 1)
        return int(self.unit.peak_bytes * share)

    def until_turn(self) -> float:
        """Return its own time to its peak, then to just after it; 0 once it is down."""
        if self.unit.tail_bytes is None:
            return 0.0
        left = _rise_ends(self.unit) * self.unit.seconds - self.done_seconds
        if left > MOMENT_SECONDS / 2:
            return left
        return left + MOMENT_SECONDS if left > -MOMENT_SECONDS / 2 else 0.0


class _World:
    """Made-up processes, their memory and the time."""

    def __init__(self, machine: Machine) -> None:
        self._cpus = machine.cpus
        self.now = 0.0
        self.running: dict[int, _Job] = {}
        self.peak_bytes = 0
        self._ended = 0
        self._kills = 0
        self._wasted_seconds = 0.0
        self._paused_seconds = 0.0

    def held_bytes(self) -> int:
        return sum(job.rss_bytes for job in self.running.values())

    def until_next_event(self) -> float:
        """Return the time to the next end, or to the next sample if one is due before."""
        speed = self._speed()
        active = [job for job in self.running.values() if not job.is_paused]
        ends = [(job.unit.seconds - job.done_seconds) / speed for job in active]
        ends += [turn / speed for job in active if (turn := job.until_turn()) > 0]
        if len(active) < len(self.running) or any(job.outgrows for job in active):
            ends.append(SAMPLE_SECONDS)
        return min(ends, default=SAMPLE_SECONDS)

    def advance(self, seconds: float) -> list[int]:
        """Let time pass and return the jobs that have ended."""
        speed = self._speed()
        self.now += seconds
        for job in self.running.values():
            if job.is_paused:
                self._paused_seconds += seconds
            else:
                job.done_seconds += seconds * speed
        self.peak_bytes = max(self.peak_bytes, self.held_bytes())
        ended = [
            number
            for number, job in self.running.items()
            if job.done_seconds >= job.unit.seconds - 1e-9
        ]
        for number in ended:
            del self.running[number]
        self._ended += len(ended)
        return ended

    def end_early(self, number: int) -> None:
        job = self.running.pop(number)
        self._kills += 1
        self._wasted_seconds += job.done_seconds
        job.done_seconds = 0.0
        job.is_paused = False

    def finished(self) -> Finished:
        return Finished(
            makespan_seconds=self.now,
            peak_bytes=self.peak_bytes,
            kills=self._kills,
            wasted_seconds=self._wasted_seconds,
            paused_seconds=self._paused_seconds,
        )

    def died(self) -> Died:
        return Died(after_seconds=self.now, finished_units=self._ended)

    def _speed(self) -> float:
        """Return the share of a CPU that each job gets when they are more than the CPUs."""
        wanted = sum(job.unit.cpus for job in self.running.values() if not job.is_paused)
        return min(1.0, self._cpus / wanted) if wanted else 1.0
