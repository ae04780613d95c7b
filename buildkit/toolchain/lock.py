"""Locks: ranges of requirements, resolved once to exact versions with hashes.

A lock is a requirements file in pip's hash-checking mode that serves every Python and platform
(its lines carry environment markers) and names no host. Its first line holds a digest of the
requirements that it was resolved for, so that a recipe whose ranges changed cannot be built from a
stale lock. Comment lines ``# bytes NAME COUNT`` hold the size of the largest wheel to fetch.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from buildkit.digest import digest_bytes, digest_value
from buildkit.errors import Location, RecipeError, ToolchainError
from buildkit.fs import write_atomic
from buildkit.toolchain.memo import remembered
from buildkit.toolchain.uv import index_arguments, uv_binary, uv_environment
from buildkit.values import EnvLock, LockedPackage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.values import IndexSettings, PythonIdentity

__all__ = [
    "FIRST_PYTHON",
    "download_bytes",
    "is_current",
    "parse_packages",
    "parse_versions",
    "read_lock",
    "resolve_for_user",
    "resolve_lock",
    "user_lock_name",
]

#: The oldest Python that a lock serves.
FIRST_PYTHON = "3.10"

_HEADER = "# buildkit lock 1 sha256:"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*([^\\]*?))?\s*\\?$", re.MULTILINE)
_BLOCK = re.compile(r"^[A-Za-z0-9].*(?:\n[ \t]+.*)*", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_BYTES = re.compile(r"^# bytes (\S+) (\d+)$", re.MULTILINE)


def read_lock(
    file: Path, requirements: Sequence[str], python: PythonIdentity, *, name: str, memo: Path
) -> EnvLock:
    """Return the lock of a recipe as it applies to one interpreter.

    :param name: What the user calls the recipe, for the advice in an error.
    :raises RecipeError: if the lock is missing, or was resolved for other requirements.
    """
    remedy = f"Run `buildkit pin {name} --upgrade`, which resolves and writes it."
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RecipeError(
            f"The lock of the build environment cannot be read: {reason}.",
            where=Location(file=str(file)),
            remedy=remedy,
        ) from error
    if not is_current(text, requirements):
        raise RecipeError(
            f"The lock was resolved for other requirements than {', '.join(sorted(requirements))}.",
            where=Location(file=str(file), line=1),
            remedy=remedy,
        )
    question = f"lock-{python.tag}-{python.platform}"
    versions = remembered(memo, question, file, lambda: parse_versions(text, python))
    return EnvLock(text=text, digest=digest_bytes(text.encode()), versions=versions)


def is_current(text: str, requirements: Sequence[str]) -> bool:
    """Tell whether a lock was resolved for these requirements."""
    return text.startswith(_first_line(requirements))


def resolve_lock(requirements: Sequence[str], supply: Supply) -> str:
    """Resolve requirements to the text of a lock.

    The default index decides alone; the user's extra indexes and link directories take part only
    if it cannot meet the requirements, since what they hold need not be what others can fetch.

    :raises ToolchainError: if no set of versions meets the requirements.
    """
    import dataclasses

    settings = supply.settings
    plain = dataclasses.replace(settings, extra_index_urls=(), find_links=())
    resolve = _Resolver(requirements, supply)
    chosen = plain
    status, text, told = resolve.compile(plain, "requirements.txt")
    if status != 0 and plain != settings:
        chosen = settings
        status, text, told = resolve.compile(settings, "requirements.txt")
    if status != 0:
        raise ToolchainError(
            f"The requirements {', '.join(sorted(requirements))} cannot be resolved:"
            f" {_reason(told)}.",
            remedy="Loosen a range of build.requires, or look at the index that pip is set up for.",
        )
    _, pylock, _ = resolve.compile(chosen, "pylock.toml")
    lines = [_first_line(requirements)]
    lines += [f"# bytes {name} {size}" for name, size in sorted(_sizes(pylock).items())]
    return "\n".join([*lines, text.strip(), ""])


def resolve_for_user(
    requirements: Sequence[str], python: PythonIdentity, supply: Supply
) -> EnvLock:
    """Return the lock of requirements that a user has narrowed; resolved once per set.

    :raises ToolchainError: if no set of versions meets the requirements.
    """
    name = user_lock_name(requirements)
    file = supply.paths.locks / f"{name}.lock"
    if not file.exists():
        mirrored = supply.mirror and supply.mirror.lock(name)
        write_atomic(file, (mirrored or resolve_lock(requirements, supply)).encode())
    return read_lock(file, requirements, python, name="NAME", memo=supply.paths.memo)


def user_lock_name(requirements: Sequence[str]) -> str:
    """Return what the lock of a user's own requirements is called."""
    return digest_value(sorted(requirements))[:24]


