"""What can change a wheel is seen by a probe, so that it can enter the key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from buildkit.run import ProcessRunner
from buildkit.toolchain.compilers import probe_binutils
from buildkit.toolchain.cuda import select_cuda
from buildkit.toolchain.environment import read_environment
from buildkit.toolchain.python import probe_python
from tests.builders import a_python, a_tool
from tests.fakes import ScriptedRunner, says

REAL = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


def a_program(file: Path, text: str = "x") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def test_the_first_linker_on_path_counts_if_gcc_asks_path(tmp_path):
    gcc = a_program(tmp_path / "gcc")
    one, two = (a_program(tmp_path / name / "ld", name) for name in ("one", "two"))
    inner = a_program(tmp_path / "inner" / "as")
    runner = ScriptedRunner(
        {
            "-print-prog-name=ld": says("ld\n"),
            "-print-prog-name=as": says(f"{inner}\n"),
            "ld --version": says("GNU ld (GNU Binutils for Debian) 2.40\nCopyright\n"),
            "as --version": says("GNU assembler 2.41\n"),
        }
    )
    tool = a_tool("gcc", "12")
    found = []
    for first in (one, two):
        found.append(
            probe_binutils(
                type(tool)(name="gcc", version="12", digest=tool.digest, path=gcc),
                runner=runner,
                environment={"PATH": f"{first.parent}:{one.parent}"},
                memo=tmp_path / "memo",
            )
        )
    (as_one, ld_one), (as_two, ld_two) = found
    assert (as_one.name, as_one.version, as_one.path) == ("as", "2.41", inner)
    assert (ld_one.version, ld_one.path, ld_two.path) == ("2.40", one, two)
    assert as_one == as_two
    assert ld_one.digest != ld_two.digest


def test_a_missing_linker_is_left_to_the_build(tmp_path):
    gcc = a_tool("gcc", "12")
    tool = type(gcc)(name="gcc", version="12", digest=gcc.digest, path=a_program(tmp_path / "gcc"))
    runner = ScriptedRunner({"-print-prog-name": says("", status=1)})
    assert probe_binutils(tool, runner=runner, environment={"PATH": ""}, memo=tmp_path / "m") == ()


def test_another_ptxas_in_the_same_toolkit_is_another_nvcc(tmp_path):
    root = tmp_path / "cuda"
    a_program(root / "bin" / "nvcc")
    ptxas = a_program(root / "bin" / "ptxas", "old")
    a_program(root / "nvvm" / "bin" / "cicc")
    runner = ScriptedRunner(
        {"--version": says("Cuda compilation tools, release 13.0, V13.0.88"), "--dryrun": says()}
    )

    def digest() -> str:
        found = select_cuda(
            ">=13",
            a_arch(),
            a_python(),
            runner=runner,
            environment={"CUDA_HOME": str(root), "PATH": ""},
            memo=tmp_path / "memo",
        )
        assert found.nvcc.version == "13.0.88"
        return found.nvcc.digest

    before = digest()
    assert digest() == before
    ptxas.write_text("newer")
    assert digest() != before


def a_arch():
    from buildkit.arch import parse_arch

    return parse_arch("sm120")


def test_an_interpreter_on_a_shared_disk_is_asked_on_each_c_library(tmp_path, monkeypatch):
    def answer(libc: str) -> ScriptedRunner:
        document = {
            "version": "3.11.7",
            "implementation": "cpython",
            "platform": "linux_x86_64",
            "libc": libc,
            "base": sys.executable,
            "include": "/usr/include",
            "flags": "[]",
            "threads": "0",
        }
        return ScriptedRunner({"-I -c": says(json.dumps(document))})

    for libc in ("glibc-2.36", "glibc-2.41", "glibc-2.36"):
        monkeypatch.setattr(os, "confstr", lambda _, libc=libc: libc.replace("-", " "))
        found = probe_python(
            sys.executable, runner=answer(libc), environment=REAL, memo=tmp_path / "memo"
        )
        assert found.libc == libc


def test_the_flags_of_the_interpreter_are_known(tmp_path):
    found = probe_python(None, runner=ProcessRunner(), environment=REAL, memo=tmp_path)
    assert len(found.flags) == 64


def test_a_rebuilt_distribution_of_the_same_version_is_another_environment(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    info = site / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")

    def digest(*rows: str) -> str:
        (info / "RECORD").write_text("".join(f"{row}\n" for row in rows))
        _, lock = read_environment(tmp_path / "env", runner=ProcessRunner(), environment=REAL)
        assert lock.versions == {"toy": "1.0"}
        return lock.digest

    before = digest("toy/a.so,sha256=aaa,1", "toy-1.0.dist-info/INSTALLER,sha256=pip,4")
    same = digest(
        "toy-1.0.dist-info/INSTALLER,sha256=uv,2",
        "toy/__pycache__/a.cpython-311.pyc,,",
        "../../../bin/toy,sha256=shebang,9",
        "toy/a.so,sha256=aaa,1",
    )
    assert same == before
    assert digest("toy/a.so,sha256=bbb,1") != before
