"""Wheels in a cache that agree with themselves, as a make would have stored them."""

from __future__ import annotations

import json
from pathlib import Path

from buildkit.cache import store_wheel
from buildkit.digest import digest_file
from buildkit.paths import Paths
from buildkit.plan import plan_make
from buildkit.values import CacheEntry, GpuCode, ImportPassed, Plan, VerifiedWheel
from buildkit.wheels import read_wheel, rewrite_wheel
from tests.builders import a_patch, a_recipe, a_request, some_facts
from tests.wheels.toy import a_wheel


def a_plan(*patches: str, **changes: object) -> Plan:
    recipe = a_recipe(**changes)
    facts = some_facts(patches=tuple(a_patch(name) for name in patches))
    return plan_make(recipe, recipe.versions[0], a_request(), facts)


def a_verified(folder: Path, plan: Plan) -> VerifiedWheel:
    path = rewrite_wheel(
        read_wheel(a_wheel(folder / "in")),
        folder / "out" / plan.key,
        label=plan.local_version,
        pins={},
        provenance=json.dumps({"key": plan.key}).encode(),
    )
    return VerifiedWheel(
        path=path,
        sha256=digest_file(path),
        gpu_code=(GpuCode(library="a.so", sass=("sm_120a",), ptx=()),),
        imports=ImportPassed(modules=("toy",)),
    )


def stored(root: Path, folder: Path, *patches: str, **changes: object) -> CacheEntry:
    """Store the wheel of a recipe with some patches, and return its entry."""
    plan = a_plan(*patches, **changes)
    return store_wheel(Paths(root), plan, a_verified(folder, plan))