def parse_packages(lock: EnvLock) -> tuple[LockedPackage, ...]:
    """Return what a lock allows for each project that its interpreter takes."""
    from packaging.utils import canonicalize_name

    found = []
    for block in _BLOCK.findall(lock.text):
        pinned = _PINNED.match(block)
        if pinned is None:
            continue
        name = str(canonicalize_name(pinned[1]))
        # A lock may hold a project twice, for different markers.
        if lock.versions.get(name) == pinned[2]:
            digests = frozenset(_HASH.findall(block))
            found.append(LockedPackage(name=name, version=pinned[2], digests=digests))
    return tuple(found)


def parse_versions(text: str, python: PythonIdentity) -> dict[str, str]:
    """Return the version of each project of a lock that an interpreter takes."""
    from packaging.markers import Marker
    from packaging.utils import canonicalize_name

    major_minor = ".".join(python.version.split(".")[:2])
    machine = python.platform.split("_", 1)[-1]
    setting = {
        "python_version": major_minor,
        "python_full_version": python.version,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
        "extra": "",
    }
    found = {}
    for name, version, marker in _PINNED.findall(text):
        if not marker or Marker(marker).evaluate(setting):
            found[str(canonicalize_name(name))] = version
    return found


def download_bytes(lock: EnvLock) -> int:
    """Return the bytes to fetch for a lock, at most; 0 when the lock does not tell."""
    sizes = {name: int(size) for name, size in _BYTES.findall(lock.text)}
    return sum(sizes.get(name, 0) for name in lock.versions)


class _Resolver:
    """Calls uv for one set of requirements, in the formats that are wanted."""

    def __init__(self, requirements: Sequence[str], supply: Supply) -> None:
        self._requirements = requirements
        self._supply = supply

    def compile(self, settings: IndexSettings, form: str) -> tuple[int, str, str]:
        """Return status, text and messages."""
        inputs = self._supply.paths.locks / f"{digest_value(sorted(self._requirements))[:24]}.in"
        write_atomic(inputs, "".join(f"{line}\n" for line in self._requirements).encode())
        try:
            done = self._supply.runner.capture(
                [
                    *(uv_binary(), "pip", "compile", "--quiet", "--universal", "--no-header"),
                    *("--no-annotate", "--generate-hashes", "--python-version", FIRST_PYTHON),
                    *("--no-emit-index-url", "--format", form),
                    *index_arguments(settings, is_offline=self._supply.is_offline),
                    inputs,
                ],
                env=uv_environment(self._supply, settings),
                timeout_seconds=600,
            )
        finally:
            inputs.unlink(missing_ok=True)
        return done.status, done.stdout, done.stderr


def _first_line(requirements: Sequence[str]) -> str:
    return f"{_HEADER}{digest_value(sorted(requirements))}"


def _sizes(pylock: str) -> dict[str, int]:
    """Return the size of the largest Linux wheel of each project. Source: PEP 751, ``size``."""
    sizes: dict[str, int] = {}
    try:
        packages: list[Any] = tomllib.loads(pylock).get("packages", [])
    except tomllib.TOMLDecodeError:
        return {}
    for package in packages:
        for wheel in package.get("wheels", ()):
            name = str(wheel.get("url", wheel.get("path", "")))
            if "manylinux" in name or "-any" in name or "linux_" in name:
                known = sizes.get(package["name"], 0)
                sizes[package["name"]] = max(known, int(wheel.get("size", 0)))
    return {name: size for name, size in sizes.items() if size}


def _reason(told: str) -> str:
    """Return uv's explanation on one line, without its decoration."""
    plain = told.encode("ascii", "ignore").decode()
    words = " ".join(line.strip() for line in plain.splitlines() if line.strip())
    return words.rstrip(".") or "no reason was given"
