"""The project's build backend, called through the PEP 517 hooks.

What enters: a source tree, the environment that holds the backend, and a function that runs a
command. What leaves: the name of the wheel that the backend wrote. Installs nothing: a requirement
that the lock does not meet is an error, since an unlocked one would make the wheel a matter of
chance.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buildkit.errors import BuildkitError, Location, RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyproject_hooks import BackendUnavailable

__all__ = ["Backend", "BackendError", "read_backend", "run_hooks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What ``[build-system]`` says. Source: PEP 517 and PEP 518, with their defaults."""

    name: str
    path: tuple[str, ...]
    requires: tuple[str, ...]

    @property
    def is_scikit_build(self) -> bool:
        """Whether it takes CMake variables as config settings."""
        return self.name.startswith("scikit_build_core")


class BackendError(BuildkitError):
    """A hook ended with an error; the caller knows better what to tell the user.

    :param hook: The hook that failed, such as ``build_wheel``.
    :param status: Exit status of its process.
    """

    slug = "backend"

    def __init__(self, hook: str, status: int) -> None:
        super().__init__(f"The hook {hook} ended with status {status}.")
        self.hook = hook
        self.exit_status = status


def read_backend(source: Path) -> Backend:
    """Return the build backend of a source tree.

    :raises RecipeError: if its ``pyproject.toml`` cannot be read.
    """
    import tomllib

    file = source / "pyproject.toml"
    try:
        table: Any = tomllib.loads(file.read_text()).get("build-system", {})
    except FileNotFoundError:
        table = {}
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"The project's pyproject.toml cannot be read: {error}.",
            where=Location(file=str(file)),
            remedy="Mend it with a patch of the recipe.",
        ) from error
    return Backend(
        name=table.get("build-backend", "setuptools.build_meta:__legacy__"),
        path=tuple(table.get("backend-path", ())),
        requires=tuple(table.get("requires", ("setuptools",))),
    )


def run_hooks(
    source: Path,
    backend: Backend,
    locked: Mapping[str, str],
    *,
    python: Path,
    settings: Mapping[str, str],
    wheel_directory: Path,
    run: Callable[[Sequence[str], Path, Mapping[str, str]], int],
) -> str:
    """Build a wheel and return its file name.

    :param locked: Versions in the environment, by normalised name.
    :param run: Runs a command in a directory with further variables and returns its status.
    :raises RecipeError: if the project needs a build requirement that is not locked.
    :raises BackendError: if a hook ends with an error.
    """
    from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller

    def runner(
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        status = run(cmd, source if cwd is None else Path(cwd), extra_environ or {})
        if status != 0:
            raise BackendError(cmd[-2], status)

    _check_requirements(backend.requires, locked)
    hooks = BuildBackendHookCaller(
        str(source),
        backend.name,
        backend_path=backend.path,
        runner=runner,
        python_executable=str(python),
    )
    try:
        with warnings.catch_warnings():
            # The backend's warnings are in the log; a copy on our standard error would be noise.
            warnings.simplefilter("ignore")
            _check_requirements(hooks.get_requires_for_build_wheel(settings), locked)
            return str(hooks.build_wheel(str(wheel_directory), settings))
    except BackendUnavailable as error:
        raise RecipeError(
            f"The build backend {backend.name} does not import: {_last_line(error)}.",
            where=Location(file=str(source / "pyproject.toml"), key="build-system"),
            remedy="Add what is missing to build.requires of the recipe and run `buildkit pin`.",
        ) from error


def _last_line(error: BackendUnavailable) -> str:
    lines = (error.traceback or "").strip().splitlines()
    return lines[-1] if lines else "no reason given"


def _check_requirements(requirements: Sequence[str], locked: Mapping[str, str]) -> None:
    """Refuse a project whose build requirements the lock does not meet, naming all of them."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    missing = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        version = locked.get(canonicalize_name(requirement.name))
        if version is None:
            missing.append(text)
        elif not requirement.specifier.contains(version, prereleases=True):
            missing.append(f"{text} (locked: {version})")
    if missing:
        raise RecipeError(
            f"The project's build needs what the recipe does not lock: {', '.join(missing)}.",
            where=Location(file="recipe", key="build.requires"),
            remedy="Add it there and run `buildkit pin` for the recipe.",
        )
