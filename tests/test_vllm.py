"""What the recipe of vLLM does inside CMake, on a small project of the same shape.

Upstream's own files are not here. The project below has what the recipe relies on: libraries by the
same names, directories from the environment, sources of a dependency that go into one of them, and
targets that its setup.py builds and installs by name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

from buildkit.paths import data_root
from buildkit.plan import plan_make
from buildkit.recipe import read_recipe
from buildkit.recipe.placeholders import needed_sources
from buildkit.values import SelectedPatch
from tests.builders import a_digest, a_request, some_facts

RECIPE = data_root() / "recipes" / "vllm.toml"
HOME = data_root() / "recipes" / "vllm"

PROJECT = """\
cmake_minimum_required(VERSION 3.26)
project(vllm_extensions LANGUAGES CXX)
include(FetchContent)
set(CUTLASS_REVISION "v4.2.1")
FetchContent_Declare(cutlass SOURCE_DIR $ENV{VLLM_CUTLASS_SRC_DIR})
FetchContent_MakeAvailable(cutlass)
add_library(_C MODULE csrc/one.cpp csrc/mla.cpp)
target_include_directories(_C PRIVATE ${CUTLASS_INCLUDE_DIR})
add_library(_moe_C MODULE csrc/two.cpp)
add_library(cumem_allocator MODULE csrc/three.cpp)
FetchContent_Declare(flashmla SOURCE_DIR $ENV{FLASH_MLA_SRC_DIR})
FetchContent_MakeAvailable(flashmla)
file(READ "${flashmla_SOURCE_DIR}/flash_mla/flash_mla_interface.py" text)
FetchContent_Declare(qutlass SOURCE_DIR $ENV{QUTLASS_SRC_DIR})
FetchContent_MakeAvailable(qutlass)
target_sources(_C PRIVATE ${qutlass_SOURCE_DIR}/qutlass/csrc/gemm.cpp)
FetchContent_Declare(vllm-flash-attn SOURCE_DIR $ENV{VLLM_FLASH_ATTN_SRC_DIR}
  BINARY_DIR ${CMAKE_BINARY_DIR}/vllm-flash-attn)
FetchContent_MakeAvailable(vllm-flash-attn)
install(DIRECTORY ${vllm-flash-attn_SOURCE_DIR}/vllm_flash_attn/
  DESTINATION vllm/vllm_flash_attn COMPONENT _vllm_fa2_C FILES_MATCHING PATTERN "*.py")
"""

VERSION = """\
#define CUTLASS_MAJOR 4
#define CUTLASS_MINOR 2
#define CUTLASS_PATCH 1

