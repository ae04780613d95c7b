"""The governor of one build: what it is told before, what is shown meanwhile, what is learnt after.

What enters: a plan, a slot and the capacity. What leaves: a block in which compiler calls are
governed, a history that knows more, and beside the records a file that tells under which limits
the build ran.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from buildkit.events import Progress
from buildkit.fs import write_atomic
from buildkit.governor.capacity import jobs_for, read_capacity, read_headroom
from buildkit.governor.estimate import Prior, measured_of
from buildkit.governor.govern import give_up, governed, machine_name, offered_jobs, read_load
from buildkit.governor.governed import Governed, render_governed
from buildkit.governor.hardcap import hard_cap
from buildkit.governor.history import History
from buildkit.governor.jobs import Limit
from buildkit.governor.knowledge import Knowledge, unit_of
from buildkit.governor.profile import read_profile
from buildkit.launcher import Admission, read_records
from buildkit.records import HIT
from buildkit.sizes import parse_size, render_number, render_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.governor.capacity import Capacity
    from buildkit.governor.estimate import Language
    from buildkit.governor.hardcap import HardCap, HardCapWish
    from buildkit.governor.ledger import Load
    from buildkit.governor.profile import Unit
    from buildkit.kit import Kit
    from buildkit.paths import Slot
    from buildkit.recipe.model import Recipe
    from buildkit.values import Plan

__all__ = ["Governing", "profile_file"]

#: Seconds that a call takes when nothing is known. Source: the units of causal-conv1d and
#: flash-attn in docs/measurements.md; only their order matters.
PRIOR_SECONDS: dict[Language, float] = {"cuda": 90.0, "c++": 20.0, "link": 5.0}

#: A link of object files that were compiled elsewhere; nvcc's device link is of the same kind.
LINK_BYTES = 1 << 30

#: Seconds between two looks at how the build is doing.
LOOK_SECONDS = 1.0


def profile_file(recipe_file: Path, arch: str) -> Path:
    """Return where the profile lies that ships with a recipe for a target."""
    return recipe_file.with_name(f"{recipe_file.stem}.{arch}.profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What a governed build needs to know."""

    events: Events
    """They also tell how the build is doing."""
    entrance: Path | None
    """The ``cgroup.procs`` file of its control group."""
    give_up: Callable[[], None]
    """Ends the calls that wait, once the build has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Governing:
    """Everything that governs one build."""

    recipe: Recipe
    recipe_file: Path
    plan: Plan
    slot: Slot
    capacity: Capacity
    kit: Kit

    @property
    def admission(self) -> Admission:
        """What the launchers are told."""
        return Admission(
            folder=self.kit.paths.governors / machine_name(),
            knowledge=self.slot.knowledge,
            slots=jobs_for(self.capacity, parse_size(self.recipe.memory.cuda)),
            cap_bytes=self.capacity.cap_bytes,
            jobs=offered_jobs(self.capacity),
        )

    @property
    def description(self) -> str:
        """How much runs at the same time, in a few words."""
        cpus = self.capacity.cpus
        return f"on {render_number(cpus, 'CPU')} within {render_size(self.capacity.cap_bytes)}"

    @contextmanager
    def block(self, wish: HardCapWish) -> Iterator[Block]:
        """Govern the compiler calls of the block; learn from them, also when it fails.

        :param wish: Whether the kernel shall keep the build to its cap, too.
        :raises RequestError: if it shall and cannot.
        """
        with hard_cap(self.capacity.cap_bytes, wish) as cap:
            try:
                with self._governed(cap) as events:
                    yield Block(events=events, entrance=cap.entrance, give_up=self._give_up)
            finally:
                if cap.kills():
                    self.kit.events.fact("kernel kills", str(cap.kills()))

    def _give_up(self) -> None:
        give_up(self.admission.folder, str(self.slot.knowledge))

    @contextmanager
    def _governed(self, cap: HardCap) -> Iterator[Events]:
        slot = self.slot
        write_atomic(slot.knowledge, self._knowledge().render().encode())
        first_record = len(slot.records.read_bytes().splitlines()) if slot.records.exists() else 0
        told = Governed(
            cap_bytes=self.capacity.cap_bytes,
            memory_source=self.capacity.memory_source,
            cpus=self.capacity.cpus,
            cpu_source=self.capacity.cpu_source,
            offered_jobs=self.admission.jobs,
            hard_cap=cap.description,
            started=time.time(),
            first_record=first_record,
        )
        write_atomic(slot.governed, render_governed(told).encode())
        folder = self.admission.folder

        def headroom() -> int:
            own = cap.headroom()
            return read_headroom() if own is None else min(own, read_headroom())

        try:
            with (
                governed(folder, read_capacity(), events=self.kit.events, headroom=headroom),
                _watched(self.kit.events, folder, str(slot.knowledge)) as events,
            ):
                yield events
            told = replace(told, status="ok")
        except BaseException:
            told = replace(told, status="failed")
            raise
        finally:
            told = replace(told, ended=time.time())
            write_atomic(slot.governed, render_governed(told).encode())
            self._remember(first_record)

    def _knowledge(self) -> Knowledge:
        memory = self.recipe.memory
        peaks: dict[Language, int] = {
            "cuda": parse_size(memory.cuda),
            "c++": parse_size(memory.cxx),
            "link": LINK_BYTES,
        }
        return Knowledge(
            limit=Limit(memory_bytes=self.capacity.cap_bytes, cpus=self.capacity.cpus),
            roots=self._roots,
            history=self._history.recall(),
            profile=self._profile(),
            priors={
                language: Prior(peak_bytes=peak, seconds=PRIOR_SECONDS[language])
                for language, peak in peaks.items()
            },
        )

    @property
    def _roots(self) -> tuple[str, ...]:
        return (str(self.slot.source), str(self.slot.build))

    @property
    def _history(self) -> History:
        compilers = {tool.name: tool.version for tool in self.plan.toolchain.tools}
        name = "nvcc" if "nvcc" in compilers else "gcc"
        return History(
            self.kit.paths.history,
            recipe=self.plan.recipe,
            arch=self.plan.arch.name,
            compiler=f"{name} {compilers[name]}",
            events=self.kit.events,
        )

    def _profile(self) -> dict[str, list[Unit]]:
        file = profile_file(self.recipe_file, self.plan.arch.device.name)
        units: dict[str, list[Unit]] = {}
        if file.is_file():
            for unit in read_profile(file).units:
                units.setdefault(unit.source, []).append(unit)
        return units

    def _remember(self, first_record: int) -> None:
        """Keep what the calls took that ended well, or ran out of memory."""
        runs = [
            (
                unit_of(record.source, record.output, record.flags, self._roots),
                measured_of(record),
            )
            for record in read_records(self.slot.records, first_line=first_record)
            if (record.status == 0 or record.ended)
            and (record.source or record.output)
            and record.objects != HIT
        ]
        if runs:
            self._history.remember(runs)


class _Watched:
    """Events whose progress also tells how many calls run and what they hold."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._last = Progress(done=0, total=None, unit="steps")
        self._load: Load | None = None

    def step(self, name: str, detail: str = "") -> None:
        self._events.step(name, detail)

    def progress(self, progress: Progress) -> None:
        self._last = progress
        self._events.progress(_told(progress, self._load))

    def warning(self, text: str) -> None:
        self._events.warning(text)

    def fact(self, key: str, value: str) -> None:
        self._events.fact(key, value)

    def output(self, line: str) -> None:
        self._events.output(line)

    def look(self, load: Load | None) -> None:
        """Tell a new load."""
        self._load = load
        if load is not None and load.running + load.paused + load.waiting:
            self.progress(self._last)


