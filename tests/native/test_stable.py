"""Objects do not tell where and when they were compiled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buildkit.arch import parse_arch
from buildkit.launcher import binary, render_config
from tests.machine import NVCC, needs_nvcc

UNIT = """\
#include <cstdio>
namespace { __global__ void Where(int* x) { *x = printf("%s", __FILE__); } }
static __device__ int hidden;
const char* Name() { return __FILE__; }
void Start(int* x) { Where<<<1, 1>>>(x + sizeof hidden); }
"""

#: Neither is for the target of the test: a kept call compiles both.
TWO = ("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_100,code=[sm_100,compute_100]")


def compiled(slot: Path, tool: str, *flags: str) -> bytes:
    """Return the object of the unit, compiled in a slot by way of bk-launch."""
    (slot / "source").mkdir(parents=True)
    (slot / "build").mkdir()
    (slot / "tmp").mkdir()
    source = slot / "source" / ("unit.cu" if tool.endswith("nvcc") else "unit.c")
    source.write_text(UNIT if tool.endswith("nvcc") else "const char *name = __FILE__;\n")
    text = render_config(
        target=parse_arch("sm120"),
        without_code="keep",
        rules=(),
        tools={},
        records=slot / "records.jsonl",
        maps=[(slot, "/buildkit")],
    )
    (slot / "launch.conf").write_text(text)
    subprocess.run(
        [binary("bk-launch"), tool, *flags, "-c", source, "-o", "unit.o"],
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(slot / "tmp"),
            "BK_LAUNCH_CONFIG": str(slot / "launch.conf"),
        },
        cwd=slot / "build",
        check=True,
    )
    assert list((slot / "tmp").iterdir()) == []
    assert [path.name for path in (slot / "build").iterdir()] == ["unit.o"]
    return (slot / "build" / "unit.o").read_bytes()


@pytest.mark.parametrize("flags", [(), ("-g",)])
def test_gcc_writes_the_same_object_in_another_directory(tmp_path, flags):
    one = compiled(tmp_path / "one", "gcc", *flags)
    assert one == compiled(tmp_path / "an other" / "place", "gcc", *flags)
    assert str(tmp_path).encode() not in one


@pytest.mark.cuda
@needs_nvcc
@pytest.mark.parametrize(
    "flags", [TWO, ("-arch=sm_120",), (*TWO, "-g"), (*TWO, "--threads", "2"), (*TWO, "-rdc=true")]
)
def test_nvcc_writes_the_same_object_in_another_directory(tmp_path, flags):
    # nvcc 13.0 with --threads fails by itself where TMPDIR holds a blank.
    other = tmp_path / ("another" if "--threads" in flags else "an other") / "place"
    one = compiled(tmp_path / "one", NVCC, *flags)
    assert one == compiled(other, NVCC, *flags)
    assert str(tmp_path).encode() not in one
    assert b"tmpxft" not in one


@pytest.mark.cuda
@needs_nvcc
def test_line_tables_of_device_code_still_hold_the_directory(tmp_path):
    # What remains, as docs/reproducible.md says: nvcc has no flag for it.
    one = compiled(tmp_path / "one", NVCC, "-lineinfo", "-arch=sm_120")
    assert one != compiled(tmp_path / "two", NVCC, "-lineinfo", "-arch=sm_120")
