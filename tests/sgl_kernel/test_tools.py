"""Which CMake builds sgl-kernel, and what of the system: shown on its twin."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import replace

import pytest
import tomlkit

from buildkit.arch import parse_arch
from buildkit.errors import ArchError
from buildkit.run import ProcessRunner
from buildkit.toolchain.accept import check_cmake
from tests.sgl_kernel.twin import MAKE, Cmake, git, old_cmake, plain

pytestmark = [
    pytest.mark.network,
    pytest.mark.cuda,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH"),
]

MINIMUM = "CMAKE_POLICY_VERSION_MINIMUM"


def mscclpp(cmake: Cmake) -> Cmake:
    """Return a CMake for that dependency alone, which has one of its own."""
    trees = cmake.source.parents[1]
    handed = {"FETCHCONTENT_SOURCE_DIR_DLPACK": str(trees / "dlpack")}
    handed["CMAKE_POLICY_VERSION_MINIMUM"] = cmake.defines["CMAKE_POLICY_VERSION_MINIMUM"]
    return replace(cmake, source=trees / "mscclpp", build=cmake.build / "mscclpp", defines=handed)


def test_a_cmake_before_3_31_fails_and_the_lock_has_none(cmake, twin, tmp_path):
    old = replace(cmake, program=old_cmake(tmp_path, "3.30.5"), build=tmp_path / "b")
    found = old.configure()
    assert found.status == 1
    assert 'Policy "CMP0177" is not known to this version of CMake' in found.errors
    locked = twin.plan()["locked cmake"].split(".")
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
