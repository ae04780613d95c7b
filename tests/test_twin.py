"""The recipe of sgl-kernel on a twin of the project: the whole way, and what each help is for.

``tests/projects/twin/README.md`` lists the traps. Each is shown twice: how it bites someone who
has the tree and CMake but not that one help, and that the kit passes it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import tomlkit

from buildkit.arch import parse_arch
from buildkit.errors import ArchError
from buildkit.launcher import binary, read_records
from buildkit.run import ProcessRunner
from buildkit.toolchain.accept import check_cmake
from buildkit.wheels import read_wheel
from tests.twin import PROJECT, Cmake, Served, git, plain, read_recipe, serve, write_recipe
from tests.world import World

pytestmark = [
    pytest.mark.network,
    pytest.mark.cuda,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH"),
]

MAKE = ("make", "sgl-kernel", "--arch", "sm120", "--out", "out")

#: What the recipe says to CMake about sources.
HANDED = "FETCHCONTENT_.*"


@dataclass(frozen=True)
class Twin:
    """The repositories, and a world in which the recipe was pinned and made."""

    served: Served
    world: World
    made: subprocess.CompletedProcess[str]

    @property
    def wheel(self) -> Path:
        return self.world.root / self.made.stdout.strip()

    def cmake(self, root: Path, program: Path | None = None) -> Cmake:
        """Return a CMake over a copy of the project, told what the plan tells it."""
        (locked,) = (self.world.cache / "environments").glob("*/bin/cmake")
        plan = json.loads(self.world.run("plan", *MAKE[1:4], "--json").stdout)
        trees = self.served.trees
        shutil.copytree(trees, root / "trees", ignore=shutil.ignore_patterns(".git"))
        shutil.copytree(self.world.recipes / "sgl-kernel" / "absent", root / "trees" / "absent")
        defines = {
            name.removeprefix("define "): re.sub(
                r"\$\{sources\.([^}]*)\}", lambda found: str(root / "trees" / found[1]), value
            )
            for name, value in plan["key_fields"].items()
            if name.startswith("define ")
        }
        include = self.world.recipes / "sgl-kernel" / "project.cmake"
        return Cmake(
            program=program or locked,
            ninja=locked.with_name("ninja"),
            source=root / "trees" / "sglang" / "sgl-kernel",
            build=root / "build",
            defines=defines | {"CMAKE_PROJECT_INCLUDE": str(include)},
        )


@pytest.fixture(scope="module")
def twin(tmp_path_factory, locked):
    root = tmp_path_factory.mktemp("twin")
    world = World(root, root / "cache")
    world.cache.mkdir()
    (world.cache / "uv").symlink_to(locked.cache / "uv")
    with serve(root / "server") as served:
        write_recipe(read_recipe(), served, world)
        pinned = world.run("pin", "sgl-kernel")
        assert pinned.returncode == 0, pinned.stderr
        made = world.run(*MAKE)
        assert made.returncode == 0, made.stderr
        yield Twin(served, world, made)


@pytest.fixture(scope="module")
def warm(twin, tmp_path_factory):
    """A CMake that knows its compilers: to find them takes most of a configuration's time."""
    root = tmp_path_factory.mktemp("warm")
    cmake = twin.cmake(root / "work")
    lists = cmake.source / "CMakeLists.txt"
    text = lists.read_text()
    lists.write_text("cmake_minimum_required(VERSION 3.26)\nproject(x LANGUAGES CXX CUDA)\n")
    found = cmake.configure(without=".*")
    assert found.status == 0, found.errors
    lists.write_text(text)
    shutil.copytree(root / "work", root / "kept")
    return cmake


@pytest.fixture
def cmake(warm):
    """The same at its beginning, where it was: a build directory cannot be moved."""
    work = warm.build.parent
    shutil.rmtree(work)
    shutil.copytree(work.parent / "kept", work)
    return warm


@pytest.fixture
def numa(tmp_path):
    """As much of libnuma as CMake looks for."""
    for name in ("include/numa.h", "lib/libnuma.so"):
        file = tmp_path / "numa" / name
        file.parent.mkdir(parents=True)
        file.touch()
    return tmp_path / "numa"


@pytest.fixture
def another(twin, tmp_path):
    """A world over the same sources in which recipe and project can be changed."""
    world = World(tmp_path, tmp_path / "cache")
    world.cache.mkdir()
    for shared in ("environments", "git", "uv"):
        (world.cache / shared).symlink_to(twin.world.cache / shared)
    shutil.copytree(twin.world.recipes, world.recipes)
    shutil.copytree(twin.served.upstream, tmp_path / "upstream")
    recipe = tomllib.loads((world.recipes / "sgl-kernel.toml").read_text())
    recipe["versions"][0]["source"] = {"kind": "local", "path": "../upstream"}
    (world.recipes / "sgl-kernel.toml").write_text(tomlkit.dumps(recipe))
    return world


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


