"""The cache of objects with the real nvcc: where it might give an old object, and where it may."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from buildkit.arch import parse_arch
from buildkit.cache.compiled import ObjectCache, ccache_binary
from buildkit.launcher import binary, read_records, render_config
from buildkit.run import ProcessRunner
from buildkit.toolchain.programs import probe_programs
from tests.machine import NVCC, needs_nvcc

UNIT = """\
#include <found.h>
#if __has_include("maybe.h")
#include "maybe.h"
#else
#define MAYBE 0
#endif
#ifndef GIVEN
#define GIVEN 0
#endif
#ifndef __CUDA_ARCH__
static int mine() { return 1 + MAYBE + FOUND + GIVEN; }
#elif __CUDA_ARCH__ >= 900
#define MINE 2
#else
#define MINE 3
#endif
__global__ void run(int *out) {
#ifdef __CUDA_ARCH__
  *out = MINE * *out + MAYBE + FOUND + GIVEN;
#endif
}
int call(int *out) {
  run<<<1, 1>>>(out);
#ifndef __CUDA_ARCH__
  return mine() * *out;
#else
  return 0;
#endif
}
"""

GCC, GXX = shutil.which("gcc") or "", shutil.which("g++") or ""

#: Two targets that are not the launcher's: it leaves both.
NVCC_ARGS = (
    *("nvcc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"),
    *("-Iearly", "-Ilate", "-c", "unit.cu", "-o", "unit.o"),
)
GXX_ARGS = ("g++", "-Iearly", "-Ilate", "-c", "unit.cpp", "-o", "unit.o")


@dataclass(frozen=True)
class Bench:
    """A project that is compiled with and without the cache in one place."""

    root: Path
    cuda: Path
    cache: ObjectCache

    @property
    def source(self) -> Path:
        return self.root / "source"

    def put(self, name: str, text: str) -> None:
        file = self.source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.source / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def compile(self, args=NVCC_ARGS, *, is_cached=True, **variables: str) -> tuple[bytes, str]:
        """Return the object, and what the record says of the cache."""
        maps = [(self.root, "/buildkit"), (self.cuda, "/buildkit/cuda")]
        records = self.root / "records.jsonl"
        paths = {"nvcc": self.cuda / "bin/nvcc", "gcc": GCC, "g++": GXX}
        tools = {name: Path(path) for name, path in paths.items()}
        config = self.root / "launch.conf"
        config.write_text(
            render_config(
                target=parse_arch("sm120"),
                without_code="keep",
                rules=(),
                tools=tools,
                records=records,
                maps=maps,
                engine=self.cache.engine(maps) if is_cached else None,
            )
        )
        (self.source / "unit.o").unlink(missing_ok=True)
        program, *rest = args
        subprocess.run(
            [binary("bk-launch"), str(tools.get(program, program)), *rest],
            env={"PATH": os.environ["PATH"], "BK_LAUNCH_CONFIG": str(config), **variables},
            cwd=self.source,
            check=True,
            capture_output=True,
        )
        return (self.source / "unit.o").read_bytes(), read_records(records)[-1].objects

    def fresh(self, args=NVCC_ARGS, **variables: str) -> bytes:
        return self.compile(args, is_cached=False, **variables)[0]


@pytest.fixture(scope="module")
def cuda() -> Path:
    """Return where nvcc itself lies: what PATH holds may be a script before it."""
    argv = [str(NVCC), "--dryrun", "-x", "cu", "-c", "/dev/null", "-o", "/dev/null"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stderr
    (here,) = (line[10:] for line in told.splitlines() if line.startswith("#$ _HERE_="))
    return Path(here).parent


@pytest.fixture(scope="module")
def programs(tmp_path_factory, cuda):
    found = probe_programs(
        Path(GCC),
        Path(GXX),
        cuda,
        runner=ProcessRunner(),
        environment=dict(os.environ),
        memo=tmp_path_factory.mktemp("memo"),
    )
    assert found.refusal == ""
    return found


@pytest.fixture
def bench(tmp_path, cuda, programs) -> Bench:
    cache = ObjectCache(
        program=ccache_binary(),
        folder=tmp_path / "objects",
        root=tmp_path,
        toolchain=programs.digest,
        search=programs.search,
    )
    bench = Bench(tmp_path / "slot", cuda, cache)
    bench.put("unit.cu", UNIT)
    bench.put("unit.cpp", "#include <found.h>\nint call(int out) { return out * FOUND; }\n")
    bench.put("late/found.h", "#define FOUND 5\n")
    bench.put("early/other.h", "")
    return bench


def check(bench: Bench, change, *, args=NVCC_ARGS, before=None, after=None, outcome="miss"):
    """Compile, hit, change something, and find that the cache gives what a compiler gives."""
    before, after = before or {}, after or before or {}
    first, _ = bench.compile(args, **before)
    again, answer = bench.compile(args, **before)
    assert again == first
    if outcome == "miss":
        assert answer == "hit"
    change()
    cached, answer = bench.compile(args, **after)
    assert answer.partition(":")[0] == outcome
    fresh = bench.fresh(args, **after)
    assert cached == fresh
    assert fresh != first  # or the case shows nothing


@needs_nvcc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return 1 + MAYBE", "return 9 + MAYBE"),
        ("#define MINE 2", "#define MINE 8"),
        ("#define MINE 3", "#define MINE 7"),
    ],
    ids=["the host alone", "the later GPU alone", "the earlier GPU alone"],
)
def test_an_edit_that_one_pass_alone_sees(bench, old, new):
    check(bench, lambda: bench.edit("unit.cu", old, new))


@needs_nvcc
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("early/found.h", "#define FOUND 6\n"),
        ("maybe.h", "#define MAYBE 4\n"),
        ("late/found.h", "#define FOUND 8\n"),
    ],
    ids=["a header comes before the one that was found", "__has_include", "a header changes"],
)
def test_a_header_that_comes_or_changes(bench, file, text):
    check(bench, lambda: bench.put(file, text))


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("NVCC_APPEND_FLAGS", "-DGIVEN=4", "miss"),
        ("NVCC_PREPEND_FLAGS", "-DGIVEN=4", "miss"),
        ("PTXAS_FLAGS", "-O0", "miss"),
        ("CUDAFE_FLAGS", "--no_warnings", "miss"),
        ("CPATH", "first", "miss"),
        ("INCLUDES", "-Ifirst", "skipped"),
        ("SYSTEM_INCLUDES", "-isystem first", "skipped"),
    ],
)
def test_a_variable_that_nvcc_obeys(bench, name, value, outcome):
    bench.put("first/found.h", "#define FOUND 12\n")
    args = tuple(arg for arg in NVCC_ARGS if not arg.startswith("-I"))
    plain = args if name in {"CPATH", "INCLUDES", "SYSTEM_INCLUDES"} else NVCC_ARGS
    before = {"CPATH": "late"} if plain is args else {}
    after = {name: value} if name == "CPATH" else {**before, name: value}
    first, _ = bench.compile(plain, **before)
    assert bench.compile(plain, **before)[1] == "hit"
    cached, answer = bench.compile(plain, **after)
    assert answer.partition(":")[0] == outcome
    assert cached == bench.fresh(plain, **after)
    if name not in {"CUDAFE_FLAGS", "SYSTEM_INCLUDES"}:
        assert cached != first


@needs_nvcc
def test_the_file_of_an_options_file(bench):
    bench.put("flags", "-DGIVEN=1\n")
    args = (*NVCC_ARGS, "--options-file", "flags")
    check(bench, lambda: bench.put("flags", "-DGIVEN=2\n"), args=args)


@needs_nvcc
def test_a_response_file(bench):
    bench.put("flags", "-O1 -DFOUND_TWICE\n")
    args = (*GXX_ARGS, "@flags")
    check(bench, lambda: bench.put("flags", "-O0 -DFOUND_TWICE\n"), args=args)


@needs_nvcc
def test_a_script_before_the_compiler_is_not_cached(bench, tmp_path):
    script = tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec {bench.cuda}/bin/nvcc -DGIVEN=1 "$@"\n')
    script.chmod(0o755)
    check(
        bench,
        lambda: script.write_text(script.read_text().replace("GIVEN=1", "GIVEN=2")),
        args=(str(script), *NVCC_ARGS[1:]),
        outcome="skipped",
    )


@needs_nvcc
def test_another_host_compiler_is_not_cached(bench, tmp_path):
    script = tmp_path / "g++"
    script.write_text(f'#!/bin/sh\nexec {GXX} -O0 "$@"\n')
    script.chmod(0o755)
    check(
        bench,
        lambda: script.write_text(script.read_text().replace("-O0", "-O0 -fno-ipa-cp -g")),
        args=(*NVCC_ARGS, "-ccbin", str(script)),
        outcome="skipped",
    )


@needs_nvcc
def test_the_time_of_compilation(bench):
    bench.put("unit.cpp", "const char *call() { return __TIME__; }\n")
    first, _ = bench.compile(GXX_ARGS)
    time.sleep(1.1)
    second, answer = bench.compile(GXX_ARGS)
    assert answer != "hit"
    assert second != first
    # With a fixed date the object is the same, and may be kept.
    bench.put("unit.cpp", "const char *call() { return __DATE__; }\n")
    check(
        bench,
        lambda: None,
        args=GXX_ARGS,
        before={"SOURCE_DATE_EPOCH": "315532800"},
        after={"SOURCE_DATE_EPOCH": "405532800"},
    )


@needs_nvcc
def test_bytes_that_the_assembler_reads(bench):
    bench.put("blob", "one")
    asm = 'asm(".section .rodata\\n.global blob\\nblob: .incbin \\"blob\\"\\n");\n'
    bench.put("unit.cpp", asm)
    bench.compile(GXX_ARGS)
    bench.put("blob", "two")
    cached, answer = bench.compile(GXX_ARGS)
    assert answer != "hit"
    assert cached == bench.fresh(GXX_ARGS)


@needs_nvcc
def test_neither_the_project_nor_the_user_tells_the_cache_to_look_away(bench):
    for place in (bench.source, bench.root):
        (place / "ccache.conf").write_text(
            "sloppiness = include_file_mtime\nignore_options = -D*\n"
        )
    (bench.source / ".git").mkdir()
    loose = {"CCACHE_IGNOREOPTIONS": "-D*", "CCACHE_DISABLE": "1", "CCACHE_SLOPPINESS": "locale"}
    bench.compile((*GXX_ARGS, "-DONE", "-O1"), **loose)
    assert bench.compile((*GXX_ARGS, "-DONE", "-O1"), **loose)[1] == "hit"
    assert bench.compile((*GXX_ARGS, "-DTWO", "-O1"), **loose)[1] == "miss"


@needs_nvcc
def test_other_programs_behind_the_compiler(bench):
    first, _ = bench.compile(GXX_ARGS)
    assert bench.compile(GXX_ARGS)[1] == "hit"
    other = replace(bench, cache=replace(bench.cache, toolchain="other"))
    assert other.compile(GXX_ARGS) == (first, "miss")


@needs_nvcc
def test_another_place_hits(bench, tmp_path):
    args = (*NVCC_ARGS, "-MD", "-MF", "unit.d")
    first, _ = bench.compile(args)
    moved = tmp_path / "elsewhere" / "slot"
    moved.parent.mkdir()
    bench.root.rename(moved)
    cache = replace(bench.cache, root=moved.parent)
    other = replace(bench, root=moved, cache=cache)
    assert other.compile(args) == (first, "hit")
    # The build tool must look at the headers of this place.
    headers = (other.source / "unit.d").read_text()
    assert "late/found.h" in headers
    assert str(bench.root) not in headers
    assert other.fresh(args) == first


@needs_nvcc
def test_without_depend_mode_the_host_alone_is_overlooked(bench):
    """What the setting is for: the tests above would find it missing."""
    loose = replace(bench, cache=replace(bench.cache, is_depend_mode=False))
    args = tuple(arg for arg in NVCC_ARGS if "sm_80" not in arg)
    loose.compile(args)
    loose.edit("unit.cu", "return 1 + MAYBE", "return 9 + MAYBE")
    cached, answer = loose.compile(args)
    assert answer == "hit"
    assert cached != loose.fresh(args)
