"""The interpreter that a wheel is built for.

What enters: a version, a path, an environment, or nothing (the interpreter that runs the kit).
What leaves: a :class:`~buildkit.values.PythonIdentity`, and the headers' directory. Installs no
interpreter.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_bytes
from buildkit.environ import base_environment
from buildkit.errors import ToolchainError
from buildkit.toolchain.memo import remembered
from buildkit.values import PythonIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.run import Runner

__all__ = ["find_python", "include_directory", "probe_python", "site_packages"]

#: Asks an interpreter who it is. The base executable counts: an environment's python is a link
#: that may vanish with the environment.
_QUESTION = """\
import json, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(),
    "implementation": sys.implementation.name,
    "platform": sysconfig.get_platform().replace("-", "_").replace(".", "_"),
    "libc": "-".join(platform.libc_ver()),
    "base": getattr(sys, "_base_executable", sys.executable),
    "include": sysconfig.get_path("include"),
    "flags": json.dumps([sysconfig.get_config_var(name) for name in (
        "CPPFLAGS", "OPT", "CFLAGS", "CCSHARED", "LDFLAGS", "LDSHARED", "LDCXXSHARED", "EXT_SUFFIX",
    )]),
    "threads": str(sysconfig.get_config_var("Py_GIL_DISABLED") or 0),
}))
"""


def probe_python(
    spec: str | None, *, runner: Runner, environment: Mapping[str, str], memo: Path
) -> PythonIdentity:
    """Return the interpreter that is meant.

    :param spec: Version such as ``3.12``, path of an interpreter or of an environment's directory;
        None is the interpreter that runs the kit.
    :raises ToolchainError: if there is none, or it is not a CPython of 3.9 or later.
    """
    executable = find_python(spec, runner, environment)
    answer = _ask(executable, runner, environment, memo)
    version = answer["version"]
    major, minor = version.split(".")[:2]
    if answer["implementation"] != "cpython" or (int(major), int(minor)) < (3, 9):
        raise ToolchainError(
            f"Python {executable}: found {answer['implementation']} {version}, allowed CPython"
            " 3.9 or later.",
            remedy="Name another one with --python.",
        )
    tag = f"cp{major}{minor}{'t' if answer['threads'] == '1' else ''}"
    return PythonIdentity(
        version=version,
        tag=tag,
        platform=answer["platform"],
        libc=answer["libc"],
        flags=digest_bytes(answer["flags"].encode()),
        executable=Path(answer["base"]),
    )


def include_directory(
    python: PythonIdentity, *, runner: Runner, environment: Mapping[str, str], memo: Path
) -> Path:
    """Return where the interpreter's ``Python.h`` should lie."""
    return Path(_ask(python.executable, runner, environment, memo)["include"])


def site_packages(
    spec: str | None, *, runner: Runner, environment: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return where an environment's packages lie; asked each time, as environments come and go.

    :param spec: As for :func:`probe_python`; None is the environment that runs the kit.
    :raises ToolchainError: if there is no such interpreter.
    """
    executable = Path(sys.executable) if spec is None else find_python(spec, runner, environment)
    code = "import sysconfig as s; print(s.get_path('purelib')); print(s.get_path('platlib'))"
    done = runner.capture([executable, "-I", "-c", code], env=base_environment(environment))
    if done.status != 0:
        raise ToolchainError(
            f"{executable} is no Python interpreter: it ended with status {done.status}.",
            remedy="Name another one with --python.",
        )
    return tuple(dict.fromkeys(Path(line) for line in done.stdout.splitlines()))


def _ask(
    executable: Path, runner: Runner, environment: Mapping[str, str], memo: Path
) -> dict[str, str]:
    def ask() -> dict[str, str]:
        done = runner.capture(
            [executable, "-I", "-c", _QUESTION],
            env=base_environment(environment),
            timeout_seconds=60,
        )
        try:
            answer: dict[str, str] = json.loads(done.stdout)
        except ValueError:
            raise ToolchainError(
                f"{executable} is no Python interpreter: it ended with status {done.status}"
                f" {done.stderr.strip()[-200:]!r}.",
                remedy="Name another one with --python.",
            ) from None
        return answer

    # An interpreter on a disk that several hosts share is one file with the C library of each.
    return remembered(memo, f"python-{_host_libc()}", executable, ask)


def _host_libc() -> str:
    """Return the C library of this host as a word. Source: confstr(3), glibc alone knows it."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "other").replace(" ", "-").replace("/", "-")
    except (ValueError, OSError):
        return "other"


def find_python(spec: str | None, runner: Runner, environment: Mapping[str, str]) -> Path:
    """Return the interpreter that is meant, as it was named: an environment's own too.

    :param spec: As for :func:`probe_python`.
    :raises ToolchainError: if there is none.
    """
    if spec is None:
        return Path(getattr(sys, "_base_executable", sys.executable))
    if re.fullmatch(r"\d+(\.\d+){0,2}", spec):
        return _find_version(spec, runner, environment)
    path = Path(spec).expanduser()
    for candidate in (path / "bin" / "python", path):
        if candidate.is_file():
            return candidate.absolute()
    raise ToolchainError(
        f"Python {spec!r}: there is no such interpreter or environment.",
        remedy="Give a version such as 3.12, an interpreter, or an environment's directory.",
    )


def _find_version(spec: str, runner: Runner, environment: Mapping[str, str]) -> Path:
    """Ask uv, which knows PATH, pyenv and its own interpreters; nothing is downloaded."""
    from buildkit.toolchain.uv import uv_binary

    variables = base_environment(environment)
    done = runner.capture(
        [uv_binary(), "python", "find", "--no-python-downloads", "--system", spec],
        env=variables,
        timeout_seconds=60,
    )
    if done.status != 0:
        raise ToolchainError(
            f"Python {spec} was not found on this machine.",
            remedy="Install it (for example `uv python install`), or give --python a path.",
        )
    return Path(done.stdout.strip())