# --- CMake's own version --------------------------------------------------------------------------


def old_cmake(root: Path, version: str) -> Path:
    """Return a CMake of the package index."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(root)]
    subprocess.run([*pip, f"cmake=={version}"], check=True, capture_output=True)
    return root / "cmake" / "data" / "bin" / "cmake"


def mscclpp(cmake: Cmake) -> Cmake:
    """Return a CMake for that dependency alone, which has one of its own."""
    trees = cmake.source.parents[1]
    handed = {"FETCHCONTENT_SOURCE_DIR_DLPACK": str(trees / "dlpack")}
    handed["CMAKE_POLICY_VERSION_MINIMUM"] = cmake.defines["CMAKE_POLICY_VERSION_MINIMUM"]
    return replace(cmake, source=trees / "mscclpp", build=cmake.build / "mscclpp", defines=handed)


MINIMUM = "CMAKE_POLICY_VERSION_MINIMUM"


def test_a_cmake_before_3_31_fails_and_the_lock_has_none(cmake, twin, tmp_path):
    old = replace(cmake, program=old_cmake(tmp_path, "3.30.5"), build=tmp_path / "b")
    found = old.configure()
    assert found.status == 1
    assert 'Policy "CMP0177" is not known to this version of CMake' in found.errors
    plan = json.loads(twin.world.run("plan", *MAKE[1:4], "--json").stdout)
    locked = plan["key_fields"]["locked cmake"].split(".")
    assert [int(part) for part in locked[:2]] >= [3, 31]


def test_cmake_4_refuses_an_old_dependency_of_a_dependency_without_the_define(cmake, numa):
    alone = mscclpp(cmake)
    found = alone.configure(without=MINIMUM, NUMA_ROOT_DIR=numa)
    assert found.status == 1
    assert "dlpack/CMakeLists.txt:1 (cmake_minimum_required)" in found.errors
    assert "Compatibility with CMake < 3.5 has been removed" in found.errors
    assert alone.configure(NUMA_ROOT_DIR=numa).status == 0


def test_cmake_3_31_is_within_the_window_and_needs_no_define(cmake, numa, tmp_path):
    alone = replace(mscclpp(cmake), program=old_cmake(tmp_path / "pip", "3.31.10"))
    assert alone.configure(without=MINIMUM, NUMA_ROOT_DIR=numa).status == 0
    policy = tmp_path / "policy.cmake"
    policy.write_text("cmake_policy(SET CMP0177 NEW)\n")
    assert alone.run("-P", policy).returncode == 0


@pytest.mark.parametrize(("version", "knows_families"), [("3.30.5", False), ("3.31.10", True)])
def test_a_family_of_targets_is_given_only_to_a_cmake_that_knows_it(
    tmp_path, version, knows_families
):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").symlink_to(old_cmake(tmp_path / "pip", version))

    def check(target: str) -> None:
        check_cmake(tmp_path, parse_arch(target), runner=ProcessRunner(), variables=plain())

    check("sm120a")
    if knows_families:
        check("sm120f")
    else:
        with pytest.raises(ArchError, match=r"CMake does not know sm120f \(120f-real\)"):
            check("sm120f")


# --- dependencies ---------------------------------------------------------------------------------


@pytest.fixture
def upstream(cmake, numa):
    """Upstream's way: fetched from the server, without the recipe's file, with 32 threads."""
    own = f"{HANDED}|CMAKE_PROJECT_INCLUDE|SGL_KERNEL_COMPILE_THREADS"
    return cmake.configure(without=own, NUMA_ROOT_DIR=numa)


def test_upstream_fetches_and_compiles_every_target_twice(upstream):
    assert upstream.status == 0, upstream.errors
    codes = upstream.codes()
    both = {f"sm_{code}" for code in ("90", "90a", "100a", "103a", "120a")}
    assert codes["common_ops_sm90_build"] == codes["common_ops_sm100_build"] == both
    assert codes["flashmla_ops"] == {"sm_90a", "sm_100a"}
    # The define says OFF; a plain set() in the file says ON.
    assert codes["flash_ops"] == {"sm_90a"}
    assert "--threads=32" in upstream.commands()["common_ops_sm100_build/gemm.cu"]
    patched = upstream.build / "_deps" / "repo-flashinfer-src" / "include" / "flashinfer"
    assert "FLASHINFER_WARP 32" in (patched / "warp.cuh").read_text()


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


def test_without_the_server_nothing_is_configured_unless_all_is_handed_over(cmake, numa):
    for file in (cmake.source / "CMakeLists.txt", cmake.source / "cmake" / "flashmla.cmake"):
        file.write_text(re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:1", file.read_text()))
    gone = cmake.configure(without=HANDED, NUMA_ROOT_DIR=numa)
    assert gone.status == 1
    assert "cutlass" in gone.errors
    assert cmake.configure().status == 0


def test_a_patch_that_handing_over_leaves_out_shows_in_the_compiler_or_with_the_kit(cmake, another):
    handed = {"FETCHCONTENT_SOURCE_DIR_REPO-FLASHINFER": PROJECT / "flashinfer"}
    assert cmake.configure(**handed).status == 0, "CMake does not mind"
    unit = "CMakeFiles/common_ops_sm100_build.dir/csrc/gemm.cu.o"
    built = cmake.run("--build", cmake.build, "--target", unit)
    assert built.returncode != 0
    assert "flashinfer lacks the patch of sgl-kernel" in built.stdout
    recipe = another.recipes / "sgl-kernel.toml"
    text = recipe.read_text()
    recipe.write_text(text.replace('unpatched = ["repo-flashinfer"]', "unpatched = []"))
    done = another.run(*MAKE)
    assert done.returncode == 1
    assert "leaves out upstream's patch of repo-flashinfer" in done.stderr
    assert another.compiled() == []


NEW = """
FetchContent_Declare(repo-new GIT_REPOSITORY http://127.0.0.1:1/new.git GIT_TAG main)
FetchContent_Populate(repo-new)
include(${repo-new_SOURCE_DIR}/new.cmake)
"""


def test_a_dependency_that_upstream_adds_is_named_before_the_compile(cmake, another):
    for root in (cmake.source, another.root / "upstream"):
        with (root / "CMakeLists.txt").open("a") as file:
            file.write(NEW)
    found = cmake.configure()
    assert found.status == 1
    done = another.run(*MAKE)
    assert done.returncode == 1
    assert "would fetch what no source holds: repo-new" in done.stderr
    assert another.compiled() == []


def test_what_cmake_writes_into_a_dependency_stays_in_one_build(cmake, twin):
    assert cmake.configure().status == 0
    again = cmake.configure()
    assert again.status == 1
    assert "config.h was configured before" in again.errors
    config = "absent/csrc/cutlass/include/cutlass/arch/config.h"
    assert "SM103_ENABLED" in (twin.world.slot / "sources" / config).read_text()
    assert "SM103_ENABLED" not in (twin.world.recipes / "sgl-kernel" / config).read_text()
    done = twin.world.run(*MAKE, "--from-step", "build")
    assert done.returncode == 0, done.stderr


def test_libnuma_is_looked_for_and_missed(cmake, numa):
    alone = mscclpp(cmake)
    # Whatever this machine has of it is not seen.
    root = {"CMAKE_FIND_ROOT_PATH": numa.parent}
    root |= {f"CMAKE_FIND_ROOT_PATH_MODE_{what}": "ONLY" for what in ("INCLUDE", "LIBRARY")}
    found = alone.configure(**root)
    assert found.status == 1
    assert "Could NOT find NUMA (missing: NUMA_INCLUDE_DIRS NUMA_LIBRARIES)" in found.errors
    assert alone.configure(**root, NUMA_ROOT_DIR=numa).status == 0


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_with_mscclpp_the_kit_brings_libnuma_and_lets_the_old_dependency_pass(another, twin):
    recipe = tomllib.loads((another.recipes / "sgl-kernel.toml").read_text())
    for name, variable in (("mscclpp", "REPO-MSCCLPP"), ("dlpack", "DLPACK")):
        recipe["versions"][0]["sources"][name] = {
            "kind": "git",
            "url": f"{twin.served.address}/{name}.git",
            "commit": git(twin.served.trees / name, "rev-parse", "v1"),
        }
        recipe["build"]["defines"][f"FETCHCONTENT_SOURCE_DIR_{variable}"] = f"${{sources.{name}}}"
    recipe["build"]["defines"]["CMAKE_CUDA_FLAGS"] = "-DMOE_DEPTH=4"
    needs = {"debian": "libnuma-dev", "rpm": "numactl-devel"}
    recipe["system"]["headers"].append({"file": "numa.h", **needs})
    recipe["system"]["libraries"] = [{"file": "libnuma.so", **needs}]
    (another.recipes / "sgl-kernel.toml").write_text(tomlkit.dumps(recipe))
    done = another.run(*MAKE)
    assert done.returncode == 0, done.stderr
    assert "sm_120a: code verified, import ok" in done.stderr
    assert "numa.cc" in another.compiled()


# --- units and the wheel --------------------------------------------------------------------------


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
