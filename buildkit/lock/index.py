"""Which file of the package index an installed distribution is.

What enters: names, versions and tags. What leaves: a locked wheel each, with the digest that the
index tells; nothing is downloaded but lists and metadata, and no code of a package runs. uv asks,
so that what was asked before is answered without a network.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from buildkit.digest import digest_file, digest_value
from buildkit.fs import write_atomic
from buildkit.lock.model import Hashes, LockedWheel
from buildkit.sources.settings import redact, without_credentials
from buildkit.toolchain.uv import index_arguments, uv_binary, uv_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildkit.kit import Supply
    from buildkit.lock.inventory import Distribution

__all__ = ["Found", "ask_index"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the index knows."""

    wheels: dict[str, LockedWheel]
    """By name of the distribution."""
    reasons: dict[str, str]
    """Why there is none, for the others."""


def ask_index(distributions: Sequence[Distribution], python: str | Path, supply: Supply) -> Found:
    """Return the file of each distribution.

    :param python: The interpreter, or the environment's directory.
    """
    wheels: dict[str, LockedWheel] = {}
    reasons: dict[str, str] = {}
    if not distributions:
        return Found(wheels=wheels, reasons=reasons)
    listed, told = _compile(distributions, python, supply)
    if listed is None and len(distributions) > 1:
        # uv stops at the first that it cannot find; one by one, all of them are told.
        for item in distributions:
            found = ask_index([item], python, supply)
            wheels |= found.wheels
            reasons |= found.reasons
        return Found(wheels=wheels, reasons=reasons)
    if listed is None:
        reasons[distributions[0].name] = told
        return Found(wheels=wheels, reasons=reasons)
    for item in distributions:
        chosen = _choose(listed.get(item.name, []), item)
        if isinstance(chosen, str):
            reasons[item.name] = chosen
        else:
            wheels[item.name] = chosen
    return Found(wheels=wheels, reasons=reasons)


def _compile(
    distributions: Sequence[Distribution], python: str | Path, supply: Supply
) -> tuple[dict[str, list[Any]] | None, str]:
    """Return the wheels of each project at its version, or None and why not."""
    lines = [f"{item.name}=={item.version}\n" for item in distributions]
    inputs = supply.paths.locks / f"{digest_value(lines)[:24]}.in"
    write_atomic(inputs, "".join(lines).encode())
    try:
        done = supply.runner.capture(
            [
                *(uv_binary(), "pip", "compile", "--quiet", "--no-deps", "--no-build"),
                *("--no-header", "--no-annotate", "--format", "pylock.toml", "--python", python),
                *index_arguments(supply.settings, is_offline=supply.is_offline),
                inputs,
            ],
            env=uv_environment(supply, supply.settings),
            timeout_seconds=600,
        )
    finally:
        inputs.unlink(missing_ok=True)
    try:
        packages = tomllib.loads(done.stdout).get("packages", []) if done.status == 0 else None
    except tomllib.TOMLDecodeError:
        packages = None
    if packages is None:
        return None, render_reason(done.stderr)
    return {package["name"]: package.get("wheels", []) for package in packages}, ""


def render_reason(told: str) -> str:
    """Return uv's explanation on one line, without its decoration and without credentials."""
    plain = told.encode("ascii", "ignore").decode()
    words = " ".join(line.strip() for line in plain.splitlines() if line.strip())
    for lead in ("error: ", "No solution found when resolving dependencies ", "cause: "):
        words = words.removeprefix(lead)
    return redact(words).rstrip(".") or "uv gave no reason"


def _choose(wheels: Sequence[dict[str, Any]], item: Distribution) -> LockedWheel | str:
    """Return the wheel with the tags that are installed, or why there is none."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    names = []
    for wheel in wheels:
        name = _filename(wheel)
        names.append(name)
        try:
            _, _, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        # Wheels whose WHEEL file names other tags than their own name do exist.
        if {str(tag) for tag in tags} == set(item.tags) or len(wheels) == 1:
            return _locked(wheel, name)
    tags_told = ", ".join(item.tags) or "unknown tags"
    return f"the index has {', '.join(names) or 'no wheel'}, installed is one for {tags_told}"


def _locked(wheel: dict[str, Any], name: str) -> LockedWheel | str:
    address = str(wheel.get("url", wheel.get("path", "")))
    parts = urlsplit(address)
    is_local = parts.scheme in ("", "file")
    digest = wheel.get("hashes", {}).get("sha256")
    if digest is None and is_local:
        try:
            digest = digest_file(Path(unquote(parts.path)))
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    if digest is None:
        return f"the index tells no sha256 of {name}"
    return LockedWheel(
        name=name,
        hashes=Hashes(sha256=digest),
        url=None if is_local else without_credentials(address),
        path=name if is_local else None,
        size=wheel.get("size"),
    )


def _filename(wheel: dict[str, Any]) -> str:
    address = str(wheel.get("url", wheel.get("path", "")))
    return str(wheel.get("name") or unquote(urlsplit(address).path).rpartition("/")[2])
