"""The programs behind the compilers, and where those look for headers by themselves.

``nvcc`` and ``gcc`` only call others: who keeps objects must know all of these by their bytes. What
enters: the compilers of a plan and the toolkit's root. What leaves: one digest and the directories.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit.digest import digest_file, digest_value
from buildkit.environ import base_environment
from buildkit.toolchain.memo import remembered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from buildkit.run import Runner

__all__ = ["Programs", "parse_cuda_search", "parse_search", "probe_programs"]

#: What a GCC calls to compile; ``specs`` is a file that some have, and that changes what they do.
_BEHIND_GCC = ("cc1", "cc1plus", "as")

#: Programs that stand before a compiler under its name, and that choose what they call.
_BEFORE = ("ccache", "sccache", "distcc", "icecc", "colorgcc", "bk-launch")

_SEARCH = re.compile(
    r'ignoring nonexistent directory "(.+)"|^ (/.+?)(?: \(framework directory\))?$'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """All that compiles a unit, apart from its sources."""

    digest: str
    search: tuple[str, ...]
    """Directories of headers, also such as do not exist: they may come to."""
    refusal: str = ""
    """Why what they compile cannot be told from their bytes; empty: it can."""


def probe_programs(
    gcc: Path,
    gxx: Path,
    cuda_root: Path | None,
    *,
    runner: Runner,
    environment: Mapping[str, str],
    memo: Path,
) -> Programs:
    """Return the programs behind the compilers of a build.

    :param cuda_root: None where no CUDA is compiled.
    """
    ask = _Asking(runner, base_environment(environment), memo)
    files = [*ask.behind(gcc), *ask.behind(gxx)]
    search = [*ask.search(gcc, "c"), *ask.search(gxx, "c++")]
    if cuda_root is not None:
        files += _toolkit_files(cuda_root)
        search += ask.cuda_search(cuda_root / "bin" / "nvcc")
    drivers = [gcc, gxx, *([cuda_root / "bin" / "nvcc"] if cuda_root is not None else [])]
    refusals = [reason for reason in map(_why_not, drivers) if reason]
    return Programs(
        digest=_digest(files, memo),
        search=tuple(dict.fromkeys(search)),
        refusal=refusals[0] if refusals else "",
    )


def parse_search(text: str) -> tuple[str, ...]:
    """Return the directories of headers in what ``gcc -E -v`` says, also those that do not exist.

    >>> parse_search('''ignoring nonexistent directory "/a/b"
    ... #include <...> search starts here:
    ...  /usr/include
    ... End of search list.''')
    ('/a/b', '/usr/include')
    """
    head, _, rest = text.partition("#include <...> search starts here:\n")
    listed = [line for line in head.splitlines() if line.startswith("ignoring nonexistent")]
    lines = [*listed, *rest.partition("End of search list.")[0].splitlines()]
    found = [match for line in lines if (match := _SEARCH.match(line))]
    return tuple(match[1] or match[2] for match in found)


def parse_cuda_search(text: str) -> tuple[str, ...]:
    """Return the directories of headers in what ``nvcc --dryrun`` says.

    >>> parse_cuda_search('''#$ INCLUDES="-I/c/include"
    ... #$ SYSTEM_INCLUDES="-isystem" "/c/cccl"''')
    ('/c/include', '/c/cccl')
    """
    found = []
    for line in text.splitlines():
        name, _, value = line.removeprefix("#$ ").partition("=")
        if name in {"INCLUDES", "SYSTEM_INCLUDES"}:
            words = [word.removeprefix("-I") for word in shlex.split(value)]
            found += [word for word in words if word and word != "-isystem"]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Asking:
    runner: Runner
    variables: Mapping[str, str]
    memo: Path

    def behind(self, driver: Path) -> Iterator[Path]:
        """Yield a driver of GCC and the files that it uses, apart from headers."""
        yield driver
        for name in _BEHIND_GCC:
            place = shutil.which(self._say(driver, f"-print-prog-name={name}"), path=self._path)
            if place is not None:
                yield Path(place)
        specs = Path(self._say(driver, "-print-file-name=specs"))
        if specs.is_absolute() and specs.is_file():
            yield specs

    def search(self, driver: Path, language: str) -> tuple[str, ...]:
        command = ["-E", "-v", "-x", language, "/dev/null", "-o", "/dev/null"]
        return parse_search(self._say(driver, *command, is_error=True))

    def cuda_search(self, nvcc: Path) -> tuple[str, ...]:
        command = ["--dryrun", "-x", "cu", "-c", "/dev/null", "-o", "/dev/null"]
        return parse_cuda_search(self._say(nvcc, *command, is_error=True))

    @property
    def _path(self) -> str:
        return self.variables["PATH"]

    def _say(self, program: Path, *args: str, is_error: bool = False) -> str:
        def ask() -> dict[str, str]:
            done = self.runner.capture([program, *args], env=self.variables, timeout_seconds=60)
            return {"said": done.stderr if is_error else done.stdout.strip()}

        question = f"says-{digest_value(list(args))[:12]}"
        return remembered(self.memo, question, program, ask)["said"]


def _toolkit_files(root: Path) -> list[Path]:
    """Return all programs of a toolkit and what they read besides headers.

    ``nvcc`` looks for them from where it lies itself; a toolkit of links holds it as a file.
    """
    folders = ["bin", "bin/crt", "nvvm/bin", "nvvm/libdevice", "nvvm/lib64", "nvvm/lib"]
    files: set[Path] = set()
    for folder in folders:
        files |= {file for file in (root / folder).glob("*") if file.is_file()}
    return sorted(files)


def _why_not(driver: Path) -> str:
    real = driver.resolve()
    if real.name in _BEFORE:
        return f"{driver} is {real.name}, and calls another compiler"
    with real.open("rb") as stream:
        is_script = stream.read(2) == b"#!"
    return f"{driver} is a script" if is_script else ""


def _digest(files: list[Path], memo: Path) -> str:
    """Return the digest of files by name and bytes; reads those that have changed only."""

    def one(file: Path) -> str:
        return remembered(memo, "sha256", file, lambda: {"sha256": digest_file(file)})["sha256"]

    return digest_value(sorted([file.name, one(file)] for file in set(files)))
