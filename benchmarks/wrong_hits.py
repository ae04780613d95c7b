"""The hunt for wrong hits: a project is edited at random, compiled by way of the cache and without.

Each step changes one thing: code of the host or of one GPU alone, a header, a flag, a variable. All
units are then compiled twice in the same directory, with the cache of objects and without. The
hunt fails where an object of the cache has other machine code than the fresh one, and where it
proves nothing: fewer than half of the edits changed the code, or a class of edits showed no hits or
no misses.

    python benchmarks/wrong_hits.py [--edits N] [--seed N] [--cuda ROOT] [--without-depend-mode]

Without depend mode, in which ccache asks the preprocessor for one of nvcc's passes, it must fail.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from buildkit.arch import parse_arch
from buildkit.cache.compiled import ObjectCache, ccache_binary
from buildkit.launcher import binary, read_records, render_config
from buildkit.run import ProcessRunner
from buildkit.toolchain.programs import Programs, probe_programs
from buildkit.wheels.elf import read_sections

ONE = """\
#include "common.h"
#include <where.h>
#if __has_include("maybe.h")
#include "maybe.h"
#else
#define MAYBE 0
#endif
#ifndef __CUDA_ARCH__
#include "host.h"
static int of_host() { return @host@ + HOST; }
#elif __CUDA_ARCH__ >= 900
#include "late.h"
#define OWN (@late@ + LATE)
#else
#define OWN (@early@ + EARLY)
#endif
#ifndef FLAG
#define FLAG 0
#endif
#ifndef ENVIRONMENT
#define ENVIRONMENT 0
#endif
__global__ void one(int *out) {
#ifdef __CUDA_ARCH__
  for (int i = 0; i < out[1]; ++i) out[i] += OWN * COMMON + WHERE + MAYBE + FLAG + ENVIRONMENT;
#endif
}
int call_one(int *out) {
  one<<<1, 1>>>(out);
#ifndef __CUDA_ARCH__
  return of_host() + COMMON + WHERE + MAYBE + FLAG + ENVIRONMENT;
#else
  return 0;
#endif
}
"""

TWO = """\
#include "common.h"
#ifdef __CUDACC_DEBUG__
#define DEBUGGED 1
#else
#define DEBUGGED 0
#endif
__global__ void two(float *out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 800
  out[0] = out[1] / (out[2] + @early@ + COMMON);
#else
  out[0] = out[1] / (out[2] + @late@ + COMMON + DEBUGGED);
#endif
}
"""

THREE = """\
#include "common.h"
#include <where.h>
#include "in_path.h"
int three(int given) {
  const char *date = __DATE__;
  return given * @host@ + COMMON + WHERE + IN_PATH + FLAG + date[given & 7];
}
"""

#: The sections that a loader maps or a driver reads; the rest tells of the compilation.
CODE = (".text", ".nv_fatbin", ".rodata", ".data", ".init_array")


@dataclass
class State:
    """All that an edit may change."""

    values: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            (
                *("host", "early", "late", "common", "host.h", "late.h", "early.h", "comment"),
                *("where", "maybe", "in_path"),
                *("define", "response", "options file", "optimise", "host flag", "fast", "order"),
                *("append", "prepend", "cpath", "ptxas", "cudafe", "date"),
            ),
            0,
        )
    )


CLASSES: dict[str, tuple[str, ...]] = {
    "host only": ("host", "host.h"),
    "one GPU only": ("early", "late", "late.h", "early.h"),
    "header": ("common", "where", "maybe", "in_path", "comment"),
    "flag": ("define", "response", "options file", "optimise", "host flag", "fast", "order"),
    "environment": ("append", "prepend", "cpath", "ptxas", "cudafe", "date"),
}

#: How many values a thing takes: few, so that states come back and there is something to hit.
CHOICES = {"host": 4, "early": 4, "late": 4} | dict.fromkeys(
    ("optimise", "host flag", "fast", "order", "prepend", "cpath", "ptxas", "cudafe"), 2
)


def place(state: State, source: Path) -> None:
    """Write the project's files."""
    now = state.values

    def put(name: str, text: str) -> None:
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_text() != text:
            file.write_text(text)

    for name, text in (("one.cu", ONE), ("two.cu", TWO), ("three.cpp", THREE)):
        filled = text
        for word in ("host", "early", "late"):
            filled = filled.replace(f"@{word}@", str(3 + 7 * now[word]))
        put(name, filled)
    put("common.h", f'#define COMMON {11 + now["common"]}\n#include "early.h"\n')
    put("early.h", f"#define EARLY {5 + now['early.h']} // {now['comment']}\n")
    put("late.h", f"#define LATE {23 + now['late.h']}\n")
    put("host.h", f"#define HOST {37 + now['host.h']}\n")
    put("second/where.h", "#define WHERE 1\n")
    put("third/where.h", "#define WHERE 2\n")
    put("first/keep.h", "")
    put("path0/in_path.h", f"#define IN_PATH {41 + now['in_path']}\n")
    put("path1/in_path.h", "#define IN_PATH 59\n")
    put("flags.rsp", f"-DFLAG={now['response']}\n")
    put("flags.opt", f"-Xptxas -O{3 - now['options file']}\n")
    # Appear before what was found until now, or where __has_include asks.
    for name, text, is_there in (
        ("first/where.h", "#define WHERE 3\n", now["where"] == 1),
        ("where.h", "#define WHERE 4\n", now["where"] == 2),
        ("maybe.h", f"#define MAYBE {70 + now['maybe']}\n", now["maybe"] > 0),
    ):
        if is_there:
            put(name, text)
        else:
            (source / name).unlink(missing_ok=True)