@contextmanager
def _watched(events: Events, folder: Path, build: str) -> Iterator[Events]:
    """Look at the build now and then while the block runs."""
    watched = _Watched(events)
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            watched.look(read_load(folder, build))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join(timeout=2 * LOOK_SECONDS)


def _told(progress: Progress, load: Load | None) -> Progress:
    """Return the progress with how the build is doing, beside what the build tool last said.

    >>> from buildkit.governor.ledger import Load
    >>> said = Progress(done=1, total=9, unit="steps", current="a.cu")
    >>> _told(said, Load(running=2, paused=0, waiting=60, held_bytes=7 << 30, cap_bytes=10 << 30,
    ...     seconds_left=250.0)).current
    '2 run, 60 wait, 7.0 of 10.0 GiB; a.cu'
    """
    if load is None or not load.running + load.paused + load.waiting:
        return progress
    gib = 1 << 30
    parts = [
        f"{load.running} run",
        *([f"{load.paused} paused"] if load.paused else []),
        f"{load.waiting} wait",
        f"{load.held_bytes / gib:.1f} of {load.cap_bytes / gib:.1f} GiB",
    ]
    current = ", ".join(parts) + (f"; {progress.current}" if progress.current else "")
    return replace(progress, current=current, seconds_left=load.seconds_left)
