"""Reading, rewriting and listing wheels; installers are the reference."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from buildkit.arch import parse_arch
from buildkit.errors import VerifyError
from buildkit.kit import Supply
from buildkit.paths import Paths
from buildkit.plan import plan_make
from buildkit.recipe.model import Verify
from buildkit.run import ProcessRunner
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.cuobjdump import ensure_cuobjdump
from buildkit.toolchain.python import probe_python
from buildkit.values import AlreadyUpstream, Applied, GpuCode, ImportSkipped
from buildkit.verify import check_code
from buildkit.wheels import (
    list_gpu_code,
    read_provenance,
    read_wheel,
    render_provenance,
)
from buildkit.wheels.elf import has_gpu_code
from tests.builders import a_patch, a_recipe, a_request, some_facts
from tests.fakes import RecordingEvents, ScriptedRunner, says
from tests.machine import NVCC, needs_nvcc
from tests.programs import pip
from tests.wheels.toy import a_wheel, rewritten


def test_a_sound_wheel_is_read(tmp_path):
    found = read_wheel(a_wheel(tmp_path))
    assert (found.name, found.version, found.tags) == ("toy-x", "1.0", ("py3-none-any",))
    assert found.requires[0] == "torch"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "toy_x-1.0+cu130-py3-none-any.whl"}, "does not match|version is 1.0"),
        ({"name": "toy_x-1.0-cp311-cp311-linux_x86_64.whl"}, "tags are cp311"),
        ({"record": b"toy_x-1.0.dist-info/RECORD,,\n"}, "RECORD"),
        ({"record": b"toy_x/__init__.py,sha256=AAAA,10\ntoy_x-1.0.dist-info/RECORD,,\n"}, "RECORD"),
        ({"name": "noname.whl"}, "not sound"),
    ],
)
def test_a_wheel_that_disagrees_with_itself_is_refused(tmp_path, changes, told):
    with pytest.raises(VerifyError, match=told):
        read_wheel(a_wheel(tmp_path, **changes))


def test_what_is_no_wheel_is_refused(tmp_path):
    fake = tmp_path / "x-1-py3-none-any.whl"
    fake.write_bytes(b"PK but not really")
    with pytest.raises(VerifyError, match="cannot be read"):
        read_wheel(fake)
    with pytest.raises(VerifyError, match="no wheel"):
        read_wheel(tmp_path / "none-1-py3-none-any.whl")


def test_the_rewritten_wheel_agrees_with_itself(tmp_path):
    path = rewritten(tmp_path)
    found = read_wheel(path)
    assert path.name == "toy_x-1.0+cu130.sm120.k12345678-py3-none-any.whl"
    assert found.version == "1.0+cu130.sm120.k12345678"
    assert found.dist_info == "toy_x-1.0+cu130.sm120.k12345678.dist-info"
    assert "toy_x-1.0+cu130.sm120.k12345678.data/scripts/toy" in found.files
    assert found.requires == ("torch; extra == 'more'", "numpy>=1", "torch==2.14.*")
    assert read_provenance(path) == {"schema": 1}


def test_equal_inputs_give_equal_bytes(tmp_path):
    assert rewritten(tmp_path / "a").read_bytes() == rewritten(tmp_path / "b").read_bytes()


def test_without_a_label_the_version_stays(tmp_path):
    assert rewritten(tmp_path, label="", pins={}).name == "toy_x-1.0-py3-none-any.whl"


def test_pip_installs_and_removes_the_rewritten_wheel(tmp_path):
    path = rewritten(tmp_path)
    site = tmp_path / "site"
    pip("install", "--no-deps", "--no-index", "--target", site, path)
    assert (site / "toy_x-1.0+cu130.sm120.k12345678.dist-info" / "buildkit.json").is_file()
    assert os.access(site / "bin" / "toy", os.X_OK)


# --- provenance -----------------------------------------------------------------------------------


def test_the_provenance_says_what_happened_and_no_path(tmp_path):
    recipe = a_recipe()
    facts = some_facts(patches=(a_patch("one"), a_patch("two")))
    plan = plan_make(recipe, recipe.versions[0], a_request(), facts)
    codes = (GpuCode(library="toy.so", sass=("sm_120a",), ptx=()),)
    data = render_provenance(
        plan,
        (Applied(patch="one", files=("f",)), AlreadyUpstream(patch="two")),
        codes,
        ImportSkipped(modules=("toy",), reason="needs a GPU, and there is none here"),
        "code verified, import NOT run",
    )
    document = json.loads(data)
    assert [patch["outcome"] for patch in document["patches"]] == ["applied", "already upstream"]
    assert document["imports"]["outcome"].startswith("needs a GPU")
    assert document["gpu_code"][0]["sass"] == ["sm_120a"]
    assert document["tools"]["nvcc"]["version"] == "13.0.88"
    assert "/usr/" not in data.decode()


def test_a_wheel_of_others_has_no_provenance(tmp_path):
    with pytest.raises(VerifyError, match="did not make it"):
        read_provenance(a_wheel(tmp_path))


# --- GPU code -------------------------------------------------------------------------------------


def an_elf(*sections: bytes) -> bytes:
    """A little-endian 64-bit ELF file of section headers alone."""
    names = b"\0" + b"\0".join(sections) + b"\0.shstrtab\0"
    table = b"\0" * 64
    for name in sections:
        table += struct.pack("<IIQQQQIIQQ", names.index(name), 1, 0, 0, 0, 0, 0, 0, 0, 0)
    at = 64 + 64 * (len(sections) + 2)
    table += struct.pack(
        "<IIQQQQIIQQ", names.index(b".shstrtab"), 3, 0, 0, at, len(names), 0, 0, 0, 0
    )
    count = len(sections) + 2
    header = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, count, count - 1)
    return header + table + names


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (an_elf(b".text", b".nv_fatbin"), True),
        (an_elf(b".text"), False),
        (an_elf(b".text")[:70], False),
        (b"\x7fELF", False),
    ],
)
def test_gpu_sections_are_found(tmp_path, data, expected):
    file = tmp_path / "x.so"
    file.write_bytes(data)
    with file.open("rb") as stream:
        assert has_gpu_code(stream) is expected


def test_the_code_of_each_library_is_listed(tmp_path):
    wheel = a_wheel(
        tmp_path, **{"toy_x__a.so": an_elf(b".nv_fatbin"), "toy_x__plain.so": an_elf(b".text")}
    )
    runner = ScriptedRunner(
        {
            "--list-elf": says(
                "ELF file    1: a.1.sm_90.cubin\nELF file    2: a.2.sm_120a.cubin\n"
                "ELF file    3: a.3.sm_120a.cubin\nPTX file    1: a.1.sm_120.ptx\n"
            )
        }
    )
    codes = list_gpu_code(wheel, cuobjdump=Path("cuobjdump"), runner=runner, environment={})
    expected = GpuCode(library="toy_x/a.so", sass=("sm_120a", "sm_90"), ptx=("compute_120",))
    assert codes == (expected,)
    broken = ScriptedRunner({"--list-elf": says(status=1, stderr="bad fatbin")})
    with pytest.raises(VerifyError, match=r"cannot read toy_x/a\.so: bad fatbin"):
        list_gpu_code(wheel, cuobjdump=Path("cuobjdump"), runner=broken, environment={})


@pytest.mark.cuda
@pytest.mark.network
@needs_nvcc
def test_a_real_library_is_read(tmp_path):
    source = tmp_path / "x.cu"
    source.write_text("__global__ void kernel() {}\n")
    flags = ["-gencode=arch=compute_120a,code=sm_120a", "-gencode=arch=compute_90,code=compute_90"]
    library = tmp_path / "x.so"
    subprocess.run(
        [NVCC, *flags, "-shared", "-Xcompiler", "-fPIC", "-o", library, source], check=True
    )
    supply = Supply(
        paths=Paths(tmp_path / "cache"),
        environment=os.environ,
        runner=ProcessRunner(),
        events=RecordingEvents(),
        settings=read_index_settings(os.environ),
        is_offline=False,
    )
    memo = supply.paths.memo
    python = probe_python(None, runner=supply.runner, environment=os.environ, memo=memo)
    cuobjdump = ensure_cuobjdump(python, supply)
    found = list_gpu_code(
        library, cuobjdump=cuobjdump, runner=supply.runner, environment=os.environ
    )
    assert found == (GpuCode(library="x.so", sass=("sm_120a",), ptx=("compute_90",)),)


def code(library: str, *sass: str, ptx: tuple[str, ...] = ()) -> GpuCode:
    return GpuCode(library=library, sass=sass, ptx=ptx)


@pytest.mark.parametrize(
    ("codes", "verify", "told"),
    [
        ([code("a.so", "sm_120a")], Verify(libraries=("a.so",)), []),
        ([code("a.so", "sm_120", "sm_120f")], Verify(libraries=("*.so",)), []),
        ([code("a.so", "sm_120", "sm_90")], Verify(), ["nobody asked for (sm_90)"]),
        (
            [code("a.so", "sm_120", ptx=("compute_90",))],
            Verify(),
            ["nobody asked for (compute_90)"],
        ),
        ([code("a.so", "sm_120", "sm_80")], Verify(allow_code=("sm_80",)), []),
        ([code("a.so", "sm_121")], Verify(libraries=("a.so",)), ["nobody asked", "lacks code"]),
        ([], Verify(libraries=("a.so",)), ["a.so lacks code for sm120 (it holds none)"]),
        ([], Verify(libraries=("b*.so",)), ["no file matches 'b*.so'"]),
    ],
)
def test_missing_and_unrequested_code_is_told(codes, verify, told):
    issues = list(check_code(codes, ["a.so"], parse_arch("sm120"), verify))
    assert len(issues) == len(told)
    for issue, part in zip(issues, told, strict=True):
        assert part in issue
