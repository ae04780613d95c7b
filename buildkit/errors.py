"""The whole failure vocabulary of buildkit.

What enters: what went wrong, where, and what to do about it. What leaves: an exception whose
class fixes the exit status and whose slug names its page in ``docs/errors``. Nothing here prints
or exits; only :mod:`buildkit.cli` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "ArchError",
    "BuildkitError",
    "CacheError",
    "CompileError",
    "InstallError",
    "JobError",
    "Location",
    "LockError",
    "LockFileError",
    "PatchError",
    "RecipeError",
    "RemoteError",
    "RequestError",
    "SourceError",
    "ToolchainError",
    "UsageError",
    "VerifyError",
    "nearest",
]

#: Exit status after Ctrl-C. Source: POSIX shell convention, 128 + SIGINT.
INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where an input is wrong: a file, and if known the line and the key in it."""

    file: str
    line: int | None = None
    """Counted from 1."""
    key: str | None = None
    """Dotted path of the key, such as ``toolchain.cuda``."""

    def __str__(self) -> str:
        text = self.file if self.line is None else f"{self.file}:{self.line}"
        return text if self.key is None else f"{text} ({self.key})"


class BuildkitError(Exception):
    """Root of all errors that a user may see.

    :param what: One sentence: what is wrong, what was found, what is allowed.
    :param where: The place in the user's input, if there is one.
    :param remedy: What to do next, as an imperative sentence.
    :param log: A file that holds the details.
    """

    status: ClassVar[int] = 1
    slug: ClassVar[str] = "error"

    def __init__(
        self,
        what: str,
        *,
        where: Location | None = None,
        remedy: str = "",
        log: Path | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
        self.log = log

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        between = "\n" if "\n" in self.what else " "
        return between.join(part for part in (f"{place}{self.what}", self.remedy) if part)


class UsageError(BuildkitError):
    """The input is wrong: nothing was started. Exit status 2."""

    status = 2
    slug = "usage"


class RecipeError(UsageError):
    """A recipe file, or the recipe directory, is wrong."""

    slug = "recipe"


class ArchError(UsageError):
    """A GPU target is unknown, or a tool cannot build it."""

    slug = "arch"


class RequestError(UsageError):
    """A flag, a variable or a configuration value is wrong."""

    slug = "request"


class LockFileError(UsageError):
    """A lock of an environment is not as ``buildkit lock`` wrote it."""

    slug = "lock-file"


class JobError(BuildkitError):
    """The input is right but the job failed. Exit status 1."""

    slug = "job"


class SourceError(JobError):
    """A source could not be fetched, or is not what the recipe pins."""

    slug = "source"


class PatchError(JobError):
    """A patch does not apply, or did not reach its goal."""

    slug = "patch"


class ToolchainError(JobError):
    """A tool, a library or the build environment is missing or unfit."""

    slug = "toolchain"


class CompileError(JobError):
    """The build failed; if known, carries the translation unit and its own messages.

    :param unit: Source file of the translation unit that failed, or None.
    :param output: What its compiler wrote to standard error.
    """

    slug = "compile"

    def __init__(
        self,
        what: str,
        *,
        unit: str | None = None,
        output: str = "",
        where: Location | None = None,
        remedy: str = "",
        log: Path | None = None,
    ) -> None:
        super().__init__(what, where=where, remedy=remedy, log=log)
        self.unit = unit
        self.output = output


class VerifyError(JobError):
    """A wheel does not hold what it must."""

    slug = "verify"


class CacheError(JobError):
    """The cache cannot be read or written."""

    slug = "cache"


class RemoteError(JobError):
    """The remote does not answer, or does not take or give what it should."""

    slug = "remote"


class InstallError(JobError):
    """What was asked for cannot be installed together, or not beside what is installed."""

    slug = "install"


class LockError(JobError):
    """An environment cannot be locked, or not be brought to a lock."""

    slug = "lock"


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the allowed name closest to ``name``, else ``""``."""
    from difflib import get_close_matches

    matches = get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]!r}?" if matches else ""
