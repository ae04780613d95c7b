"""``buildkit cache size`` and ``gc``: parse, call one story, print."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from buildkit.cli.options import json_option, kit_from
from buildkit.errors import Location, RequestError
from buildkit.sizes import parse_size, render_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from buildkit.cache.gc import Item, Removal, Room
    from buildkit.paths import Paths

__all__ = ["gc", "render_ago", "render_rows", "size"]


@click.command()
@json_option
def size(as_json: bool) -> None:
    """Say what the cache holds of each kind, and how much of the disk it takes.

    A file that two kinds share, such as uv's and an environment's, counts in both, and once in the
    total.

    Example: buildkit cache size
    """
    from buildkit.cache.gc import measure
    from buildkit.cache.store import require_access

    with kit_from((), as_json=as_json) as kit:
        require_access(kit.paths)
        now = time.time()
        total_bytes, rooms = measure(kit.paths, now_seconds=now)
    if as_json:
        rows = [
            {
                "kind": room.kind,
                "count": room.count,
                "size_bytes": room.size_bytes,
                "used_seconds": room.used_seconds,
            }
            for room in rooms
        ]
        document = {"cache": str(kit.paths.root), "size_bytes": total_bytes, "kinds": rows}
        click.echo(json.dumps(document, indent=1))
        return
    if rooms:
        head = ("KIND", "COUNT", "SIZE", "LAST USED")
        click.echo(render_rows([head, *(_row(room, now) for room in rooms)]))
    click.echo(f"{render_size(total_bytes)} in {kit.paths.root}")


@click.command()
@click.option("--max-size", metavar="SIZE", help="What may stay at most, such as 50GiB.")
@click.option("--keep-days", metavar="DAYS", help="What was not used for longer goes.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only say what would go.")
@click.option("-v", "--verbose", is_flag=True, help="Name each thing that goes.")
@json_option
def gc(
    max_size: str | None, keep_days: str | None, is_dry: bool, verbose: bool, as_json: bool
) -> None:
    """Remove from the cache what was not used for long, or what is too much.

    Wheels, downloads, git mirrors, environments, toolkits, unpacked packages of the system and
    their lists, build slots, compiled objects and uv's files; `buildkit cache size` shows them.
    What a running make or shell uses stays. For room, build slots go first and wheels last.

    Example: buildkit cache gc --max-size 50GiB --keep-days 30
    """
    from buildkit.cache.gc import choose, scan, total_bytes
    from buildkit.cache.store import require_access

    max_bytes, keep_seconds = _size(max_size), _seconds(keep_days)
    if max_size is None and keep_days is None:
        raise RequestError(
            "Found no limit, allowed --max-size, --keep-days or both.",
            where=Location(file="command line"),
            remedy="Say for example --max-size 50GiB --keep-days 30.",
        )
    busy: list[Item] = []

    def told(removal: Removal, is_gone: bool) -> None:
        if not is_gone:
            busy.append(removal.item)
        elif verbose and not as_json:
            click.echo(_removal_line(removal))

    with kit_from((), as_json=as_json) as kit:
        require_access(kit.paths)
        now = time.time()
        items = scan(kit.paths, now_seconds=now)
        chosen = choose(items, now_seconds=now, max_bytes=max_bytes, keep_seconds=keep_seconds)
        if is_dry:
            gone = chosen
            for removal in chosen:
                told(removal, True)
        else:
            gone = _remove(chosen, kit.paths, told)
            for item in busy:
                kit.events.warning(f"{item.path} is in use, and stays.")
    before = total_bytes(items)
    paths = {removal.item.path for removal in gone}
    after = total_bytes([item for item in items if item.path not in paths])
    if as_json:
        click.echo(json.dumps(_gc_document(gone, busy, before, after, is_dry), indent=1))
        return
    click.echo(_render_gc(items, gone, before, after, is_dry))


def _remove(
    chosen: Sequence[Removal], paths: Paths, told: Callable[[Removal, bool], None]
) -> tuple[Removal, ...]:
    """Remove what was chosen.

    :raises CacheError: if the cache cannot be written; what is gone by then was told.
    """
    from buildkit.cache.gc import remove_items
    from buildkit.cache.store import require_access, unusable

    if chosen:
        require_access(paths, is_written=True)
    try:
        return remove_items(chosen, told=told)
    except OSError as error:
        raise unusable(paths, error) from error


# --- values of options ----------------------------------------------------------------------------


def _size(text: str | None) -> int | None:
    if text is None or text.strip() == "0":
        return None if text is None else 0
    try:
        return parse_size(text)
    except ValueError as error:
        raise RequestError(
            f"A size: {error}.",
            where=Location(file="command line", key="--max-size"),
            remedy="Correct it and try again.",
        ) from error


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise RequestError(
            f"Found {text!r}, allowed a number of days from 0.",
            where=Location(file="command line", key="--keep-days"),
            remedy="Correct it and try again.",
        )
    return days * 86400


# --- output ---------------------------------------------------------------------------------------


def render_rows(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(room: Room, now: float) -> tuple[str, ...]:
    name = "notes, which stay" if room.kind == "notes" else room.kind
    used = f"{render_ago(now - room.used_seconds)} ago"
    return name, str(room.count), render_size(room.size_bytes), used


def render_ago(seconds: float) -> str:
    """Return a duration in its largest whole unit; a clock of another host may be ahead of ours."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def _removal_line(removal: Removal) -> str:
    item = removal.item
    return f"{item.kind:<12} {render_size(removal.freed_bytes):>10}  {item.path} ({removal.reason})"


def _render_gc(
    items: Sequence[Item], gone: Sequence[Removal], before: int, after: int, is_dry: bool
) -> str:
    counts = Counter(removal.item.kind for removal in gone)
    known = Counter(item.kind for item in items)
    lines = [f"{kind:<12} {counts[kind]} of {count} go" for kind, count in sorted(known.items())]
    verb = "would be removed" if is_dry else "removed"
    freed = render_size(before - after)
    lines.append(f"{len(gone)} {verb}, {freed} of {render_size(before)}; {render_size(after)} stay")
    return "\n".join(lines)


def _gc_document(
    gone: Sequence[Removal], busy: Sequence[Item], before: int, after: int, is_dry: bool
) -> dict[str, object]:
    return {
        "removed": [
            {
                "kind": removal.item.kind,
                "path": str(removal.item.path),
                "freed_bytes": removal.freed_bytes,
                "reason": removal.reason,
            }
            for removal in gone
        ],
        "in_use": [str(item.path) for item in busy],
        "before_bytes": before,
        "after_bytes": after,
        "dry_run": is_dry,
    }
