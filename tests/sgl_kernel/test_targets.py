"""Which libraries of sgl-kernel a GPU target gets, and their units: shown on its twin."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest

from buildkit.launcher import binary, read_records
from buildkit.wheels import read_wheel
from tests.sgl_kernel.twin import MAKE, PROJECT, plain

pytestmark = [
    pytest.mark.network,
    pytest.mark.cuda,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH"),
]


def test_one_target_in_one_library_that_imports(twin):
    assert "3 pinned, 0 kept, 0 replaced" in twin.made.stderr
    assert "sm_120a: code verified, import ok" in twin.made.stderr
    told = twin.world.run("verify", str(twin.wheel), "--arch", "sm120", "--json")
    libraries = json.loads(told.stdout)["libraries"]
    assert {entry["library"]: entry["sass"] for entry in libraries} == {
        "sgl_kernel/sm100/common_ops.abi3.so": ["sm_120a"],
        "sgl_kernel/spatial_ops.abi3.so": ["sm_120a"],
    }
    assert not any(entry["ptx"] for entry in libraries)
    files = [name for name in read_wheel(twin.wheel).files if ".dist-info/" not in name]
    assert sorted(files) == [
        "sgl_kernel/__init__.py",
        "sgl_kernel/flash_attn.py",
        "sgl_kernel/flash_ops.py",
        "sgl_kernel/sm100/common_ops.abi3.so",
        "sgl_kernel/spatial_ops.abi3.so",
        "triton_kernels/__init__.py",
    ]


def test_threads_are_1_also_where_no_option_reaches(cmake, twin):
    found = cmake.configure().commands()
    assert "--threads=32" not in found["common_ops_sm100_build/gemm.cu"]
    call = found["spatial_ops/spatial.cu"]
    assert "--threads=32" in call
    done = subprocess.run(
        [binary("bk-launch"), "--explain", "--", "nvcc", *shlex.split(call)[1:]],
        env=plain() | {"BK_LAUNCH_CONFIG": str(twin.world.slot / "launch.conf")},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout.splitlines()
    assert "+ --threads=1" in told
    assert "+ --threads=32" not in told


def test_a_kernel_of_hopper_is_for_hopper_alone(tmp_path):
    source = PROJECT / "flash-attention" / "hopper" / "flash_fwd.cu"
    told = {}
    for target in ("90a", "120a"):
        code = f"-gencode=arch=compute_{target},code=sm_{target}"
        command = ["nvcc", code, "-c", source, "-o", tmp_path / "x.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told[target] = done.returncode, done.stderr
    assert told["90a"] == (0, "")
    assert told["120a"][0] != 0
    assert "wgmma.fence" in told["120a"][1]


def test_the_package_imports_only_with_what_stands_in_for_flash_attention(twin, tmp_path):
    with zipfile.ZipFile(twin.wheel) as archive:
        archive.extractall(tmp_path)
    code = "import sgl_kernel.flash_attn as f; print(f.torch.ops.sgl_kernel.fwd); f.{}(1)"
    command = [sys.executable, "-c", code.format("flash_attn_varlen_func")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "NotImplementedError: This build of sgl-kernel has no FlashAttention 3" in done.stderr
    (tmp_path / "sgl_kernel" / "flash_ops.py").unlink()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ImportError: sgl_kernel is not complete" in done.stderr


def test_the_unit_that_takes_memory_is_named_and_builds_with_more(twin):
    small = twin.world.run(*MAKE, "--clean", "--memory", "1GiB", "--hard-cap", "off")
    assert small.returncode == 1
    assert "csrc/moe.cu" in small.stderr
    assert "the build may use 1.0 GiB; give --memory more than that" in small.stderr
    done = twin.world.run(*MAKE, "--from-step", "build", "--memory", "2GiB")
    assert done.returncode == 0, done.stderr
    records = read_records(twin.world.slot / "records.jsonl")
    (big,) = [one for one in records if one.source.endswith("moe.cu") and one.status == 0]
    assert big.peak_bytes > 1 << 30


COMMON = {"sm90": "common_ops_sm90_build"}


@pytest.mark.parametrize(
    ("arch", "more"),
    [
        ("sm90", {"flash_ops", "flashmla_ops"}),
        ("sm100", {"flashmla_ops"}),
        ("sm103", set()),
        ("sm120", set()),
        ("sm121", set()),
    ],
)
def test_each_target_takes_its_own_set(cmake, twin, arch, more):
    trees = cmake.build.parent / "trees"
    found = replace(cmake, defines=twin.defines(trees, arch)).configure()
    assert found.status == 0, found.errors
    wanted = {COMMON.get(arch, "common_ops_sm100_build"), "spatial_ops", *more}
    assert found.codes() == {name: {f"sm_{arch[2:]}a"} for name in wanted}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"BK_SGL_KEEP": "common_ops_sm120_build"}, "no library common_ops_sm120_build any"),
        ({"BK_SGL_DROP": "spatial_ops"}, "where spatial_ops is installed is not known"),
        ({"CMAKE_CUDA_ARCHITECTURES": "all"}, "names no GPU target"),
    ],
)
def test_what_upstream_has_renamed_is_named(cmake, change, told):
    found = cmake.configure(**change)
    assert found.status == 1
    assert told in found.errors


def test_operators_that_upstream_no_longer_declares_are_named(cmake):
    header = cmake.source / "include" / "sgl_kernel_ops.h"
    header.write_text(header.read_text().replace("mscclpp_init_context", "mscclpp_init"))
    found = cmake.configure()
    assert found.status == 1
    assert "sgl_kernel_ops.h declares no mscclpp_init_context" in found.errors


def test_what_would_stay_in_the_wheel_by_mistake_stops_the_installation(cmake):
    lists = cmake.source / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("sgl_kernel/sm${variant}", "sm${variant}"))
    assert cmake.configure(CMAKE_CUDA_FLAGS="-DMOE_DEPTH=4").status == 0
    assert cmake.run("--build", cmake.build).returncode == 0
    done = cmake.run("--install", cmake.build)
    assert done.returncode == 1
    assert "common_ops_sm90_build was not installed at sgl_kernel/sm90" in done.stderr
