"""The policy: which compiler calls start, stop or go on. Pure: a state enters, decisions leave.

A job is started when the peaks that are reserved leave room for its own, both under the cap and in
the memory that is free at this moment. The second alone, which is what every "wait while memory
is low" tool looks at, does not see that the jobs which run have not grown yet; the first alone
does not see what other programs hold.

The longest job comes first. When it does not fit it gets a reservation: the moment at which enough
of the running jobs will have ended. Smaller jobs may pass it only if they end before that moment
or leave the room that it needs. Without the reservation small jobs starve big ones; without the
passing the machine stands empty while a big one waits.
Source: EASY backfilling, D. Lifka, "The ANL/IBM SP scheduling system" (1995).

When estimates were wrong and memory runs short, jobs that still grow are paused, youngest first,
and at last the job that is cheapest to repeat is killed. The oldest job always goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from buildkit.governor.jobs import (
    Decision,
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

__all__ = ["COLLECT_SECONDS", "SHARED_ATTEMPTS", "decide", "raised_peak"]

#: How long the first decision waits for more arrivals, so that the order sees the whole list, and
#: the part of the longest job that this may cost: a serial build of short calls must not feel it.
COLLECT_SECONDS = 0.2
COLLECT_SHARE = 0.01

#: Free part of the cap under which jobs whose growth does not fit are paused, or one is killed.
#: Source: the gap must hold what grows between two samples; our own figures.
PAUSE_BELOW = 0.05
KILL_BELOW = 0.02

#: Attempts after which a job runs alone.
SHARED_ATTEMPTS = 2


def decide(state: State) -> tuple[Decision, ...]:
    """Return what to do now, in this order. The same state gives the same decisions."""
    if len(state.running) == 1:
        alone = state.running[0]
        if alone.rss_bytes > state.limit_of(alone.build).memory_bytes and not alone.is_ending:
            return (TooBig(alone.job, alone.rss_bytes),)
    if relief := _relieve(state):
        return relief
    if _is_collecting(state) or any(job.is_paused for job in state.running):
        return ()
    return _admit(state)


def raised_peak(peak_bytes: int, seen_bytes: int, attempts: int, cap_bytes: int) -> int:
    """Return the peak to expect of a job that ran out of memory.

    After the last shared attempt it is the whole cap, which is how a job gets to run alone.

    :param seen_bytes: The most that it was seen to hold.
    :param attempts: How often it has been ended for memory, this time included.
    """
    if attempts >= SHARED_ATTEMPTS:
        return cap_bytes
    return min(cap_bytes, max(peak_bytes * 3 // 2, seen_bytes * 5 // 4))


# --- pressure ------------------------------------------------------------------------------------


def _relieve(state: State) -> tuple[Decision, ...]:
    """Pause jobs that would grow beyond what is left, resume those that fit again, or kill one."""
    jobs = [job for job in state.running if not job.is_ending]
    oldest_first = sorted(jobs, key=lambda job: (-job.elapsed_seconds, job.job))
    held = sum(job.rss_bytes for job in state.running)
    room = min(state.cap_bytes - held, state.headroom_bytes)
    left = room
    decisions: list[Decision] = []
    for job in oldest_first:
        if job is oldest_first[0] or job.owed_bytes <= left:
            left -= job.owed_bytes
            if job.is_paused:
                decisions.append(Resume(job.job))
        elif not job.is_paused and room < PAUSE_BELOW * state.cap_bytes:
            decisions.append(Pause(job.job))
    is_one_ending = len(jobs) < len(state.running)
    if left < 0 and room < KILL_BELOW * state.cap_bytes and jobs[1:] and not is_one_ending:
        victim = min(oldest_first[1:], key=lambda job: (_cost_of_repeating(job), job.job))
        return (Kill(victim.job),)
    return tuple(decisions)


def _cost_of_repeating(job: Running) -> float:
    """Seconds of work lost per byte that its end frees."""
    return job.elapsed_seconds / max(1, job.rss_bytes)


# --- admission -----------------------------------------------------------------------------------


def _is_collecting(state: State) -> bool:
    if state.running or not state.waiting:
        return False
    longest = max(job.seconds for job in state.waiting)
    waited = state.now_seconds - min(job.arrived_seconds for job in state.waiting)
    return waited < min(COLLECT_SECONDS, COLLECT_SHARE * longest)


@dataclass(frozen=True, slots=True)
class _Room:
    """Free memory and CPUs."""

    memory_bytes: int
    cpus: int

    def holds(self, job: Waiting) -> bool:
        return job.peak_bytes <= self.memory_bytes and job.cpus <= self.cpus

    def less(self, job: Waiting) -> _Room:
        return _Room(self.memory_bytes - job.peak_bytes, self.cpus - job.cpus)

    def plus(self, job: Running) -> _Room:
        return _Room(self.memory_bytes + job.claim_bytes, self.cpus + job.cpus)


def _admit(state: State) -> tuple[Decision, ...]:
    offer = _Offer(state)
    started: list[Decision] = []
    for wish in _in_order(state):
        if offer.is_full:
            break
        if offer.takes(wish):
            started.append(Start(wish.job))
    return tuple(started)


class _Offer:
    """What can be given to waiting jobs, asked one by one in their order."""

    def __init__(self, state: State) -> None:
        everything = _Room(
            min(
                state.cap_bytes - sum(job.claim_bytes for job in state.running),
                state.headroom_bytes - sum(job.owed_bytes for job in state.running),
            ),
            state.cpus - sum(job.cpus for job in state.running),
        )
        self._shared = _Pool(everything, list(state.running))
        self._limits = {build: state.limit_of(build) for build in state.limits}
        self._own = {build: _own_pool(build, state) for build in state.limits}
        self._everything = Limit(memory_bytes=state.cap_bytes, cpus=state.cpus)

    @property
    def is_full(self) -> bool:
        return self._shared.is_full

    def takes(self, job: Waiting) -> bool:
        """Take a job if there is room both for its build and for all.

        One that its own build is in the way of holds up nobody else: what it gets reserved lies
        within its build.
        """
        job = _within_reach(job, self._limits.get(job.build, self._everything))
        own = self._own.get(job.build, self._shared)
        if not (own.has_room(job) and self._shared.has_room(job)):
            return False
        if not (own.spares(job) and self._shared.spares(job)):
            return False
        self._shared.take(job)
        if own is not self._shared:
            own.take(job)
        return True


class _Pool:
    """Room that several jobs share, with the reservation of the first that found none."""

    def __init__(self, room: _Room, running: list[Running]) -> None:
        self._room = room
        self._running = running
        self._reservation: tuple[float, _Room] | None = None

    @property
    def is_full(self) -> bool:
        return self._room.cpus <= 0 and bool(self._running)

    def has_room(self, job: Waiting) -> bool:
        """Tell whether a job fits, or could only run alone and may; else reserve, once."""
        if not self._running or self._room.holds(job):
            return True
        if self._reservation is None:
            self._reservation = _reservation(job, self._running, self._room)
        return False

    def spares(self, job: Waiting) -> bool:
        """Tell whether a job leaves what is reserved, or ends before that is needed."""
        if self._reservation is None or job.seconds <= self._reservation[0]:
            return True
        return self._reservation[1].holds(job)

    def take(self, job: Waiting) -> None:
        """Enter a job that starts."""
        if self._reservation is not None and job.seconds > self._reservation[0]:
            moment, spare = self._reservation
            self._reservation = (moment, spare.less(job))
        self._room = self._room.less(job)
        self._running.append(_just_started(job))


def _own_pool(build: str, state: State) -> _Pool:
    """Return what is left of a build's own limit."""
    limit = state.limit_of(build)
    own = [job for job in state.running if job.build == build]
    room = _Room(
        limit.memory_bytes - sum(job.claim_bytes for job in own),
        limit.cpus - sum(job.cpus for job in own),
    )
    return _Pool(room, own)


