"""The story of ``profile``: what the calls of the last make took becomes reviewed data."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from buildkit.errors import Location, RequestError
from buildkit.governor.profile import profile_of, render_profile
from buildkit.launcher import read_records
from buildkit.make import draft
from buildkit.prepare import slot_of
from buildkit.records import HIT

if TYPE_CHECKING:
    from buildkit.kit import Kit
    from buildkit.request import Request

__all__ = ["profile_last"]


def profile_last(request: Request, kit: Kit) -> str:
    """Return the text of the profile of a recipe's last make for a target.

    :raises RequestError: if it was not made here, or its slot was removed.
    """
    drafted = draft(request, kit)
    plan = drafted.plan
    slot = slot_of(kit.paths, plan)
    # Names relative to the build: a profile is for other machines too.
    records = [
        replace(record, output=record.output.removeprefix(f"{slot.build}/"))
        for record in read_records(slot.records)
        if (record.source or record.output) and record.objects != HIT
    ]
    if not records:
        raise RequestError(
            f"No make of {plan.recipe} {plan.version} for {plan.arch.name} left records of compiled"
            f" units in {slot.root}.",
            where=Location(file="command line"),
            remedy="Make it first; with --clean and --object-cache off if objects are kept.",
        )
    compilers = {tool.name: tool.version for tool in plan.toolchain.tools}
    name = "nvcc" if "nvcc" in compilers else "gcc"
    recorded = f"on {drafted.capacity.cpus} CPUs, {date.fromtimestamp(records[-1].start)}"
    profile = profile_of(
        records,
        root=str(slot.source),
        recipe=plan.recipe,
        version=plan.version,
        arch=plan.arch.name,
        compiler=f"{name} {compilers[name]}",
        recorded=recorded,
    )
    return render_profile(profile)