#ifdef CUTLASS_VERSIONS_GENERATED
#define CUTLASS_BUILD 0
"""


class Tree:
    """The project, and the CMake of the locked environment."""

    def __init__(self, root, programs):
        self.root = root
        self.build = root / "build"
        self.programs = programs
        self.absent = root / "absent"
        self.version = root / "cutlass" / "include" / "cutlass" / "version.h"
        for folder in ("source/csrc", "cutlass/include/cutlass", "qutlass/qutlass/csrc"):
            (root / folder).mkdir(parents=True)
        (root / "source" / "CMakeLists.txt").write_text(PROJECT)
        for name in ("one", "two", "three", "mla"):
            (root / "source" / "csrc" / f"{name}.cpp").write_text("")
        (root / "qutlass" / "qutlass" / "csrc" / "gemm.cpp").write_text("")
        self.version.write_text(VERSION)
        shutil.copytree(HOME / "absent", self.absent)

    def cmake(self, *args, environment=None):
        return subprocess.run(
            [self.programs / "cmake", *args],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | (environment or {}),
        )

    def configure(self, qutlass=None, **defines: str):
        build = read_recipe(RECIPE).build
        environment, given = (
            {
                name: str(value)
                .replace("${sources.absent}", str(self.absent))
                .replace("${sources.cutlass}", str(self.root / "cutlass"))
                for name, value in table.items()
            }
            for table in (build.environment, build.defines)
        )
        if qutlass is not None:
            environment["QUTLASS_SRC_DIR"] = str(qutlass)
        given |= {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            "CMAKE_INSTALL_PREFIX": str(self.root / "out"),
            "CMAKE_MAKE_PROGRAM": str(self.programs / "ninja"),
            "CMAKE_PROJECT_INCLUDE": str(HOME / "project.cmake"),
            "BK_VLLM_DROP": "csrc/mla.cpp",
            **defines,
        }
        flags = [f"-D{name}={value}" for name, value in given.items()]
        command = ["-G", "Ninja", "-S", self.root / "source", "-B", self.build, *flags]
        return self.cmake(*command, environment=environment)

    def sources(self) -> list[str]:
        """Return the names of the files that would be compiled."""
        entries = json.loads((self.build / "compile_commands.json").read_text())
        return sorted(entry["file"].rpartition("/")[2] for entry in entries)


@pytest.fixture
def tree(tmp_path, locked):
    (programs,) = (locked.cache / "environments").glob("*/bin/cmake")
    return Tree(tmp_path, programs.parent)


@pytest.mark.network
class TestInCMake:
    """Configured by the CMake that the recipes lock."""

    def test_what_is_absent_or_of_no_use_is_left_out_and_all_targets_are_there(self, tree):
        done = tree.configure()
        assert done.returncode == 0, done.stderr
        assert tree.sources() == ["one.cpp", "three.cpp", "two.cpp"]
        assert "buildkit: CUTLASS 4.2.1, as upstream wants it" in done.stdout
        names = ["_C", "_moe_C", "cumem_allocator", "_vllm_fa2_C", "_vllm_fa3_C"]
        done = tree.cmake("--build", tree.build, *(f"--target={name}" for name in names))
        assert done.returncode == 0, done.stdout
        done = tree.cmake("--install", tree.build, "--component", "_vllm_fa2_C")
        assert done.returncode == 0, done.stderr
        out = tree.root / "out" / "vllm" / "vllm_flash_attn"
        assert sorted(path.name for path in out.rglob("*.py")) == [
            "__init__.py",
            "__init__.py",
            "flash_attn_interface.py",
            "rotary.py",
        ]

    def test_a_dependency_that_is_handed_over_is_built(self, tree):
        done = tree.configure(tree.root / "qutlass")
        assert done.returncode == 0, done.stderr
        assert tree.sources() == ["gemm.cpp", "one.cpp", "three.cpp", "two.cpp"]

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"BK_VLLM_KEEP": "_C;_new_C"}, "the project has no library _new_C any more"),
            ({"BK_VLLM_DROP": "csrc/old.cpp"}, "no library has the source csrc/old.cpp any more"),
        ],
    )
    def test_what_upstream_has_renamed_is_named(self, tree, change, told):
        done = tree.configure(**change)
        assert done.returncode == 1
        assert told in " ".join(done.stderr.split())

    def test_another_cutlass_than_upstream_s_is_refused(self, tree):
        tree.version.write_text(VERSION.replace("PATCH 1", "PATCH 0"))
        done = tree.configure()
        assert done.returncode == 1
        told = " ".join(done.stderr.split())
        assert "the recipe hands over CUTLASS 4.2.0, upstream wants v4.2.1" in told


def test_the_plan_names_what_upstream_asks_for_and_fetches_two_sources():
    recipe = read_recipe(RECIPE)
    (version,) = recipe.versions
    assert needed_sources(recipe, version, "sm120") == ("absent", "cutlass")
    patches = tuple(
        SelectedPatch(name=name, file=RECIPE, digest=a_digest(name)) for name in version.patches
    )
    plan = plan_make(recipe, version, a_request(recipe="vllm"), some_facts(patches=patches))
    environment = dict(plan.environment)
    assert environment["TORCH_CUDA_ARCH_LIST"] == "12.0"
    assert environment["VLLM_CUTLASS_SRC_DIR"] == "${sources.cutlass}"
    for name in ("FLASH_MLA", "QUTLASS", "TRITON_KERNELS", "VLLM_FLASH_ATTN"):
        assert environment[f"{name}_SRC_DIR"].startswith("${sources.absent}")
    assert {"eagle3-targets", "deepseek-eagle3-states", "kimi-k25-eagle3-states"} <= {
        patch.name for patch in plan.patches
    }
    assert version.version == environment["VLLM_VERSION_OVERRIDE"]


# --- without FlashAttention -----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package ``vllm`` with the stand-in in it, and the one class of vLLM that it takes."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    stand_in = HOME / "absent" / "flash-attention" / "vllm_flash_attn"
    shutil.copytree(stand_in, tmp_path / "vllm" / "vllm_flash_attn")
    name = "vllm.model_executor.layers.rotary_embedding.common"
    common = ModuleType(name)

    class ApplyRotaryEmb:
        @staticmethod
        def forward_static(x, cos, sin, is_neox_style):
            return x, cos, sin, is_neox_style

    common.ApplyRotaryEmb = ApplyRotaryEmb
    monkeypatch.syspath_prepend(tmp_path)
    parts = name.split(".")
    for end in range(2, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setitem(sys.modules, name, common)
    yield
    for known in [known for known in sys.modules if known.partition(".")[0] == "vllm"]:
        del sys.modules[known]


@pytest.mark.usefixtures("package")
def test_vllm_imports_without_flash_attention_and_a_call_explains():
    module = import_module("vllm.vllm_flash_attn")
    assert not module.is_fa_version_supported(2)
    assert "no FlashAttention" in module.fa_version_unsupported_reason(2)
    for name in ("flash_attn_varlen_func", "get_scheduler_metadata"):
        with pytest.raises(NotImplementedError, match=r"--attention-backend FLASHINFER"):
            getattr(module, name)(1, fa_version=2)
    rotary = import_module("vllm.vllm_flash_attn.layers.rotary")
    assert rotary.apply_rotary_emb("x", "c", "s", True) == ("x", "c", "s", False)