def _in_order(state: State) -> list[Waiting]:
    """Longest first, but a build of which nothing runs comes before the others."""
    ordered = sorted(state.waiting, key=lambda job: (-job.seconds, -job.peak_bytes, job.job))
    served = {job.build for job in state.running}
    front: list[Waiting] = []
    rest: list[Waiting] = []
    for job in ordered:
        (rest if job.build in served else front).append(job)
        served.add(job.build)
    return front + rest


def _within_reach(job: Waiting, limit: Limit) -> Waiting:
    """Expect no more of a job than its build may use: it then runs alone there."""
    if job.peak_bytes <= limit.memory_bytes and job.cpus <= limit.cpus:
        return job
    return replace(
        job, peak_bytes=min(job.peak_bytes, limit.memory_bytes), cpus=min(job.cpus, limit.cpus)
    )


def _reservation(head: Waiting, running: list[Running], room: _Room) -> tuple[float, _Room]:
    """Return in how many seconds the head can start, and what it will leave free then."""
    moment = 0.0
    for job in sorted(running, key=lambda job: (job.remaining_seconds, job.job)):
        if room.holds(head):
            break
        moment = job.remaining_seconds
        room = room.plus(job)
    return moment, room.less(head)


def _just_started(job: Waiting) -> Running:
    return Running(
        job=job.job,
        build=job.build,
        peak_bytes=job.peak_bytes,
        seconds=job.seconds,
        tail_bytes=job.tail_bytes,
        is_guess=job.is_guess,
        cpus=job.cpus,
        elapsed_seconds=0.0,
        rss_bytes=0,
        seen_bytes=0,
        is_growing=True,
    )
