"""What differs between two wheels is told, and why: archives, metadata, libraries, kernels."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from buildkit.cli.app import run
from buildkit.wheels.libraries import compare_kernels, compare_libraries, module_free, read_kernels
from tests.fakes import ScriptedRunner, says
from tests.machine import NVCC, needs_nvcc

NAME = "toy-1.0-py3-none-any.whl"


def a_wheel(folder: Path, *, version="1.0", time=(1980, 1, 1, 0, 0, 0), **files) -> Path:
    """A wheel with some files; ``__`` in a name stands for a slash, ``D`` for its dist-info."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    contents = {"toy__x": b"1", "D__METADATA": f"Name: toy\nVersion: {version}\n\nText\n".encode()}
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in (contents | files).items():
            member = name.replace("__", "/").replace("D/", f"toy-{version}.dist-info/")
            wheel.writestr(zipfile.ZipInfo(member, time), data)
    return path


@pytest.fixture
def diff(tmp_path, capsys, monkeypatch):
    """Run ``buildkit diff --json`` and return its status and document."""
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILDKIT_CONFIG", str(tmp_path / "config.toml"))

    def call(a: Path, b: Path):
        status = run(["diff", str(a), str(b), "--json"])
        return status, json.loads(capsys.readouterr().out)

    return call


def a_library(folder: Path, *, text: str = "x", flags: tuple[str, ...] = ()) -> bytes:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "unit.c"
    source.write_text(f'const char *where = __FILE__; int f(void) {{ return "{text}"[0]; }}\n')
    out = folder / "unit.so"
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", out, source], check=True)
    return out.read_bytes()


def test_a_wheel_is_the_same_as_its_copy(tmp_path, diff):
    status, document = diff(a_wheel(tmp_path / "a"), a_wheel(tmp_path / "b"))
    assert (status, document["same"], document["differences"]) == (0, True, [])


def test_members_that_came_and_went_are_told(tmp_path, diff):
    a, b = a_wheel(tmp_path / "a", toy__old=b""), a_wheel(tmp_path / "b", toy__new=b"", toy__x=b"2")
    status, document = diff(a, b)
    assert status == 1
    assert {(one["name"], one["change"]) for one in document["differences"]} == {
        ("toy/x", "changed"),
        ("toy/old", "removed"),
        ("toy/new", "added"),
    }


def test_times_are_a_reason(tmp_path, diff):
    later = a_wheel(tmp_path / "b", time=(2026, 1, 1, 0, 0, 0))
    _, document = diff(a_wheel(tmp_path / "a"), later)
    (reason,) = document["reasons"]
    assert reason.startswith("timestamps: ")


def test_fields_are_compared_across_versions(tmp_path, diff):
    record = b"toy-%s.dist-info/WHEEL,sha256=x,1\ntoy/x,sha256=%s,1\n"
    a = a_wheel(tmp_path / "a", D__RECORD=record % (b"1.0", b"a"))
    b = a_wheel(tmp_path / "b", version="2.0", D__RECORD=record % (b"2.0", b"b"))
    _, document = diff(a, b)
    fields = {one["name"]: one["fields"] for one in document["differences"]}
    assert fields == {
        "toy-*.dist-info/METADATA": ["Version: 1.0 in A, 2.0 in B"],
        "toy-*.dist-info/RECORD": ["toy/x: sha256=a 1 in A, sha256=b 1 in B"],
    }


def test_compilers_and_inputs_of_the_provenance_are_reasons(tmp_path, diff):
    def provenance(version: str) -> bytes:
        tools = {"gcc": {"version": version}}
        return json.dumps({"tools": tools, "key_fields": [["tool gcc", version]]}).encode()

    a = a_wheel(tmp_path / "a", **{"D__buildkit.json": provenance("12.2")})
    b = a_wheel(tmp_path / "b", **{"D__buildkit.json": provenance("14.1")})
    _, document = diff(a, b)
    assert document["reasons"] == [
        "compilers: tools.gcc.version: 12.2 in A, 14.1 in B",
        "inputs: tool gcc: 12.2 in A, 14.1 in B",
    ]


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[1]", b'{"a": [["b", 1]]}', b"null"])
def test_metadata_that_means_nothing_is_no_traceback(tmp_path, diff, text):
    a = a_wheel(tmp_path / "a", **{"D__buildkit.json": text, "D__RECORD": text})
    status, document = diff(a, a_wheel(tmp_path / "b", **{"D__buildkit.json": b"{}"}))
    assert status == 1
    assert len(document["differences"]) == 2


