"""The Python side of the native programs: where they lie, what they are told, what they report.

``bk-launch`` stands before every compiler call of a build; ``bk-isolate`` runs the build without
network. What enters: a target, rules, tools. What leaves: a configuration text, command lines, and
the records of calls. How they work is told in ``buildkit/native``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from buildkit.arch import TARGETS, parse_arch, pins
from buildkit.environ import base_environment
from buildkit.errors import RecipeError, ToolchainError
from buildkit.records import UnitRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from buildkit.arch import GpuArch
    from buildkit.run import Runner
    from buildkit.values import FlagRule

__all__ = [
    "Admission",
    "Engine",
    "Isolation",
    "binary",
    "isolated",
    "probe_isolation",
    "read_records",
    "render_config",
    "source_digest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What the system allows a build to be kept from."""

    network: bool
    """It runs in a network namespace."""
    pid: bool
    """It runs in a process namespace, which ends with it."""

    @property
    def description(self) -> str:
        """What a plan says of it."""
        return "no network" if self.network else "network open: no namespaces here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How the compiler calls of a build are let in."""

    folder: Path
    """Holds the governor's socket and the lock slots."""
    knowledge: Path
    """What is known of the build's units; names the build to the governor."""
    slots: int
    """Calls at the same time when no governor answers."""
    cap_bytes: int
    """What all calls together may hold."""
    jobs: int
    """Calls that the build tool offers at the same time: its ``-j``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A cache of objects, between ``bk-launch`` and ``bk-admit``. See ``buildkit/native``."""

    program: Path
    variables: Mapping[str, str]
    """What it is told with each call."""
    reserved: str
    """Start of the names of its variables; a build may set none of them."""
    identity: str
    """Its variable that takes what else makes a call this call."""
    identity_prefix: str
    """What stands before that in the variable."""
    afresh: str
    """Its variable that makes it compile, whatever it has."""
    toolchain: str
    """Digest of the compilers and of all that they call."""
    search: tuple[str, ...]
    """Directories in which the compilers look for headers by themselves."""


def binary(name: Literal["bk-launch", "bk-admit", "bk-isolate"]) -> Path:
    """Return the path of a native program.

    In an editable install the program lies in site-packages and the package in the checkout; the
    package's search path names both.

    :raises ToolchainError: if it was not installed.
    """
    from pathlib import Path

    import buildkit

    for folder in buildkit.__path__:
        program = Path(folder) / "bin" / name
        if program.is_file():
            return program
    raise ToolchainError(
        f"The program {name}, which comes with the kit, is missing in {buildkit.__path__[0]}.",
        remedy="Install the kit with `pip install .`; its native part is built then.",
    )


def source_digest() -> str:
    """Return the digest of the sources of the native programs, as their build wrote it down.

    Of the sources and not of the program: two hosts that compiled it may share a cache.

    :raises ToolchainError: if the native programs were not installed.
    """
    file = binary("bk-launch").with_name("native.sha256")
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        raise ToolchainError(
            f"The file {file.name}, which comes with the kit, is missing in {file.parent}.",
            remedy="Install the kit with `pip install .`; its native part is built then.",
        ) from None


def probe_isolation(runner: Runner, environment: Mapping[str, str]) -> Isolation:
    """Ask the system what it allows."""
    done = runner.capture(
        [binary("bk-isolate"), "--probe"], env=base_environment(environment), timeout_seconds=30
    )
    words = done.stdout.split()
    return Isolation(network="network" in words, pid="pid" in words)


def isolated(
    argv: Sequence[str], isolation: Isolation, *, entrance: Path | None = None
) -> list[str]:
    """Return the command line that runs a command as isolated as the system allows.

    :param entrance: The ``cgroup.procs`` file of a control group to run it in.
    """
    flags = [
        *(["--cgroup", str(entrance)] if entrance is not None else []),
        *(["--no-network"] if isolation.network else []),
        *(["--pid"] if isolation.pid else []),
    ]
    return [str(binary("bk-isolate")), *flags, "--", *argv]


def render_config(
    *,
    target: GpuArch,
    without_code: Literal["keep", "replace", "drop"],
    rules: Sequence[FlagRule],
    tools: Mapping[str, Path],
    records: Path,
    admission: Admission | None = None,
    maps: Sequence[tuple[Path, str]] = (),
    engine: Engine | None = None,
) -> str:
    """Return what ``BK_LAUNCH_CONFIG`` has to hold.

    :param tools: Compilers and build tools by the name of their shim.
    :param maps: Directories, and the names that stand for them in objects; the first that fits
        counts.
    :param admission: None lets every call start at once.
    :raises RecipeError: if a value holds a line end or a tab, which the format has no room for.
    """
    lines = [f"gencode {target.gencode}", f"without-code {without_code}"]
    for code in map(parse_arch, TARGETS):
        if pins(code, target):
            lines += [f"accept {code.sm}", f"accept lto_{code.number}{code.variant}"]
    for rule in rules:
        _refuse_control(rule.old + rule.new, "a flag rule")
        lines.append(f"rule {rule.language}\t{rule.old}\t{rule.new}")
    for name, path in tools.items():
        _refuse_control(str(path), "the path of a compiler")
        lines.append(f"tool {name}\t{path}")
    for folder, name in maps:
        _refuse_control(str(folder), "the path of a directory")
        lines.append(f"map {folder}\t{name}")
    _refuse_control(str(records), "the path of the cache")
    lines.append(f"records {records}")
    if admission is not None:
        lines += [
            f"governor {admission.folder}",
            f"build {admission.knowledge}",
            f"slots {admission.slots}",
            f"jobs {admission.jobs}",
        ]
    if engine is not None:
        lines += _engine_lines(engine)
    return "\n".join([*lines, ""])


def _engine_lines(engine: Engine) -> Iterator[str]:
    for text in (str(engine.program), *engine.variables.values(), *engine.search):
        _refuse_control(text, "the path of the cache of objects")
    yield f"engine {engine.program}"
    for name, value in engine.variables.items():
        yield f"engine-variable {name}\t{value}"
    yield f"engine-reserved {engine.reserved}"
    yield f"engine-identity {engine.identity}\t{engine.identity_prefix}"
    yield f"engine-afresh {engine.afresh}"
    yield f"engine-toolchain {engine.toolchain}"
    for folder in engine.search:
        yield f"engine-search {folder}"


def read_records(path: Path, *, first_line: int = 0) -> tuple[UnitRecord, ...]:
    """Return the records of a slot, oldest first; lines that a kill tore are left out.

    :param first_line: Lines before it, counted from 0, are left out too.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(_records(lines[first_line:]))


def _records(lines: Sequence[bytes]) -> Iterator[UnitRecord]:
    for line in lines:
        try:
            fields = json.loads(line)
            if "memory" in fields:
                fields["memory"] = tuple((float(when), int(mib)) for when, mib in fields["memory"])
            yield UnitRecord(**fields)
        except (ValueError, TypeError, OverflowError):
            continue


def _refuse_control(text: str, what: str) -> None:
    if any(mark in text for mark in "\n\r\t\0"):
        raise RecipeError(
            f"A line end or tab stands in {what}: found {text!r}.", remedy="Take it out."
        )
