"""What sgl-kernel fetches while it configures: shown on its twin."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.sgl_kernel.twin import HANDED, MAKE, PROJECT

pytestmark = [
    pytest.mark.network,
    pytest.mark.cuda,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH"),
]

#: What upstream may add one day.
NEW = """
FetchContent_Declare(repo-new GIT_REPOSITORY http://127.0.0.1:1/new.git GIT_TAG main)
FetchContent_Populate(repo-new)
include(${repo-new_SOURCE_DIR}/new.cmake)
"""


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
