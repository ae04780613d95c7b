"""CMake projects that fetch what they need: the whole way, with sources that are handed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buildkit.wheels import read_wheel

pytestmark = pytest.mark.network

#: Two dependencies: one is fetched while CMake configures and written to, as some projects do, and
#: plays by the rules of a CMake that 4.0 has forgotten.
PROJECT = """\
cmake_minimum_required(VERSION 3.26)
project(toy LANGUAGES C)
include(FetchContent)
include(${CMAKE_CURRENT_LIST_DIR}/cmake/more.cmake)
cmake_policy(SET CMP0169 OLD)
FetchContent_Declare(repo-numbers GIT_REPOSITORY https://127.0.0.1:1/numbers GIT_TAG v1)
FetchContent_Populate(repo-numbers)
file(WRITE ${repo-numbers_SOURCE_DIR}/three.h "#define THREE 3")
add_subdirectory(${repo-numbers_SOURCE_DIR} numbers-build)
add_library(toy SHARED src/one.c src/two.c)
target_link_libraries(toy PRIVATE numbers)
add_library(useless SHARED src/does_not_exist.c)
install(TARGETS toy LIBRARY DESTINATION toy)
"""

NUMBERS = """\
cmake_minimum_required(VERSION 3.0)
project(numbers LANGUAGES C)
add_library(numbers INTERFACE)
target_include_directories(numbers INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
"""

INCLUDE = """\
if(PROJECT_NAME STREQUAL "toy")
  function(finish)
    set_target_properties(useless PROPERTIES SOURCES "src/one.c" EXCLUDE_FROM_ALL ON)
    target_compile_definitions(toy PRIVATE TWO=2)
  endfunction()
  cmake_language(DEFER CALL finish)
endif()
"""

RECIPE = """
[versions.sources.numbers]
kind = "bundled"
path = "numbers"

[build.defines]
FETCHCONTENT_SOURCE_DIR_REPO-NUMBERS = "${sources.numbers}"
CMAKE_POLICY_VERSION_MINIMUM = "3.5"
"""


@pytest.fixture
def project(world):
    (world.source / "CMakeLists.txt").write_text(PROJECT)
    (world.source / "cmake").mkdir()
    (world.source / "cmake" / "more.cmake").write_text("# nothing more\n")
    numbers = '#include "three.h"\n_Static_assert(THREE == 3, "");\nint two(void) { return TWO; }\n'
    (world.source / "src" / "two.c").write_text(numbers)
    (world.recipes / "numbers").mkdir()
    (world.recipes / "numbers" / "CMakeLists.txt").write_text(NUMBERS)
    (world.recipes / "toy.cmake").write_text(INCLUDE)
    recipe = world.recipes / "toy.toml"
    text = recipe.read_text().replace("[build]\n", '[build]\nproject-include = "toy.cmake"\n')
    recipe.write_text(text + RECIPE)
    return world


def test_a_project_that_fetches_is_built_from_what_the_recipe_hands_over(project):
    done = project.make()
    assert done.returncode == 0, done.stderr
    assert "toy/libtoy.so" in read_wheel(Path(done.stdout.strip())).files
    # CMake wrote into a copy of its own, and a second build begins with what was handed over.
    assert not (project.recipes / "numbers" / "three.h").exists()
    assert (project.slot / "sources" / "numbers" / "three.h").exists()
    plan = json.loads(project.run("plan", "toy", "--arch", "sm120", "--json").stdout)
    assert "FETCHCONTENT_FULLY_DISCONNECTED" in json.dumps(plan)
    include = project.recipes / "toy.cmake"
    include.write_text(include.read_text().replace("TWO=2", "TWO=20"))
    why = project.run("plan", "toy", "--arch", "sm120", "--explain").stdout
    assert "project include: was sha256:" in why


def test_a_dependency_that_upstream_adds_fails_before_the_compile_with_its_name(project):
    more = project.source / "cmake" / "more.cmake"
    more.write_text("FetchContent_Declare(repo-new URL https://127.0.0.1:1/new.zip)\n")
    done = project.make()
    assert done.returncode == 1
    assert "cmake/more.cmake:1: FetchContent_Declare repo-new" in done.stderr
    assert "Traceback" not in done.stderr
    assert project.compiled() == []
    assert json.loads(project.make("--json").stdout)["slug"] == "source"


def test_a_patch_of_upstream_s_that_would_be_left_out_fails_too(project):
    listed = project.source / "CMakeLists.txt"
    listed.write_text(listed.read_text().replace("GIT_TAG v1", "GIT_TAG v1 PATCH_COMMAND sed -i"))
    done = project.make()
    assert done.returncode == 1
    assert "leaves out upstream's patch of repo-numbers" in done.stderr
    recipe = project.recipes / "toy.toml"
    text = recipe.read_text().replace("[build]\n", '[build]\nunpatched = ["repo-numbers"]\n')
    recipe.write_text(text)
    assert project.make().returncode == 0


def test_a_project_include_that_is_not_there_is_wrong_input(project):
    (project.recipes / "toy.cmake").unlink()
    done = project.make()
    assert done.returncode == 2
    assert "toy.toml:" in done.stderr
    assert "'toy.cmake': there is no such file beside the recipe" in done.stderr
