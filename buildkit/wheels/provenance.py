"""What a wheel was made from, written into it: ``buildkit.json`` in its ``.dist-info`` directory.

Holds digests, versions and decisions; no path of the machine, no address with credentials, no time,
so that equal inputs give equal bytes.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any, assert_never

from buildkit import __version__
from buildkit.errors import Location, VerifyError
from buildkit.values import (
    AlreadyUpstream,
    Applied,
    ImportPassed,
    LocalTree,
    PinnedArchive,
    PinnedCommit,
    Unpinned,
)
from buildkit.wheels.rewrite import PROVENANCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.values import (
        GpuCode,
        ImportSkipped,
        Plan,
        ResolvedSource,
        SelectedPatch,
    )

__all__ = [
    "PATCHED",
    "PROVENANCE",
    "outcome_of",
    "read_provenance",
    "render_patched",
    "render_provenance",
]

#: The kind of a wheel that was not built here but published, and patched here.
PATCHED = "patched wheel"

#: Raised when a field changes its meaning.
SCHEMA = 1


def render_provenance(
    plan: Plan,
    outcomes: Sequence[Applied | AlreadyUpstream],
    codes: Sequence[GpuCode],
    imports: ImportPassed | ImportSkipped,
    verdict: str,
) -> bytes:
    """Return the provenance of a wheel as JSON text."""
    already = {outcome.patch for outcome in outcomes if isinstance(outcome, AlreadyUpstream)}
    document = {
        "schema": SCHEMA,
        "kit": __version__,
        "recipe": plan.recipe,
        "version": plan.version,
        "key": plan.key,
        "key_fields": [[field.name, field.value] for field in plan.key_fields],
        "target": plan.arch.name,
        "code": plan.code.name,
        "source": _source(plan.source),
        "sources": {name: _source(source) for name, source in plan.extra_sources},
        "patches": [
            {
                "name": patch.name,
                "sha256": patch.digest,
                "outcome": "already upstream" if patch.name in already else "applied",
            }
            for patch in plan.patches
        ],
        "python": {
            "version": plan.python.version,
            "tag": plan.python.tag,
            "platform": plan.python.platform,
            "libc": plan.python.libc,
        },
        "tools": {
            tool.name: {"version": tool.version, "sha256": tool.digest}
            for tool in plan.toolchain.tools
        },
        "system_packages": {
            package.name: {"version": package.version, "sha256": package.sha256}
            for package in plan.system.packages
        },
        "environment": {"lock": plan.lock.digest, "versions": plan.lock.versions},
        "defines": dict(plan.defines),
        "variables": dict(plan.environment),
        "flag_rules": [f"{rule.language}: {rule.old} -> {rule.new}" for rule in plan.rules],
        "gpu_code": [
            {"library": code.library, "sass": list(code.sass), "ptx": list(code.ptx)}
            for code in codes
        ],
        "imports": {
            "modules": list(imports.modules),
            "outcome": "passed" if isinstance(imports, ImportPassed) else imports.reason,
        },
        "verdict": verdict,
    }
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def render_patched(
    project: str,
    version: str,
    key: str,
    source: PinnedArchive,
    patches: Sequence[SelectedPatch],
    outcomes: Sequence[Applied | AlreadyUpstream],
) -> bytes:
    """Return the provenance of a published wheel that was patched, as JSON text.

    :param patches: All that were looked at; those without an outcome have no meaning there.
    """
    files = {outcome.patch: outcome.files for outcome in outcomes if isinstance(outcome, Applied)}
    rows = [
        {
            "name": patch.name,
            "sha256": patch.digest,
            "outcome": outcome_of(patch.name, outcomes),
            "files": list(files.get(patch.name, ())),
        }
        for patch in patches
    ]
    document = {
        "schema": SCHEMA,
        "kit": __version__,
        "kind": PATCHED,
        "project": project,
        "version": version,
        "key": key,
        "source": _source(source),
        "patches": rows,
    }
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def outcome_of(patch: str, outcomes: Sequence[Applied | AlreadyUpstream]) -> str:
    """Return what became of a patch, in the words of the provenance."""
    for outcome in outcomes:
        if outcome.patch == patch:
            return "applied" if isinstance(outcome, Applied) else "already upstream"
    return "not applicable"


def read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance in a wheel.

    :raises VerifyError: if the file is no wheel, or holds none.
    """
    try:
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(f".dist-info/{PROVENANCE}") and name.count("/") == 1:
                    document: dict[str, Any] = json.loads(wheel.read(name))
                    return document
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise VerifyError(
            f"{path.name} cannot be read as a wheel: {error}.",
            where=Location(file=str(path)),
            remedy="Give the path of a .whl file.",
        ) from error
    raise VerifyError(
        f"{path.name} holds no provenance: buildkit did not make it.",
        where=Location(file=str(path)),
        remedy="`buildkit verify` lists the GPU code of any wheel.",
    )


def _source(source: ResolvedSource) -> dict[str, str]:
    match source:
        case PinnedArchive():
            return {"kind": source.kind, "file": source.filename, "sha256": source.sha256}
        case PinnedCommit():
            return {
                "kind": "git",
                "url": source.url.rpartition("@")[2] if "://" in source.url else source.url,
                "commit": source.commit,
                "subdirectory": source.subdirectory,
            }
        case LocalTree():
            return {"kind": "local", source.method: source.fingerprint}
        case Unpinned():
            return {"kind": "unpinned"}
        case _:
            assert_never(source)
