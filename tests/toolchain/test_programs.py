"""The programs behind the compilers, by their bytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from buildkit.run import ProcessRunner
from buildkit.toolchain.programs import probe_programs


def tool(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.fixture
def gcc(tmp_path) -> Path:
    """Return a GCC whose parts lie in a directory of ours."""
    for name in ("cc1", "cc1plus", "as"):
        tool(tmp_path / "behind" / name, name)
    return tool(
        tmp_path / "gcc",
        "#!/bin/sh\n"
        'case "$1" in\n'
        f'-print-prog-name=*) echo "{tmp_path}/behind/${{1#*=}}" ;;\n'
        f'-print-file-name=*) echo "{tmp_path}/behind/${{1#*=}}" ;;\n'
        "-E) echo '#include <...> search starts here:\n /usr/include\nEnd of search list.' >&2 ;;\n"
        "esac\n",
    )


def probe(gcc: Path, cuda: Path | None = None):
    return probe_programs(
        gcc,
        gcc,
        cuda,
        runner=ProcessRunner(),
        environment={"PATH": os.environ["PATH"]},
        memo=gcc.parent / "memo",
    )


@pytest.mark.parametrize("name", ["cc1", "cc1plus", "as", "specs"])
def test_each_program_counts(gcc, name):
    before = probe(gcc)
    assert before == probe(gcc)
    tool(gcc.parent / "behind" / name, "another")
    assert probe(gcc).digest != before.digest


def test_each_file_of_a_toolkit_counts(gcc, tmp_path):
    cuda = tmp_path / "cuda"
    tool(cuda / "bin/nvcc", "#!/bin/sh\necho '#$ INCLUDES=\"-I/c/include\"' >&2\n")
    seen = [probe(gcc, cuda).digest]
    for name in (
        "bin/ptxas",
        "bin/nvcc.profile",
        "nvvm/bin/cicc",
        "nvvm/libdevice/libdevice.10.bc",
    ):
        tool(cuda / name, name)
        seen.append(probe(gcc, cuda).digest)
    assert len(set(seen)) == 5
    assert "/c/include" in probe(gcc, cuda).search


def test_a_script_is_refused(gcc):
    assert "is a script" in probe(gcc).refusal


def test_a_program_that_calls_another_compiler_is_refused(gcc):
    script = gcc.rename(gcc.with_name("distcc"))
    gcc.symlink_to(script)
    assert "calls another compiler" in probe(gcc).refusal


def test_the_real_compilers_are_known(tmp_path):
    found = probe_programs(
        Path(shutil.which("gcc") or ""),
        Path(shutil.which("g++") or ""),
        None,
        runner=ProcessRunner(),
        environment=dict(os.environ),
        memo=tmp_path,
    )
    assert found.refusal == ""
    assert any(Path(folder).joinpath("stdio.h").is_file() for folder in found.search)
