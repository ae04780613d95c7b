"""How close the governor's policy comes to the lower bound, simulated.

Replays a profile scaled to 16, 64 and 192 cores with 2 GiB per core, with costs known and with
peaks and seconds expected up to 30 % wrong. Without a recorded profile the units are made up: a
quarter of 3 to 8 GiB and 1 to 5 minutes, the rest of 0.3 to 2 GiB and 5 to 90 seconds, 300 of them
for 16 cores. "any" compares with the bound for schedules that know memory over time.

Run: ``python benchmarks/governor_sim.py [--profile FILE] [--seeds 20]``.
"""

from __future__ import annotations

import argparse
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from buildkit.governor.bounds import bounds_for
from buildkit.governor.capacity import reserve_for
from buildkit.governor.profile import Unit, read_profile
from buildkit.governor.simulate import (
    Finished,
    Machine,
    exactly,
    load_of,
    off_by,
    replay_governed,
)

GIB = 1 << 30
CORES = (16, 64, 192)
UNITS_FOR_16_CORES = 300
TARGET = 1.06


@dataclass(frozen=True)
class Figure:
    """One replay."""

    ratio: float
    ratio_any: float
    kills: int
    wasted: float
    peak: float


def synthetic(count: int, chance: random.Random) -> list[Unit]:
    """Return made-up units."""
    return [_big(chance) if chance.random() < 0.25 else _small(chance) for _ in range(count)]


def _big(chance: random.Random) -> Unit:
    return _unit(chance.uniform(60, 300), chance.uniform(3, 8))


def _small(chance: random.Random) -> Unit:
    return _unit(chance.uniform(5, 90), chance.uniform(0.3, 2))


def _unit(seconds: float, gib: float) -> Unit:
    return Unit(
        source="unit.cu", flags="", seconds=seconds, cpu_seconds=seconds, peak_bytes=int(gib * GIB)
    )


def scaled(units: list[Unit], count: int, chance: random.Random) -> list[Unit]:
    """Return as many units, drawn from a profile, each some per cent off its model."""
    drawn = [*units * (count // len(units)), *chance.sample(units, count % len(units))]
    return [
        replace(
            unit,
            seconds=unit.seconds * (factor := chance.uniform(0.95, 1.05)),
            cpu_seconds=unit.cpu_seconds * factor,
            peak_bytes=int(unit.peak_bytes * chance.uniform(0.95, 1.05)),
        )
        for unit in drawn
    ]


def replay(profile: Path | None, cores: int, error: float, seed: int) -> Figure | None:
    """Replay once; None if the build ran out of memory."""
    chance = random.Random(seed)
    count = UNITS_FOR_16_CORES * cores // 16
    if profile is None:
        units = synthetic(count, chance)
    else:
        units = scaled(list(read_profile(profile).units), count, chance)
    memory = 2 * GIB * cores
    machine = Machine(memory_bytes=memory, cap_bytes=memory - reserve_for(memory), cpus=cores)
    bounds = bounds_for([load_of(u) for u in units], cap_bytes=machine.cap_bytes, cpus=cores)
    expected = off_by(units, error, chance) if error else exactly(units)
    done = replay_governed(units, expected, machine)
    if not isinstance(done, Finished):
        return None
    return Figure(
        ratio=done.makespan_seconds / bounds.best,
        ratio_any=done.makespan_seconds / bounds.of_any_schedule,
        kills=done.kills,
        wasted=done.wasted_seconds / sum(unit.seconds for unit in units),
        peak=done.peak_bytes / machine.cap_bytes,
    )


def main() -> None:
    """Print one line per machine and error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    print(f"profile: {given.profile or 'synthetic'}; {given.seeds} seeds; target {TARGET}")
    print(
        f"{'cores':>5} {'memory':>8} {'error':>6} {'mean':>7} {'max':>7} {'within':>7} {'any':>7}"
        f" {'kills':>6} {'wasted':>7} {'peak':>7} {'died':>5}"
    )
    with ProcessPoolExecutor(given.processes) as pool:
        for cores in CORES:
            for error in (0.0, 0.3):
                tasks = [
                    pool.submit(replay, given.profile, cores, error, seed)
                    for seed in range(given.seeds)
                ]
                figures = [task.result() for task in tasks]
                done = [figure for figure in figures if figure is not None]
                ratios = [figure.ratio for figure in done]
                print(
                    f"{cores:>5} {2 * cores:>4} GiB {error:>6.0%} {fmean(ratios):>7.3f}"
                    f" {max(ratios):>7.3f} {sum(r <= TARGET for r in ratios):>4}/{given.seeds:<2}"
                    f" {fmean(f.ratio_any for f in done):>7.3f}"
                    f" {fmean(f.kills for f in done):>6.1f} {fmean(f.wasted for f in done):>7.2%}"
                    f" {max(f.peak for f in done):>7.1%} {len(figures) - len(done):>5}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
