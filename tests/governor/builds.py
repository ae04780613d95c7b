"""Made-up builds with everything in them: big and small units, pauses, kills, hostile names."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

from buildkit.governor.governed import Governed
from buildkit.governor.report import Report, report_of
from buildkit.records import UnitRecord

#: When the builds started, in seconds since the epoch.
STARTED = 1_790_000_000.0

HOSTILE = '</script><img src=x onerror="document.title=1">&amp;\u202e\x1b[31m.cu'

_MIB = 1 << 20


def a_governed(**changes: Any) -> Governed:
    governed = Governed(
        cap_bytes=14 << 30,
        memory_source="MemTotal",
        cpus=8,
        cpu_source="affinity",
        offered_jobs=8,
        hard_cap="",
        started=STARTED,
        ended=STARTED + 100,
        status="ok",
    )
    return replace(governed, **changes)


def a_record(source: str = "a.cu", **changes: Any) -> UnitRecord:
    record = UnitRecord(
        source=source,
        output=f"{source}.o",
        tool="nvcc",
        decision="pinned",
        start=STARTED,
        wall_seconds=10.0,
        cpu_seconds=9.0,
        peak_bytes=2 << 30,
        status=0,
        flags="f",
        byte_seconds=15.0 * (1 << 30),
        memory=((0.0, 100), (5.0, 2048), (10.0, 1024)),
    )
    return replace(record, **changes)


def a_report(*records: UnitRecord, **changes: Any) -> Report:
    return report_of(
        records, a_governed(**changes), recipe="toy", version="1.0", arch="sm120", roots=("/src",)
    )


@dataclass(frozen=True)
class _Asked:
    name: str
    seconds: float
    peak_mib: int
    number: int = 1


def a_build(count: int, *, cpus: int, cap_gib: int, seed: int = 1) -> Report:
    """A build that keeps its cap, with some calls paused and some killed and repeated."""
    chance = random.Random(seed)
    waiting = [
        _Asked(
            name=f"/src/csrc/kernels/flash_fwd_hdim{chance.choice((64, 128, 256))}_{i}_sm120.cu",
            seconds=min(900.0, chance.lognormvariate(3.6, 1.0)),
            peak_mib=int(min(cap_gib * 700.0, chance.lognormvariate(7.8, 0.8))),
        )
        for i in range(count - 1)
    ]
    waiting.append(_Asked(name=f"/src/{HOSTILE}", seconds=120.0, peak_mib=900))
    waiting.sort(key=lambda asked: -asked.seconds)
    running: list[tuple[float, int, _Asked, UnitRecord]] = []
    records: list[UnitRecord] = []
    now, free, ids = 0.0, cap_gib * 1024, 0
    while waiting or running:
        for asked in list(waiting):
            if len(running) < cpus and (asked.peak_mib <= free or not running):
                record = _run(asked, now, chance)
                ids += 1
                heappush(running, (now + record.wall_seconds, ids, asked, record))
                waiting.remove(asked)
                free -= asked.peak_mib
            if len(running) >= cpus or free < 64:
                break
        now, _, asked, record = heappop(running)
        free += asked.peak_mib
        records.append(record)
        if record.ended:
            waiting.append(replace(asked, number=asked.number + 1))
    return report_of(
        records,
        a_governed(cpus=cpus, cap_bytes=cap_gib << 30, ended=STARTED + now + 30),
        recipe="flash-attn",
        version="2.8.3.post2",
        arch="sm120",
        roots=("/src",),
    )


def _run(asked: _Asked, now: float, chance: random.Random) -> UnitRecord:
    is_killed = asked.number == 1 and chance.random() < 0.03
    share = chance.uniform(0.2, 0.9) if is_killed else 1.0
    paused = chance.uniform(1, 40) if chance.random() < 0.05 else 0.0
    wall = round(asked.seconds * share + paused, 6)
    samples = [
        (
            round(wall * step / 20, 3),
            int(asked.peak_mib * min(1.0, 0.1 + step / 20 * share * chance.uniform(1.0, 1.3))),
        )
        for step in range(21)
    ]
    return a_record(
        asked.name,
        start=STARTED + 2 + now,
        wall_seconds=wall,
        cpu_seconds=(wall - paused) * 0.97,
        peak_bytes=max(held for _, held in samples) * _MIB,
        status=137 if is_killed else 0,
        waited_seconds=now,
        paused_seconds=paused,
        byte_seconds=sum(held for _, held in samples) / 21 * wall * _MIB,
        memory=tuple(samples),
        ended=chance.choice(("governor", "governor", "kernel")) if is_killed else "",
        attempt=asked.number,
    )
