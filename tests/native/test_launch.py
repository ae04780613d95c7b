"""bk-launch, the built program, end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.arch import parse_arch, pins
from buildkit.launcher import binary, read_records, render_config
from buildkit.values import FlagRule
from tests.fakes import is_alive, wait_for
from tests.machine import NVCC, needs_googletest, needs_nvcc

RULES = (
    FlagRule(old="--threads=*", new="--threads=1", language="cuda"),
    FlagRule(old="-std=c++17", new="-std=c++20", language="any"),
    FlagRule(old="-lineinfo", new="", language="cuda"),
)


@pytest.fixture
def config(tmp_path: Path):
    def write(*, target="sm120", without_code="keep", rules=RULES, tools=None) -> dict[str, str]:
        file = tmp_path / "a config" / "launch.conf"
        file.parent.mkdir(exist_ok=True)
        text = render_config(
            target=parse_arch(target),
            without_code=without_code,
            rules=rules,
            tools=tools or {},
            records=tmp_path / "records.jsonl",
        )
        file.write_text(text)
        return {"PATH": os.environ["PATH"], "BK_LAUNCH_CONFIG": str(file)}

    return write


def explain(env: dict[str, str], *args: str, cwd: Path | None = None) -> tuple[str, list[str]]:
    done = subprocess.run(
        [binary("bk-launch"), "--explain", "--", *args],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    decision, *lines = done.stdout.splitlines()
    return decision, [line[2:] for line in lines if line.startswith("+ ")]


G120 = "-gencode=arch=compute_120,code=sm_120"
G120A = "-gencode=arch=compute_120a,code=sm_120a"


@pytest.mark.parametrize(
    ("given_args", "decision", "expected"),
    [
        ([G120, "-c", "x.cu"], "pinned", [G120, "-c", "x.cu"]),
        (
            ["-gencode", "arch=compute_80,code=sm_80", "-gencode", G120[9:], "-c", "x.cu"],
            "pinned",
            [G120, "-c", "x.cu"],
        ),
        (
            ["--generate-code=arch=compute_90,code=[sm_90,compute_90]", G120A, "-c", "x.cu"],
            "pinned",
            [G120A, "-c", "x.cu"],
        ),
        (
            ["-gencode=arch=compute_120,code=[sm_120,compute_120]", "-c", "x.cu"],
            "pinned",
            [G120, "-c", "x.cu"],
        ),
        (
            ["-gencode=arch=compute_120f,code=sm_120f", "-c", "x.cu"],
            "pinned",
            ["-gencode=arch=compute_120f,code=sm_120f", "-c", "x.cu"],
        ),
        (
            ["-gencode=arch=compute_120,code=compute_120", "-c", "x.cu"],
            "pinned",
            [G120, "-c", "x.cu"],
        ),
        (["-arch=sm_120", "-c", "x.cu"], "pinned", [G120, "-c", "x.cu"]),
        (
            ["-arch", "compute_120", "-code", "sm_120,compute_120", "-c", "x.cu"],
            "pinned",
            [G120, "-c", "x.cu"],
        ),
        (["--gpu-architecture=native", "-c", "x.cu"], "pinned", [G120, "-c", "x.cu"]),
        (["-arch=all-major", "-c", "x.cu"], "pinned", [G120, "-c", "x.cu"]),
        (
            ['-gencode=arch=compute_120,code="sm_120"', "-dlink", "x.o"],
            "pinned",
            [G120, "-dlink", "x.o"],
        ),
        (["-arch=sm_90", "-c", "x.cu"], "kept", ["-arch=sm_90", "-c", "x.cu"]),
        (["-c", "x.cu"], "kept", ["-c", "x.cu"]),
        (["-c", "x.cpp"], "none", ["-c", "x.cpp"]),
        (["--version"], "none", ["--version"]),
        # A 121 target's code does not run on 12.0, so it is no code for it.
        (
            ["-gencode=arch=compute_121,code=sm_121", "-c", "x.cu"],
            "kept",
            ["-gencode=arch=compute_121,code=sm_121", "-c", "x.cu"],
        ),
    ],
)
def test_gencodes_are_narrowed(config, given_args, decision, expected):
    assert explain(config(rules=()), "nvcc", *given_args) == (decision, expected)


def test_a_call_without_code_is_replaced_or_dropped_on_request(config):
    old = ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-c", "x.cu"]
    assert explain(config(without_code="replace"), "nvcc", *old) == (
        "replaced",
        [G120, "-c", "x.cu"],
    )
    dropped = explain(config(without_code="drop"), "nvcc", *old)
    assert dropped == ("replaced", ["-gencode=arch=compute_80,code=compute_80", "-c", "x.cu"])
    # Never left without a target: nothing but machine code stays as it is.
    only = ["-gencode=arch=compute_80,code=sm_80", "-c", "x.cu"]
    assert explain(config(without_code="drop"), "nvcc", *only) == ("kept", only)


@pytest.mark.parametrize(
    ("given_args", "expected"),
    [
        (["--threads", "4", "-c", "x.cu"], ["--threads=1", "-c", "x.cu"]),
        (["--threads=8", "-c", "x.cu"], ["--threads=1", "-c", "x.cu"]),
        (["-t4", "-c", "x.cu"], ["--threads=1", "-c", "x.cu"]),
        (["-t", "4", "-c", "x.cu"], ["--threads=1", "-c", "x.cu"]),
        (["-std=c++17", "-c", "x.cu"], ["-std=c++20", "-c", "x.cu"]),
        (["--std=c++17", "-c", "x.cu"], ["-std=c++20", "-c", "x.cu"]),
        (["-std", "c++17", "-c", "x.cu"], ["-std=c++20", "-c", "x.cu"]),
        (["-std=c++14", "-c", "x.cu"], ["-std=c++14", "-c", "x.cu"]),
        (["-lineinfo", "-c", "x.cu"], ["-c", "x.cu"]),
        (["-std=c++17", "-std=c++17", "-c", "x.cu"], ["-std=c++20", "-std=c++20", "-c", "x.cu"]),
    ],
)
def test_flags_are_replaced_by_rule(config, given_args, expected):
    _, args = explain(config(), "nvcc", *given_args)
    assert args == expected


def test_a_link_of_the_build_as_the_host_compiler_stands_for_the_compiler(config, tmp_path):
    """As torch hands CC to nvcc: the cache of objects has to see which compiler that is."""
    env = config(tools={"gcc": Path("/usr/bin/gcc")})
    link = tmp_path / "gcc"
    link.symlink_to(binary("bk-launch"))
    for option in ("-ccbin", "--compiler-bindir"):
        _, args = explain(env, "nvcc", option, str(link), "-c", "x.cu")
        assert args == [option, "/usr/bin/gcc", "-c", "x.cu"]
        _, args = explain(env, "nvcc", f"{option}={link}", "-c", "x.cu")
        assert args == [f"{option}=/usr/bin/gcc", "-c", "x.cu"]
    for other in ("/usr/bin/g++", "/nowhere/gcc", str(tmp_path)):
        _, args = explain(env, "nvcc", "-ccbin", other, "-c", "x.cu")
        assert args == ["-ccbin", other, "-c", "x.cu"]


def test_a_rule_keeps_to_its_language(config):
    _, args = explain(config(), "g++", "--threads=4", "-std=c++17", "-c", "x.cpp")
    assert args == ["--threads=4", "-std=c++20", "-c", "x.cpp"]


def test_a_response_file_is_read_and_left_alone_when_nothing_changes(config, tmp_path):
    (tmp_path / "flags").write_text(
        '-gencode "arch=compute_90,code=sm_90"\n' + G120 + " -DX='a b'\n"
    )
    decision, args = explain(config(), "nvcc", "@flags", "-c", "x.cu", cwd=tmp_path)
    assert (decision, args) == ("pinned", [G120, "-DX=a b", "-c", "x.cu"])
    decision, args = explain(
        config(), "nvcc", "--options-file", "flags", "-c", "x.cu", cwd=tmp_path
    )
    assert (decision, args) == ("pinned", [G120, "-DX=a b", "-c", "x.cu"])
    (tmp_path / "plain").write_text("-O2 -DY\n")
    _, args = explain(config(), "g++", "@plain", "-c", "x.cpp", cwd=tmp_path)
    assert args == ["@plain", "-c", "x.cpp"]
    _, args = explain(config(), "nvcc", "@missing", "-c", "x.cu", cwd=tmp_path)
    assert args == ["@missing", "-c", "x.cu"]


CODES = ["sm_90", "sm_90a", "sm_100", "sm_120", "sm_120a", "sm_120f", "sm_121"]


@settings(max_examples=40)
@given(
    codes=st.lists(st.sampled_from(CODES), min_size=1, max_size=6),
    target=st.sampled_from(["sm90", "sm120", "sm120a", "sm121"]),
    joined=st.booleans(),
)
def test_narrowing_agrees_with_the_rule_of_the_kit(codes, target, joined, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    file = folder / "launch.conf"
    wanted = parse_arch(target)
    file.write_text(
        render_config(target=wanted, without_code="keep", rules=(), tools={}, records=folder / "r")
    )
    flags: list[str] = []
    for code in codes:
        value = f"arch=compute_{code[3:]},code={code}"
        flags += [f"-gencode={value}"] if joined else ["-gencode", value]
    decision, args = explain({"BK_LAUNCH_CONFIG": str(file)}, "nvcc", *flags, "-c", "x.cu")
    kept = list(dict.fromkeys(code for code in codes if pins(parse_arch(code), wanted)))
    if kept:
        expected = [f"-gencode=arch=compute_{code[3:]},code={code}" for code in kept]
        assert (decision, args) == ("pinned", [*expected, "-c", "x.cu"])
    else:
        assert (decision, args) == ("kept", [*flags, "-c", "x.cu"])


@pytest.mark.parametrize("threads", [["--threads", "4"], ["--threads=4"], ["-t", "4"], ["-t4"]])
def test_one_target_needs_one_thread_and_several_keep_theirs(config, threads):
    env = config(rules=())
    call = [G120, "-c", "x.cu", *threads]
    assert explain(env, "nvcc", *call)[1] == [G120, "-c", "x.cu", "--threads=1"]
    kept = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", *threads]
    assert explain(env, "nvcc", "-c", "x.cu", *kept) == ("kept", ["-c", "x.cu", *kept])


# --- running --------------------------------------------------------------------------------------


def script(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "fake nvcc"
    file.write_text(f"#!{sys.executable}\n{text}")
    file.chmod(0o755)
    return file


def test_status_output_and_record_of_a_call(config, tmp_path):
    tool = script(
        tmp_path,
        "import sys\nprint('out')\nsys.stderr.buffer.write(b'bad \\xff \"x\"\\n')\nsys.exit(3)\n",
    )
    done = subprocess.run(
        [binary("bk-launch"), tool, "-c", "a.cu", "-o", "a.o", "-std=c++17"],
        env=config(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert done.stderr == b'bad \xff "x"\n'
    (record,) = read_records(tmp_path / "records.jsonl")
    assert (record.source, record.output, record.status) == ("a.cu", "a.o", 3)
    assert record.stderr == 'bad \ufffd "x"\n'
    assert record.tool == "fake nvcc"
    assert record.decision == "kept"
    assert record.peak_bytes > 1 << 20
    assert 0 < record.cpu_seconds <= record.wall_seconds * 4


def test_peak_memory_is_that_of_the_whole_tree(config, tmp_path):
    child = "import time; data = bytearray(120 << 20); time.sleep(0.6)"
    tool = script(
        tmp_path,
        "import subprocess, sys\n"
        f"children = [subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in range(2)]\n"
        "[child.wait() for child in children]\n",
    )
    subprocess.run([binary("bk-launch"), tool, "-c", "a.cu"], env=config(), check=True)
    (record,) = read_records(tmp_path / "records.jsonl")
    assert record.peak_bytes > 240 << 20


def test_a_signal_ends_the_whole_group_and_shows_in_the_status(config, tmp_path):
    tool = script(
        tmp_path,
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n",
    )
    launch = subprocess.Popen([binary("bk-launch"), tool, "-c", "a.cu"], env=config())
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text())
    launch.send_signal(signal.SIGTERM)
    assert launch.wait(timeout=20) == 128 + signal.SIGTERM
    wait_for(lambda: not is_alive(int(pid.read_text())))


def test_a_missing_compiler_is_told(config, tmp_path):
    done = subprocess.run(
        [binary("bk-launch"), "no-such-compiler", "-c", "a.cu"],
        env=config(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert "cannot run no-such-compiler" in done.stderr


def test_without_a_configuration_the_compiler_just_runs(tmp_path):
    tool = script(tmp_path, "import sys\nprint(sys.argv[1:])\nsys.exit(4)\n")
    done = subprocess.run(
        [binary("bk-launch"), tool, "-arch=sm_90"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "['-arch=sm_90']\n")


def test_a_shim_runs_its_compiler_and_nested_calls_pass_through(config, tmp_path):
    inner = tmp_path / "inner"
    inner.write_text("#!/bin/sh\necho inner $*\n")
    inner.chmod(0o755)
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("nvcc", "gcc"):
        (shims / name).symlink_to(binary("bk-launch"))
    outer = tmp_path / "outer"
    outer.write_text(f"#!/bin/sh\n'{shims}/gcc' -E nested.c\n")
    outer.chmod(0o755)
    env = config(tools={"nvcc": outer, "gcc": inner})
    done = subprocess.run(
        [shims / "nvcc", "-c", "x.cu"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "inner -E nested.c\n"
    assert [record.tool for record in read_records(tmp_path / "records.jsonl")] == ["outer"]


def test_records_of_many_calls_at_once_do_not_mix(config, tmp_path):
    tool = script(tmp_path, "import sys\nsys.stderr.write('e' * 5000)\nsys.exit(1)\n")
    env = config()
    calls = [
        subprocess.Popen(
            [binary("bk-launch"), tool, "-c", f"{number}.cu"], env=env, stderr=subprocess.DEVNULL
        )
        for number in range(20)
    ]
    assert [call.wait() for call in calls] == [1] * 20
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines()
    assert sorted(json.loads(line)["source"] for line in lines) == sorted(
        f"{number}.cu" for number in range(20)
    )


@pytest.mark.cuda
@needs_nvcc
def test_a_real_nvcc_compiles_the_target_alone(config, tmp_path):
    source = tmp_path / "a b.cu"
    source.write_text("__global__ void kernel() {}\n")
    subprocess.run(
        [
            *(binary("bk-launch"), NVCC, "-gencode", "arch=compute_90,code=sm_90"),
            *("-gencode", "arch=compute_120,code=[sm_120,compute_120]", "--keep", "-c", source),
        ],
        env=config() | {"HOME": "/"},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    # With several targets nvcc keeps one file of machine code for each.
    assert len(list(tmp_path.glob("*.cubin"))) == 1
    assert "sm_120" in next(tmp_path.glob("*.ptx")).read_text()
    (record,) = read_records(tmp_path / "records.jsonl")
    assert record.decision == "pinned"


@needs_googletest
def test_the_unit_tests_of_the_native_parts(tmp_path):
    root = Path(__file__).parents[2]
    subprocess.run(["cmake", "-S", root, "-B", tmp_path], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path, "-j2"], check=True, capture_output=True)
    done = subprocess.run([tmp_path / "native_test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "[  PASSED  ]" in done.stdout
