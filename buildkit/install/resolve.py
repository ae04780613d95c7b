"""What an installation would change: one resolution for everything that is asked for.

What enters: wishes and what is installed. What leaves: the changes, or one error that says who
disagrees with whom. uv resolves, with what installed packages require as constraints; where that
has no solution it is asked again without them, because they may be about to change themselves.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buildkit.digest import digest_file
from buildkit.errors import InstallError, Location
from buildkit.install.claims import Claim, broken, claims_of, disagreements
from buildkit.lock.contents import contents_of_wheel, digest_of_rows, parse_record_digest
from buildkit.lock.index import render_reason
from buildkit.lock.install import is_full
from buildkit.toolchain.uv import call_pip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from buildkit.install.place import Place, Present
    from buildkit.install.wishes import Wish
    from buildkit.kit import Supply
    from buildkit.run import Completed

__all__ = ["Change", "fill", "resolve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one distribution."""

    name: str
    before: str | None
    """Version that is installed; None if it is not."""
    after: str | None
    """Version that will be; None if it goes."""

    def __str__(self) -> str:
        match self.before, self.after:
            case None, _:
                return f"{self.name} {self.after}"
            case _, None:
                return f"{self.name} {self.before} goes"
            case _ if self.before == self.after:
                return f"{self.name} {self.after}, anew"
            case _:
                return f"{self.name} {self.before} -> {self.after}"


def resolve(
    wishes: Sequence[Wish], present: Mapping[str, Present], place: Place, supply: Supply
) -> tuple[Change, ...]:
    """Return what would change; changes nothing.

    :raises InstallError: if the wishes cannot be met, or something installed would be broken.
    """
    before = {name: item.version for name, item in present.items()}
    kept = {
        name: tuple(claims_of(f"{name} {item.version} (installed)", item.requires, place.markers))
        for name, item in present.items()
        if name not in {wish.project for wish in wishes}
    }
    sound = [claim for claims in kept.values() for claim in claims if not broken([claim], before)]
    changes = _ask(wishes, sound, present, place, supply)
    if isinstance(changes, str) and sound:
        changes = _ask(wishes, (), present, place, supply)
    if isinstance(changes, str):
        raise _explain(wishes, place, changes, is_offline=supply.is_offline)
    changed = {change.name for change in changes}
    after = before | {change.name: change.after or "" for change in changes}
    staying = [claim for name in kept.keys() - changed for claim in kept[name] if claim in sound]
    lost = broken(staying, {name: version for name, version in after.items() if version})
    if lost:
        raise _would_break(lost, wishes, after, place)
    return changes


def fill(
    folder: Path,
    changes: Sequence[Change],
    wishes: Sequence[Wish],
    place: Place,
    supply: Supply,
) -> None:
    """Put every file of what is new below a directory, as if it was the environment.

    :raises InstallError: if one cannot be had.
    """
    made = {wish.project for wish in wishes}
    lines = [
        f"{change.name}=={change.after}"
        for change in changes
        if change.after is not None and change.name not in made
    ]
    changed = {change.name for change in changes}
    done = _call(
        [*lines, *_lines(wish for wish in wishes if wish.project in changed)],
        wishes,
        ("--no-deps", "--link-mode", "copy", "--prefix", folder),
        place,
        supply,
        is_pinned=True,
    )
    if done.status != 0:
        remedy = "See what the index answers, and try again."
        if is_full(done):
            remedy = "Free some space, and try again."
        raise InstallError(
            f"It cannot be installed: {render_reason(done.stderr)}.",
            where=Location(file=str(place.root)),
            remedy=f"The environment is as it was. {remedy}",
        )


def _ask(
    wishes: Sequence[Wish],
    constraints: Sequence[Claim],
    present: Mapping[str, Present],
    place: Place,
    supply: Supply,
) -> tuple[Change, ...] | str:
    """Return what uv would change, or why it finds no way."""
    lines = [*_lines(wishes), *(f"torch=={wish.torch}" for wish in wishes if wish.torch)]
    again = [
        f"--reinstall-package={wish.project}"
        for wish in wishes
        if wish.wheel is not None
        and wish.project in present
        and not _brings_same(wish.wheel, present[wish.project])
    ]
    with tempfile.TemporaryDirectory(prefix="buildkit-install-") as folder:
        file = Path(folder) / "constraints.txt"
        limits = sorted({f"{claim.project}{claim.specifier}\n" for claim in constraints})
        file.write_text("".join(limits))
        switches: tuple[str | Path, ...] = (
            "--dry-run",
            "--output-format",
            "json",
            "--constraints",
            file,
            *again,
        )
        done = _call(lines, wishes, switches, place, supply, is_pinned=False)
    if done.status != 0:
        return render_reason(done.stderr)
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)["changes"]
    except (ValueError, KeyError, TypeError):
        raise InstallError(
            "The kit's uv does not say what it would change.",
            remedy="Install the kit again: `pip install --upgrade uv`.",
        ) from None
    after = {row["name"]: row["version"] for row in rows if row["action"] == "installed"}
    gone = {row["name"] for row in rows if row["action"] == "uninstalled"}
    return tuple(
        Change(
            name=name,
            before=present[name].version if name in present else None,
            after=after.get(name),
        )
        for name in sorted(after.keys() | gone)
    )


