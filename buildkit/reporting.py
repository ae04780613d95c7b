"""The story of ``report``: what the last build of a recipe did, from the files in its slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildkit.errors import JobError, Location, RequestError
from buildkit.fs import write_atomic
from buildkit.governor.governed import read_governed
from buildkit.governor.report import report_of
from buildkit.launcher import read_records
from buildkit.make import draft
from buildkit.prepare import slot_of

if TYPE_CHECKING:
    from pathlib import Path

    from buildkit.governor.report import Report
    from buildkit.kit import Kit
    from buildkit.request import Request

__all__ = ["place_text", "report_last"]


def report_last(request: Request, kit: Kit) -> Report:
    """Return the report of a recipe's last build for a target, also of one that failed.

    :raises RequestError: if it was not built here, or its slot was removed.
    """
    plan = draft(request, kit).plan
    slot = slot_of(kit.paths, plan)
    governed = read_governed(slot.governed)
    return report_of(
        read_records(slot.records, first_line=governed.first_record),
        governed,
        recipe=plan.recipe,
        version=plan.version,
        arch=plan.arch.name,
        roots=(str(slot.source), str(slot.build), str(slot.root)),
    )


def place_text(text: str, file: Path, *, option: str) -> None:
    """Put a text into a file of the user, whole or not at all.

    :param option: The flag that named the file, for the message.
    :raises RequestError: if something other than a file stands there.
    :raises JobError: if it cannot be written; what was there stays.
    """
    try:
        # What a link points to is written, not the link; a device or pipe would be replaced.
        target = file.resolve()
        if target.exists() and not target.is_file():
            raise RequestError(
                f"Found {str(file)!r}, which is no file; allowed a file's name.",
                where=Location(file="command line", key=option),
                remedy="Give the name of a file.",
            )
        write_atomic(target, text.encode())
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise JobError(
            f"File {str(file)!r} of {option} cannot be written: {reason}.",
            remedy="Give another one.",
        ) from error