def calls(state: State, cuda: Path, source: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the compiler call of each unit, and the variables that it gets."""
    now = state.values
    folders = ["second", "third"] if now["order"] == 0 else ["third", "second"]
    search = [f"-I{source}", f"-I{source}/first", *(f"-I{source}/{name}" for name in folders)]
    common = [*search, f"-O{2 + now['optimise']}", "-MD"]
    nvcc = [
        *(str(cuda / "bin/nvcc"), "-gencode=arch=compute_80,code=sm_80"),
        *("-gencode=arch=compute_90,code=sm_90", *common),
        *([f"-DFLAG={now['define']}"] if now["define"] else []),
        *(["--use_fast_math"] if now["fast"] else []),
        *(["-Xcompiler", "-fno-inline,-O0"] if now["host flag"] else ["-Xcompiler=-fPIC"]),
    ]
    variables = {
        "PATH": os.environ["PATH"],
        "SOURCE_DATE_EPOCH": str(315532800 + 86400 * 40 * now["date"]),
        "CPATH": str(source / f"path{now['cpath']}"),
    }
    flags = {
        "NVCC_APPEND_FLAGS": f"-DENVIRONMENT={now['append']}" if now["append"] else "",
        "NVCC_PREPEND_FLAGS": "-Xptxas -O1" if now["prepend"] else "",
        "PTXAS_FLAGS": "-O0" if now["ptxas"] else "",
        "CUDAFE_FLAGS": "--no_warnings" if now["cudafe"] else "",
    }
    for_nvcc = variables | {name: value for name, value in flags.items() if value}
    return {
        "one": ([*nvcc, "-MF", "one.d", "-c", str(source / "one.cu"), "-o", "one.o"], for_nvcc),
        "two": (
            [
                *(*nvcc, "-MF", "two.d", "--options-file", "../source/flags.opt"),
                *("-c", str(source / "two.cu"), "-o", "two.o"),
            ],
            for_nvcc,
        ),
        "three": (
            [
                *("/usr/bin/g++", *common, "-MF", "three.d", "-c", str(source / "three.cpp")),
                *("-o", "three.o", "@../source/flags.rsp"),
                *(["-fno-inline", "-O0"] if now["host flag"] else []),
            ],
            variables,
        ),
    }


def machine_code(path: Path) -> bytes:
    """Return the sections of an object that hold code and data."""
    found = b""
    with path.open("rb") as file:
        for section in list(read_sections(file)):
            if section.name.startswith(CODE):
                file.seek(section.offset)
                found += section.name.encode() + b"\0" + file.read(section.size_bytes)
    return found


@dataclass
class Hunt:
    """One project, compiled in two ways in one place."""

    root: Path
    cuda: Path
    cache: ObjectCache
    last: dict[str, bytes] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    changed: int = 0
    other_bytes: int = 0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def source(self) -> Path:
        """The project."""
        return self.root / "slot/source"

    def config(self, name: str, *, is_cached: bool) -> Path:
        """Write and return a launcher's configuration."""
        maps = [(self.root / "slot", "/buildkit"), (self.cuda, "/buildkit/cuda")]
        file = self.root / f"{name}.conf"
        tools = {"nvcc": self.cuda / "bin/nvcc", "gcc": "/usr/bin/gcc", "g++": "/usr/bin/g++"}
        file.write_text(
            render_config(
                target=parse_arch("sm120"),
                without_code="keep",
                rules=(),
                tools={name: Path(path) for name, path in tools.items()},
                records=self.root / f"{name}.jsonl",
                maps=maps,
                engine=self.cache.engine(maps) if is_cached else None,
            )
        )
        return file

    def compile(self, state: State, name: str, *, is_cached: bool) -> dict[str, Path]:
        """Compile all units, and return where the objects lie now."""
        config = self.config(name, is_cached=is_cached)
        folder = self.root / "slot/build"
        kept = self.root / name
        for each in (folder, kept):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir(parents=True)

        def run(unit: str, argv: list[str], variables: dict[str, str]) -> Path:
            env = variables | {"BK_LAUNCH_CONFIG": str(config)}
            done = subprocess.run(
                [str(binary("bk-launch")), *argv],
                env=env,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise SystemExit(f"{argv} {variables}:\n{done.stdout}{done.stderr}")
            return Path(shutil.move(folder / f"{unit}.o", kept / f"{unit}.o"))

        with ThreadPoolExecutor(2) as pool:
            todo = calls(state, self.cuda, self.source).items()
            runs = {unit: pool.submit(run, unit, *call) for unit, call in todo}
            return {unit: future.result() for unit, future in runs.items()}

    def step(self, state: State, kind: str, told: str) -> None:
        """Compile a state in both ways and compare."""
        place(state, self.source)
        records = self.root / "cached.jsonl"
        before = len(read_records(records))
        cached = self.compile(state, "cached", is_cached=True)
        fresh = self.compile(state, "fresh", is_cached=False)
        for record in read_records(records)[before:]:
            self.answers[kind, record.objects.partition(":")[0]] += 1
            if record.objects.startswith("skipped"):
                self.answers["skipped", record.objects] += 1
        codes = {unit: machine_code(file) for unit, file in fresh.items()}
        self.changed += bool(self.last) and codes != self.last
        self.last = codes
        for unit, file in fresh.items():
            if machine_code(cached[unit]) != codes[unit]:
                self.wrong.append(f"{unit} after {told}")
            elif cached[unit].read_bytes() != file.read_bytes():
                self.other_bytes += 1


def edited(state: State, choose: random.Random) -> tuple[str, str]:
    """Change one thing of a state; return its class and what was changed."""
    kind = choose.choice(sorted(CLASSES))
    name = choose.choice(CLASSES[kind])
    old = state.values[name]
    new = choose.choice([value for value in range(CHOICES.get(name, 3)) if value != old])
    state.values[name] = new
    return kind, f"{kind}: {name} {old} -> {new}"


def probe(cuda: Path, memo: Path) -> Programs:
    """Return the programs behind the compilers."""
    gcc, gxx = Path("/usr/bin/gcc"), Path("/usr/bin/g++")
    return probe_programs(
        gcc, gxx, cuda, runner=ProcessRunner(), environment=dict(os.environ), memo=memo
    )


def judge(hunt: Hunt, edits: int) -> list[str]:
    """Return why the hunt has failed."""
    issues = [f"wrong: {text}" for text in hunt.wrong]
    if hunt.changed * 2 < edits:
        issues.append(f"only {hunt.changed} of {edits} edits changed the machine code")
    for kind in CLASSES:
        for answer in ("hit", "miss"):
            if not hunt.answers[kind, answer]:
                issues.append(f"no {answer} after an edit of class {kind}")
    return issues


def hunt_in(folder: Path, given: argparse.Namespace) -> list[str]:
    """Hunt, print what came of it, and return why it has failed."""
    known = probe(given.cuda, folder / "memo")
    cache = ObjectCache(
        program=ccache_binary(),
        folder=folder / "objects",
        root=folder,
        toolchain=known.digest,
        search=known.search,
        is_depend_mode=not given.without_depend_mode,
    )
    hunt = Hunt(root=folder, cuda=given.cuda, cache=cache)
    state, choose = State(), random.Random(given.seed)
    hunt.step(state, "first", "nothing")
    start = time.monotonic()
    for number in range(1, given.edits + 1):
        kind, told = edited(state, choose)
        wrong = len(hunt.wrong)
        hunt.step(state, kind, told)
        mark = "WRONG " if len(hunt.wrong) > wrong else ""
        print(f"{number} {time.monotonic() - start:.0f} s  {mark}{told}", flush=True)
    for kind in CLASSES:
        counts = ", ".join(f"{hunt.answers[kind, name]} {name}" for name in ("hit", "miss"))
        print(f"{kind}: {counts}, {hunt.answers[kind, 'skipped']} skipped")
    for (kind, reason), count in hunt.answers.items():
        if kind == "skipped":
            print(f"{count} {reason}")
    print(
        f"{hunt.changed} of {given.edits} edits changed the machine code; {len(hunt.wrong)} wrong"
    )
    print(f"{hunt.other_bytes} objects differ in other bytes than machine code")
    return judge(hunt, given.edits)


def main() -> None:
    """Hunt and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuda", type=Path, default=Path("/usr/local/cuda"))
    parser.add_argument("--without-depend-mode", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        issues = hunt_in(Path(folder).resolve(), given)
    print("\n".join(issues) if issues else "clean")
    sys.exit(bool(issues))


if __name__ == "__main__":
    main()
