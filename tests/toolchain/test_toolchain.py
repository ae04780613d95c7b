"""Probes, ranges and checks, against scripted tools and small files; real tools where they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from buildkit.arch import parse_arch
from buildkit.errors import ArchError, RequestError, ToolchainError
from buildkit.run import ProcessRunner
from buildkit.toolchain import cuda
from buildkit.toolchain.accept import check_cmake, check_torch
from buildkit.toolchain.compilers import probe_gcc
from buildkit.toolchain.cuda import select_cuda
from buildkit.toolchain.environment import read_environment
from buildkit.toolchain.memo import remembered
from buildkit.toolchain.python import include_directory, probe_python
from buildkit.toolchain.ranges import is_in_range
from tests.builders import a_python
from tests.fakes import RecordingEvents, ScriptedRunner, says
from tests.machine import needs_nvcc

REAL = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}

numbers = st.lists(st.integers(0, 14), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)


@given(
    numbers,
    st.lists(st.tuples(st.sampled_from([">=", "<=", "<", ">", "==", "!="]), numbers), min_size=1),
)
def test_ranges_agree_with_the_packaging_library(version, clauses):
    text = ",".join(f"{operator}{number}" for operator, number in clauses)
    assert is_in_range(version, text) == SpecifierSet(text).contains(version)


def test_an_answer_is_remembered_until_the_file_changes(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("1")
    asked = []

    def ask():
        asked.append(1)
        return {"n": str(len(asked))}

    memo = tmp_path / "memo"
    assert remembered(memo, "q", tool, ask) == {"n": "1"}
    assert remembered(memo, "q", tool, ask) == {"n": "1"}
    tool.write_text("22")
    assert remembered(memo, "q", tool, ask) == {"n": "2"}
    assert remembered(memo, "other", tool, ask) == {"n": "3"}
    for file in memo.iterdir():
        file.write_text("{torn")
    assert remembered(memo, "q", tool, ask) == {"n": "4"}


def test_the_running_interpreter_is_known(tmp_path):
    found = probe_python(None, runner=ProcessRunner(), environment=REAL, memo=tmp_path)
    assert found.tag == f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert found.executable.is_file()
    include = include_directory(found, runner=ProcessRunner(), environment=REAL, memo=tmp_path)
    assert "include" in str(include)


def test_a_file_that_is_no_interpreter_is_refused(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no\n")
    fake.chmod(0o755)
    for spec in (str(fake), str(tmp_path / "none")):
        with pytest.raises(ToolchainError, match=r"no Python interpreter|no such interpreter"):
            probe_python(spec, runner=ProcessRunner(), environment=REAL, memo=tmp_path)


def test_an_existing_environment_tells_what_it_holds():
    root, lock = read_environment(Path(sys.executable), runner=ProcessRunner(), environment=REAL)
    assert root == Path(sys.executable).parent.parent
    assert "pytest" in lock.versions
    with pytest.raises(RequestError, match="no interpreter"):
        read_environment(Path("/no/such"), runner=ProcessRunner(), environment=REAL)


# --- host compiler --------------------------------------------------------------------------------


def fake_tools(folder: Path, *names: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("x")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def test_the_first_gcc_that_fits_is_taken(tmp_path):
    env = fake_tools(tmp_path / "bin", "gcc", "g++", "gcc-12", "g++-12", "gcc-14")
    runner = ScriptedRunner(
        {"bin/gcc-12": says("12.3.0"), "bin/g++-12": says("12.3.0"), "bin/g": says("16.1.0")}
    )
    host = probe_gcc(">=9", 15, runner=runner, environment=env, memo=tmp_path / "m")
    assert (host.gcc.version, host.gxx.path.name) == ("12.3.0", "g++-12")
    assert host.note == (
        "gcc-12 12.3.0, since gcc 16.1.0 does not fit: allowed gcc >=9, at most 15, the newest that"
        " this CUDA takes"
    )


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=debian", "apt-get install g++-14 gcc-14"),
        ("ID=opensuse-tumbleweed", "zypper install gcc15 gcc15-c++"),
        ("ID=rocky", "dnf install gcc-toolset-15`.*/opt/rh/gcc-toolset-15/root/usr/bin first"),
    ],
)
def test_a_compiler_that_is_refused_brings_the_command_for_another(tmp_path, release, command):
    env = fake_tools(tmp_path / "bin", "gcc", "g++", "apt-cache")
    runner = ScriptedRunner(
        {"bin/g": says("16.1.0"), "pkgnames": says("g++-13\ng++-14\ng++-16\ng++-14-multilib\n")}
    )
    (tmp_path / "os-release").write_text(release)
    with pytest.raises(ToolchainError, match=command.replace("+", r"\+")):
        probe_gcc(
            ">=9",
            15,
            runner=runner,
            environment=env,
            memo=tmp_path / "m",
            os_release=tmp_path / "os-release",
        )


def test_compilers_that_do_not_fit_are_named_with_the_limit(tmp_path):
    env = fake_tools(tmp_path / "bin", "gcc", "g++")
    runner = ScriptedRunner({"bin/g": says("16.1.0")})
    with pytest.raises(ToolchainError, match=r"found gcc 16\.1\.0, allowed gcc >=9, at most 15"):
        probe_gcc(">=9", 15, runner=runner, environment=env, memo=tmp_path / "m")
    with pytest.raises(ToolchainError, match="no gcc with g"):
        probe_gcc("", None, runner=runner, environment={"PATH": "/none"}, memo=tmp_path / "m")


# --- CUDA -----------------------------------------------------------------------------------------


def a_toolkit(root: Path, limit: int = 15) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "nvcc").write_text("x")
    (root / "bin" / "nvcc").chmod(0o755)
    crt = root / "include" / "crt"
    crt.mkdir(parents=True)
    (root / "include" / "cuda_runtime.h").touch()
    (crt / "host_config.h").write_text(f"#if __GNUC__ > {limit}\n#error\n#endif\n")
    return root


def choose(tmp_path, runner, allowed=">=12.8,<14", **environment):
    return select_cuda(
        allowed,
        parse_arch("sm120"),
        a_python(),
        runner=runner,
        environment={"PATH": "/none"} | environment,
        memo=tmp_path / "memo",
    )


def nvcc(version: str, *, knows: bool = True) -> dict:
    return {
        "--version": says(f"release {version[:4]}, V{version}"),
        "--dryrun": says(status=0 if knows else 1),
    }


def test_cuda_home_wins_when_it_fits(tmp_path):
    root = a_toolkit(tmp_path / "cuda", limit=14)
    found = choose(tmp_path, ScriptedRunner(nvcc("12.9.86")), CUDA_HOME=str(root))
    assert (found.root, found.nvcc.version, found.newest_gcc) == (root, "12.9.86", 14)


def test_a_toolkit_out_of_range_gives_way_to_nvidia_s_wheels(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "_named_roots", lambda *_: [a_toolkit(tmp_path / "old")])
    found = choose(tmp_path, ScriptedRunner(nvcc("12.4.1")))
    assert found.root is None
    assert found.lock is not None
    assert found.nvcc.version.startswith("13.0.")


def test_a_toolkit_that_does_not_know_the_target_names_the_one_that_does(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "_named_roots", lambda *_: [a_toolkit(tmp_path / "old")])
    with pytest.raises(ArchError, match=r"CUDA 12\.4\.1 at .* cannot build sm120.*12\.8 or later"):
        choose(tmp_path, ScriptedRunner(nvcc("12.4.1", knows=False)), allowed="<13")


def test_no_toolkit_of_the_range_tells_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "_named_roots", lambda *_: [a_toolkit(tmp_path / "old")])
    with pytest.raises(ToolchainError, match=r"found 12\.4\.1 at .*allowed >=99"):
        choose(tmp_path, ScriptedRunner(nvcc("12.4.1")), allowed=">=99")


def test_a_script_named_nvcc_leads_to_the_real_toolkit(tmp_path):
    root = a_toolkit(tmp_path / "cuda")
    env = fake_tools(tmp_path / "bin", "nvcc")
    script = tmp_path / "bin" / "nvcc"
    runner = ScriptedRunner({str(script): says(stderr=f"#$ TOP={root}/bin/..\n"), **nvcc("13.0.1")})
    assert choose(tmp_path, runner, **env).root == root


@pytest.mark.cuda
@needs_nvcc
def test_the_real_nvcc_is_asked_for_variants_that_it_does_not_list(tmp_path):
    found = select_cuda(
        ">=12",
        parse_arch("sm120a"),
        a_python(),
        runner=ProcessRunner(),
        environment=os.environ,
        memo=tmp_path,
    )
    assert found.root is not None
    assert (found.root / "bin" / "nvcc").is_file()


# --- torch and the system -------------------------------------------------------------------------


def a_torch(root: Path, cuda_version: str = "13.0", archs: str = "'9.0', '12.0', '12.0a'") -> Path:
    folder = root / "lib" / "python3.11" / "site-packages" / "torch"
    (folder / "utils").mkdir(parents=True)
    (folder / "utils" / "cpp_extension.py").write_text(f"    supported_arches = [{archs}]\n")
    (folder / "version.py").write_text(f"cuda: Optional[str] = '{cuda_version}'\n")
    return root


def test_torch_is_asked_by_its_files(tmp_path):
    events = RecordingEvents()
    check_torch(a_torch(tmp_path / "a"), parse_arch("sm120a"), "13.0.88", events)
    assert events.warnings == []
    check_torch(tmp_path / "a", parse_arch("sm120"), "13.2.1", events)
    assert "minor versions" in events.warnings[0]
    check_torch(tmp_path / "none", parse_arch("sm120"), "13.0", events)


def test_a_torch_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ToolchainError, match=r"found 13\.0\.88, allowed 12\.x"):
        check_torch(
            a_torch(tmp_path / "a", "12.8"), parse_arch("sm120"), "13.0.88", RecordingEvents()
        )
    with pytest.raises(ArchError, match=r"does not know sm121: found 9\.0"):
        check_torch(a_torch(tmp_path / "b"), parse_arch("sm121"), "13.0.88", RecordingEvents())


def test_cmake_is_asked_for_variants_alone(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").touch()
    refuses = ScriptedRunner({"120f-real": says(status=1), "120a-real": says()})
    check_cmake(tmp_path, parse_arch("sm120"), runner=refuses, variables={})
    check_cmake(tmp_path, parse_arch("sm120a"), runner=refuses, variables={})
    with pytest.raises(ArchError, match="does not know sm120f"):
        check_cmake(tmp_path, parse_arch("sm120f"), runner=refuses, variables={})
    assert len(refuses.commands) == 2