def test_sections_and_paths_of_libraries_are_told(tmp_path, diff):
    a = a_wheel(tmp_path / "w" / "a", **{"toy__u.so": a_library(tmp_path / "one")})
    b = a_wheel(tmp_path / "w" / "b", **{"toy__u.so": a_library(tmp_path / "two")})
    _, document = diff(a, b)
    (difference,) = document["differences"]
    library = difference["library"]
    assert ".rodata: changed" in library["sections"]
    assert ".text: changed" not in library["sections"]
    assert library["only_in_a"] == [str(tmp_path / "one" / "unit.c")]
    assert library["only_in_b"] == [str(tmp_path / "two" / "unit.c")]
    assert document["reasons"] == ["build paths: directories of the build stand in a library"]


def test_a_section_that_only_one_has_is_told(tmp_path):
    for name, flags in (("one", ()), ("two", ("-g", "-Wl,--build-id=none"))):
        a_library(tmp_path / name, flags=flags)
    found = compare_libraries(tmp_path / "one" / "unit.so", tmp_path / "two" / "unit.so")
    assert ".debug_info: only in B" in found.sections
    assert ".note.gnu.build-id: only in A" in found.sections


def test_internal_symbols_are_told_apart_by_more_than_the_digest_of_a_path():
    assert module_free("_ZN40_GLOBAL__N__3cb8c1e8_8_saxpy_cu_8756b82c1kE") == (
        "_ZN40_GLOBAL__N__*_8_saxpy_cu_8756b82c1kE"
    )
    assert module_free("_Z6kernelPf") == "_Z6kernelPf"


def test_kernels_are_compared_by_name_and_target():
    a = {"sm_120 k": "1", "sm_120 old": "2", "sm_90 k": "3"}
    b = {"sm_120 k": "9", "sm_120 new": "2", "sm_90 k": "3"}
    assert compare_kernels(a, b) == (
        "sm_120 k: changed",
        "sm_120 old: only in A",
        "sm_120 new: only in B",
    )


def test_kernels_are_read_out_of_what_cuobjdump_extracts(tmp_path):
    # Any ELF file will do for a cubin: gcc names a function's section as nvcc does a kernel's.
    flags = ("-ffunction-sections", "-c")
    (tmp_path / "x.1.sm_120a.cubin").write_bytes(a_library(tmp_path / "one", flags=flags))
    runner = ScriptedRunner({"--extract-elf": says()})
    kernels = read_kernels(tmp_path / "x.so", tmp_path, Path("cuobjdump"), runner, {})
    assert list(kernels) == ["sm_120a f"]


@pytest.mark.parametrize("wrong", ["missing", "text", "directory"])
def test_what_is_no_wheel_is_a_usage_error(tmp_path, capsys, monkeypatch, wrong):
    monkeypatch.setenv("BUILDKIT_CONFIG", str(tmp_path / "config.toml"))
    path = tmp_path / "wrong.whl"
    if wrong == "text":
        path.write_text("x")
    elif wrong == "directory":
        path.mkdir()
    assert run(["diff", str(a_wheel(tmp_path / "a")), str(path)]) == 2
    told = capsys.readouterr().err
    assert "wrong.whl" in told
    assert told.count("error:") == 1


def test_a_damaged_member_is_a_usage_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("BUILDKIT_CONFIG", str(tmp_path / "config.toml"))
    whole = a_wheel(tmp_path / "a", D__RECORD=b"a,b,1\n")
    broken = a_wheel(tmp_path / "b", D__RECORD=b"a,c,1\n")
    broken.write_bytes(broken.read_bytes().replace(b"a,c,1", b"a,d,1"))
    assert run(["diff", str(whole), str(broken)]) == 2
    assert "damaged" in capsys.readouterr().err


@pytest.mark.cuda
@needs_nvcc
@pytest.mark.network
def test_a_kernel_that_changed_is_named(tmp_path, diff, monkeypatch):
    wheels = []
    for number in (1, 2):
        source = tmp_path / str(number) / "u.cu"
        source.parent.mkdir()
        source.write_text(
            "__global__ void same(int* x) { *x = 7; }\n"
            f"namespace {{ __global__ void changed(int* x) {{ *x = {number}; }} }}\n"
            "void go(int* x) { changed<<<1, 1>>>(x); }\n"
        )
        library = source.with_suffix(".so")
        flags = ["-shared", "-Xcompiler", "-fPIC", "-arch=sm_120"]
        subprocess.run([NVCC, *flags, "-o", library, source], check=True)
        wheels.append(a_wheel(source.parent, **{"toy__u.so": library.read_bytes()}))
    _, document = diff(*wheels)
    (kernel,) = document["differences"][0]["library"]["kernels"]
    assert kernel.startswith("sm_120 ")
    assert "changed" in kernel
    assert any("tmpxft" in reason for reason in document["reasons"])
