"""What the recipe of sgl-kernel does inside CMake, on a small project of the same shape.

Upstream's own files are not here. The project below has what the recipe relies on: libraries by the
same names, GPU targets in lists of flags, an option that is set over, installations of all of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module, invalidate_caches
from types import ModuleType, SimpleNamespace

import pytest

from buildkit.paths import data_root
from tests.machine import NVCC, needs_nvcc

HOME = data_root() / "recipes" / "sgl-kernel"

PROJECT = """\
cmake_minimum_required(VERSION 3.26)
project(sgl-kernel LANGUAGES CXX CUDA)
cmake_policy(SET CMP0169 OLD)
cmake_policy(SET CMP0177 NEW)
include(FetchContent)
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_SHARED_MODULE_PREFIX "")
FetchContent_Declare(repo-mscclpp URL https://127.0.0.1:1/m.zip)
FetchContent_Populate(repo-mscclpp)
FetchContent_Declare(repo-deepgemm URL https://127.0.0.1:1/d.zip)
FetchContent_Populate(repo-deepgemm)
include_directories(include)
set(FLAGS "-DNDEBUG" "-gencode=arch=compute_90,code=sm_90" "-std=c++17")
if("${CUDA_VERSION}" VERSION_GREATER_EQUAL "12.4")
  set(ENABLE_FA3 ON)
  list(APPEND FLAGS "-gencode=arch=compute_90a,code=sm_90a")
endif()
set(SOURCES csrc/allreduce/mscclpp_allreduce.cu csrc/one.cu csrc/ops.cc)
add_subdirectory(${repo-mscclpp_SOURCE_DIR} mscclpp-build)
foreach(arch sm90 sm100)
  add_library(common_ops_${arch}_build MODULE ${SOURCES})
  target_compile_options(common_ops_${arch}_build PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:${FLAGS} -use_fast_math>)
  target_link_libraries(common_ops_${arch}_build PRIVATE mscclpp_static)
  set_target_properties(common_ops_${arch}_build PROPERTIES
    OUTPUT_NAME common_ops LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${arch})
  install(TARGETS common_ops_${arch}_build LIBRARY DESTINATION sgl_kernel/${arch})
endforeach()
if(ENABLE_FA3)
  add_library(flash_ops MODULE csrc/none.cu)
  target_compile_options(flash_ops PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a>)
  install(TARGETS flash_ops LIBRARY DESTINATION sgl_kernel)
endif()
add_library(spatial_ops MODULE csrc/two.cu)
target_compile_options(spatial_ops PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90,code=sm_90;-O3>)
install(TARGETS spatial_ops LIBRARY DESTINATION sgl_kernel)
add_library(deep_gemm_cpp MODULE ${repo-deepgemm_SOURCE_DIR}/csrc/python_api.cpp)
install(TARGETS deep_gemm_cpp LIBRARY DESTINATION deep_gemm)
install(DIRECTORY ${repo-deepgemm_SOURCE_DIR}/deep_gemm/ DESTINATION deep_gemm)
"""

#: What mscclpp.cc needs of torch, in few words.
HEADER = """\
#pragma once
#include <cstdint>
#include <stdexcept>
#include <vector>
#define TORCH_CHECK(is_fine, told) if (!(is_fine)) throw std::runtime_error(told)
namespace torch { struct Tensor {}; }
using fptr_t = int64_t;
torch::Tensor mscclpp_generate_unique_id();
fptr_t mscclpp_init_context(const torch::Tensor&, const int64_t, const int64_t, torch::Tensor&,
    torch::Tensor&, const int64_t, const std::vector<int64_t>&, const std::vector<int64_t>&,
    const int64_t);
void mscclpp_allreduce(fptr_t, torch::Tensor&, torch::Tensor&, int64_t, int64_t);
"""

OPS = """\
#include "sgl_kernel_ops.h"
void* table[] = {(void*)&mscclpp_generate_unique_id, (void*)&mscclpp_init_context,
                 (void*)&mscclpp_allreduce};
"""

SM120 = {
    "CMAKE_CUDA_ARCHITECTURES": "120a-real",
    "BK_SGL_KEEP": "common_ops_sm100_build;spatial_ops",
    "BK_SGL_DROP": "common_ops_sm90_build;flash_ops;flashmla_ops;deep_gemm_cpp",
}

needs_cuda = [
    pytest.mark.network,
    pytest.mark.cuda,
    needs_nvcc,
]


class Tree:
    """The project, and the CMake of the locked environment."""

    def __init__(self, root, programs):
        self.root = root
        self.source = root / "source"
        self.build = root / "build"
        self.programs = programs
        for folder in ("csrc/allreduce", "include"):
            (self.source / folder).mkdir(parents=True)
        (self.source / "CMakeLists.txt").write_text(PROJECT)
        for name in ("one", "two", "none", "allreduce/mscclpp_allreduce"):
            (self.source / "csrc" / f"{name}.cu").write_text("__global__ void kernel() {}\n")
        (self.source / "csrc" / "ops.cc").write_text(OPS)
        (self.source / "include" / "sgl_kernel_ops.h").write_text(HEADER)
        shutil.copytree(HOME / "absent", root / "absent")

    def cmake(self, *args):
        return subprocess.run(
            [self.programs / "cmake", *args],
            env=os.environ | {"CUDACXX": NVCC},
            capture_output=True,
            text=True,
            check=False,
        )

    def configure(self, **defines: str):
        given = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            "CMAKE_INSTALL_PREFIX": str(self.root / "out"),
            "CMAKE_MAKE_PROGRAM": str(self.programs / "ninja"),
            "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
            "CMAKE_PROJECT_INCLUDE": str(HOME / "project.cmake"),
            "BK_SGL_ABSENT": str(self.root / "absent"),
            "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
            "FETCHCONTENT_SOURCE_DIR_REPO-MSCCLPP": str(self.root / "absent"),
            "FETCHCONTENT_SOURCE_DIR_REPO-DEEPGEMM": str(self.root / "absent"),
            **defines,
        }
        flags = [f"-D{name}={value}" for name, value in given.items()]
        return self.cmake("-G", "Ninja", "-S", self.source, "-B", self.build, *flags)

    def codes(self) -> dict[str, set[str]]:
        """Return the GPU targets of each library's CUDA sources."""
        found: dict[str, set[str]] = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            (library,) = re.findall(r"CMakeFiles/(\w+)\.dir/\S*\.o\b", entry["command"])[:1]
            if entry["file"].endswith(".cu"):
                found.setdefault(library, set()).update(
                    re.findall(r",code=(\S+)", entry["command"])
                )
        return found


@pytest.fixture
def tree(tmp_path, locked):
    (programs,) = (locked.cache / "environments").glob("*/bin/cmake")
    return Tree(tmp_path, programs.parent)


class TestInCMake:
    """Configured and built by the CMake that the recipes lock, with the nvcc of the machine."""

    pytestmark = needs_cuda

    def test_one_target_is_built_and_what_is_of_no_use_is_not_in_the_wheel(self, tree):
        done = tree.configure(**SM120)
        assert done.returncode == 0, done.stderr
        assert tree.codes() == {"common_ops_sm100_build": {"sm_120a"}, "spatial_ops": {"sm_120a"}}
        done = tree.cmake("--build", tree.build)
        assert done.returncode == 0, done.stdout
        assert tree.cmake("--install", tree.build).returncode == 0
        out = tree.root / "out"
        files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
        assert files == [
            "sgl_kernel/flash_ops.py",
            "sgl_kernel/sm100/common_ops.so",
            "sgl_kernel/spatial_ops.so",
        ]
        load = f"import ctypes; ctypes.CDLL({str(out / 'sgl_kernel/sm100/common_ops.so')!r}, 2)"
        subprocess.run([sys.executable, "-c", load], check=True)

    def test_another_target_takes_its_own_set(self, tree):
        done = tree.configure(
            CMAKE_CUDA_ARCHITECTURES="90a-real",
            BK_SGL_KEEP="common_ops_sm90_build;flash_ops;spatial_ops",
            BK_SGL_DROP="common_ops_sm100_build;deep_gemm_cpp",
        )
        assert done.returncode == 0, done.stderr
        assert tree.codes() == {
            "common_ops_sm90_build": {"sm_90a"},
            "flash_ops": {"sm_90a"},
            "spatial_ops": {"sm_90a"},
        }

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"BK_SGL_KEEP": "common_ops_sm120_build"}, "no library common_ops_sm120_build any"),
            ({"BK_SGL_DROP": "spatial_ops"}, "where spatial_ops is installed is not known"),
            ({"CMAKE_CUDA_ARCHITECTURES": "all"}, "names no GPU target"),
        ],
    )
    def test_what_upstream_has_renamed_is_named(self, tree, change, told):
        done = tree.configure(**(SM120 | {"BK_SGL_KEEP": "common_ops_sm100_build"} | change))
        assert done.returncode == 1
        assert told in " ".join(done.stderr.split())

    def test_what_would_stay_in_the_wheel_by_mistake_stops_the_installation(self, tree):
        moved = (
            (tree.source / "CMakeLists.txt").read_text().replace("sgl_kernel/${arch}", "${arch}")
        )
        (tree.source / "CMakeLists.txt").write_text(moved)
        assert tree.configure(**SM120).returncode == 0
        assert tree.cmake("--build", tree.build).returncode == 0
        done = tree.cmake("--install", tree.build)
        assert done.returncode == 1
        assert "common_ops_sm90_build was not installed at sgl_kernel/sm90" in done.stderr

    def test_operators_that_upstream_no_longer_declares_are_named(self, tree):
        header = tree.source / "include" / "sgl_kernel_ops.h"
        header.write_text(HEADER.replace("mscclpp_init_context", "mscclpp_init"))
        done = tree.configure(**SM120)
        assert done.returncode == 1
        assert "sgl_kernel_ops.h declares no mscclpp_init_context" in " ".join(done.stderr.split())


# --- without FlashAttention 3 ---------------------------------------------------------------------

#: What counts of such a module: it does not import without its library, whose operator it calls.
FLASH_ATTN = """\
import sgl_kernel.flash_ops
import torch


def attend(query):
    return torch.ops.sgl_kernel.fwd.default(query)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package ``sgl_kernel``, and a torch that has its operators' namespace."""
    folder = tmp_path / "sgl_kernel"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "flash_attn.py").write_text(FLASH_ATTN)
    torch = ModuleType("torch")
    torch.ops = SimpleNamespace(sgl_kernel=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "sgl_kernel"]:
        del sys.modules[name]


def test_flash_attn_imports_without_its_library_and_a_call_explains(package):
    with pytest.raises(ImportError):
        import_module("sgl_kernel.flash_attn")
    shutil.copy(HOME / "absent" / "flash_ops.py", package)
    invalidate_caches()
    module = import_module("sgl_kernel.flash_attn")
    with pytest.raises(NotImplementedError, match=r"no FlashAttention 3.*--attention-backend"):
        module.attend(None)