def _call(
    lines: Sequence[str],
    wishes: Sequence[Wish],
    switches: Sequence[str | Path],
    place: Place,
    supply: Supply,
    *,
    is_pinned: bool,
) -> Completed:
    """Call uv with the wheels of wishes in a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="buildkit-install-") as name:
        folder = Path(name)
        for wish in wishes:
            if wish.wheel is not None:
                (folder / wish.wheel.name).symlink_to(wish.wheel)
        file = folder / "requirements.txt"
        file.write_text("".join(f"{line}\n" for line in lines))
        arguments = ("--python", place.python, "--no-build", *switches, "--requirements", file)
        return call_pip("install", arguments, supply, folders=(folder,), is_pinned=is_pinned)


def _lines(wishes: Iterator[Wish] | Sequence[Wish]) -> Iterator[str]:
    """Yield the requirement of each wheel: that version, and those bytes."""
    for wish in wishes:
        if wish.wheel is not None:
            digest = digest_file(wish.wheel)
            yield f"{wish.project}=={wish.version} --hash=sha256:{digest}"
        elif wish.is_published:
            yield f"{wish.project}=={wish.version}"


def _brings_same(wheel: Path, present: Present) -> bool:
    """Tell whether a distribution was installed from this wheel, by the list of its files."""
    import csv
    import io

    text = present.record.read_text("RECORD") or ""
    rows = {}
    for row in csv.reader(io.StringIO(text)):
        digest = parse_record_digest(row[1]) if len(row) > 1 and row[1] else None
        if digest is not None:
            rows[row[0]] = digest
    info = next((name.partition("/")[0] for name in rows if ".dist-info/" in name), "")
    return contents_of_wheel(wheel) == digest_of_rows(rows, info)


# --- who disagrees --------------------------------------------------------------------------------


def _demands(wishes: Sequence[Wish], place: Place) -> list[Claim]:
    """Return what the wishes require, and what they are themselves."""
    found = []
    for wish in wishes:
        if wish.torch_claim is not None:
            found.append(wish.torch_claim)
        found += claims_of(str(wish), wish.requires, place.markers)
    return found


def _explain(
    wishes: Sequence[Wish], place: Place, reason: str, *, is_offline: bool
) -> InstallError:
    """Return the error for wishes that cannot be met together."""
    demands = _demands(wishes, place)
    versions = {wish.project: wish.version for wish in wishes}
    unmet = broken([claim for claim in demands if claim.project in versions], versions)
    told = [f"{claim}, and found {claim.project} {versions[claim.project]}" for claim in unmet]
    told += [f"{first}, and {second}" for first, second in disagreements(demands)]
    remedy = "Choose versions that go together."
    if not told:
        told = [reason]
        remedy = "See what the index holds; wheels that it lacks may lie in PIP_FIND_LINKS."
        if is_offline:
            remedy = "Run it once without --offline, so that what it needs is fetched."
    listed = "; ".join(dict.fromkeys(told))
    return InstallError(
        f"What was asked for cannot be installed together: {listed}.",
        remedy=f"The environment is as it was. {remedy}",
    )


def _would_break(
    lost: Sequence[Claim], wishes: Sequence[Wish], after: Mapping[str, str], place: Place
) -> InstallError:
    """Return the error for an installed distribution that would lose what it requires."""
    demands = _demands(wishes, place)
    told = []
    for claim in sorted(lost, key=str):
        against = [
            str(demand)
            for demand in demands
            if demand.project == claim.project and demand.specifier
        ]
        against += [str(wish) for wish in wishes if wish.project == claim.project]
        other = against[0] if against else f"what was asked for needs {after[claim.project]}"
        told.append(f"{claim}, and {other}")
    return InstallError(
        f"An installed package would be broken: {'; '.join(told)}.",
        where=Location(file=str(place.root)),
        remedy="The environment is as it was. Choose another version or another environment, or"
        " uninstall what you do not need.",
    )
