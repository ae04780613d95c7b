"""What a CMake project would fetch, beside what its recipe hands over."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from buildkit.drift import check_drift
from buildkit.drift.declared import read_dependencies
from buildkit.errors import SourceError
from buildkit.plan import plan_make
from buildkit.values import PatchedTree, PinnedCommit
from tests.builders import a_digest, a_recipe, a_request, a_source, some_facts
from tests.fakes import RecordingEvents

DECLARE = """\
FetchContent_Declare(repo-{0}
    GIT_REPOSITORY https://example.org/{0}  # where
    GIT_TAG {1})
FetchContent_Populate(repo-{0})
"""

COMMIT = "ab" * 20


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "cmake").mkdir(parents=True)
    return root


def names(root, text: str, environment=None, **defines: str) -> list[str]:
    (root / "CMakeLists.txt").write_text(text)
    found = read_dependencies(root / "CMakeLists.txt", defines, environment)
    return [dependency.name for dependency in found]


def check(root, text: str, *, sources=None, extra=(), unpatched=(), **defines: str):
    (root / "CMakeLists.txt").write_text(text)
    build = msgspec.structs.replace(a_recipe().build, defines=defines, unpatched=unpatched)
    recipe = a_recipe(build=build)
    plan = plan_make(
        recipe, recipe.versions[0], a_request(), some_facts(extra_sources=tuple(extra))
    )
    tree = PatchedTree(path=root, stamp=a_digest(), outcomes=())
    events = RecordingEvents()
    check_drift(plan, tree, sources or {}, events)
    return events.warnings


def test_each_way_to_fetch_is_found(project):
    text = (
        DECLARE.format("one", "v1")
        + """
fetchcontent_populate(two URL https://example.org/two.tar.gz)
ExternalProject_Add(three GIT_REPOSITORY https://example.org/three)
CPMAddPackage("gh:fmtlib/fmt#7.1.3")
CPMAddPackage(NAME five GITHUB_REPOSITORY o/five GIT_TAG v5)
cpmfindpackage(NAME six URL https://example.org/six.zip)
set(GITHUB_ARTIFACTORY "github.com" CACHE STRING "mirror")
FetchContent_Declare(Seven URL https://${GITHUB_ARTIFACTORY}/seven.zip URL_HASH SHA256=00)
"""
    )
    assert names(project, text) == ["repo-one", "two", "three", "fmt", "five", "six", "Seven"]


def test_what_fetches_nothing_is_none(project):
    text = """
# FetchContent_Declare(a URL https://example.org)
message([[FetchContent_Declare(b URL https://example.org)]])
FetchContent_Declare(c SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/c)
ExternalProject_Add(d SOURCE_DIR there DOWNLOAD_COMMAND "")
"""
    assert names(project, text) == []


def test_files_are_followed_as_cmake_reads_them(project):
    (project / "cmake" / "one.cmake").write_text(
        "include(${CMAKE_CURRENT_LIST_DIR}/two.cmake)\n" + DECLARE.format("one", "v1")
    )
    (project / "cmake" / "two.cmake").write_text(
        "include(cmake/one.cmake)\n" + DECLARE.format("two", "v1")
    )
    (project / "cmake" / "FindIt.cmake").write_text(DECLARE.format("it", "v1"))
    (project / "cmake" / "unread.cmake").write_text(DECLARE.format("unread", "v1"))
    (project / "sub").mkdir()
    (project / "sub" / "CMakeLists.txt").write_text(
        "include(${PROJECT_SOURCE_DIR}/cmake/FindIt.cmake)\n" + DECLARE.format("sub", "v1")
    )
    text = """
include(cmake/one.cmake)
include(FetchContent)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_SOURCE_DIR}/cmake)
include(FindIt)
set(WHERE sub)
add_subdirectory(${WHERE})
"""
    assert names(project, text) == ["repo-two", "repo-one", "repo-it", "repo-sub"]


@pytest.mark.parametrize("enter", ["add_subdirectory(${repo-x_SOURCE_DIR} b)", "available"])
def test_a_source_that_is_handed_over_may_fetch_too(project, tmp_path, enter):
    handed = tmp_path / "x"
    handed.mkdir()
    (handed / "CMakeLists.txt").write_text(DECLARE.format("inner", "v1"))
    call = "FetchContent_MakeAvailable(repo-x)" if enter == "available" else enter
    found = names(
        project,
        DECLARE.format("x", "v1") + call,
        **{"FETCHCONTENT_SOURCE_DIR_REPO-X": str(handed)},
    )
    assert found == ["repo-x", "repo-inner"]


BRANCHES = """
if(NOT BINDINGS)
  message(none)
else()
  FetchContent_Declare(nanobind URL https://example.org)
endif()
if(OTHER STREQUAL "x")
  FetchContent_Declare(maybe URL https://example.org)
endif()
"""


def test_a_branch_that_a_define_switches_off_is_left_out_and_no_other(project):
    assert names(project, BRANCHES) == ["nanobind", "maybe"]
    assert names(project, BRANCHES, BINDINGS="OFF") == ["maybe"]
    # Upstream may set over a cache variable, and then the define says nothing.
    assert names(project, f"set(BINDINGS ON)\n{BRANCHES}", BINDINGS="OFF") == ["nanobind", "maybe"]


#: As vLLM takes a directory: from the environment, else from a define, else from a repository.
BY_ENVIRONMENT = """
if(LANGUAGE STREQUAL "CUDA")
  if(DEFINED ENV{X_SRC_DIR})
    set(X_SRC_DIR $ENV{X_SRC_DIR})
  endif()
  if(X_SRC_DIR)
    if(NOT IS_ABSOLUTE X_SRC_DIR)
      get_filename_component(X_SRC_DIR "${X_SRC_DIR}" ABSOLUTE)
    endif()
    FetchContent_Declare(x SOURCE_DIR ${X_SRC_DIR})
  else()
    FetchContent_Declare(x GIT_REPOSITORY https://example.org/x)
  endif()
  FetchContent_MakeAvailable(x)
endif()
"""


def test_a_directory_that_the_environment_hands_over_is_not_fetched(project, tmp_path):
    handed = tmp_path / "x"
    handed.mkdir()
    (handed / "CMakeLists.txt").write_text(DECLARE.format("inner", "v1"))
    environment = {"X_SRC_DIR": str(handed)}
    assert names(project, BY_ENVIRONMENT) == ["x"]
    assert names(project, BY_ENVIRONMENT, {"Y_SRC_DIR": str(handed)}) == ["x"]
    assert names(project, BY_ENVIRONMENT, environment) == ["repo-inner"]


@pytest.mark.parametrize(
    "between",
    [
        "set(X_SRC_DIR)",
        "set(X_SRC_DIR ${UNKNOWN})",
        "if(UNKNOWN)\n set(X_SRC_DIR off)\nendif()",
        "if(UNKNOWN)\n set(X_SRC_DIR on)\nelse()\n set(X_SRC_DIR off)\nendif()",
        "find_path(X_SRC_DIR x.h)",
        "function(f)\n set(X_SRC_DIR off PARENT_SCOPE)\nendfunction()",
        "macro(f)\n set(X_SRC_DIR off)\nendmacro()",
    ],
)
def test_what_may_have_been_set_otherwise_since_is_not_relied_on(project, between):
    text = f"""
set(X_SRC_DIR $ENV{{X_SRC_DIR}})
{between}
if(NOT X_SRC_DIR)
  FetchContent_Declare(x GIT_REPOSITORY https://example.org/x)
endif()
"""
    environment = {"X_SRC_DIR": "/x"}
    assert names(project, text, environment) == ["x"]
    assert names(project, text.replace(between, ""), environment) == []


def test_a_text_that_a_define_settles_is_compared(project):
    text = """
set(DEVICE "cuda" CACHE STRING "which")
if(DEVICE STREQUAL "cpu")
  FetchContent_Declare(x GIT_REPOSITORY https://example.org/x)
endif()
"""
    assert names(project, text) == ["x"]
    assert names(project, text, DEVICE="cpu") == ["x"]
    assert names(project, text, DEVICE="cuda") == []


def test_a_dependency_that_no_source_holds_is_refused_by_name(project):
    text = "\n" + DECLARE.format("known", "v1") + DECLARE.format("new", "v1")
    with pytest.raises(SourceError) as caught:
        check(project, text, **{"FETCHCONTENT_SOURCE_DIR_REPO-KNOWN": "/x"})
    told = str(caught.value)
    assert "toy 1.0 would fetch what no source holds: repo-new." in told
    assert "CMakeLists.txt:6: FetchContent_Declare repo-new" in told
    assert "FETCHCONTENT_SOURCE_DIR_REPO-NEW" in told
    assert caught.value.where.line == 6


def test_a_project_whose_dependencies_are_all_handed_over_passes(project):
    text = DECLARE.format("Known", "v1") + 'CPMAddPackage("gh:fmtlib/fmt#1")\n'
    defines = {"FETCHCONTENT_SOURCE_DIR_REPO-KNOWN": "/x", "CPM_fmt_SOURCE": "/y"}
    assert check(project, text, **defines) == []


def test_nothing_hands_over_an_external_project(project):
    with pytest.raises(SourceError, match="no source holds: tbb"):
        check(project, "ExternalProject_Add(tbb URL https://example.org/tbb.zip)")


PATCHED = """
FetchContent_Declare(dep URL https://example.org/a.zip
  PATCH_COMMAND git apply ${CMAKE_CURRENT_SOURCE_DIR}/fix.patch)
"""


def test_a_patch_that_handing_over_leaves_out_is_refused_until_the_recipe_knows(project):
    handed = {"FETCHCONTENT_SOURCE_DIR_DEP": "/x"}
    with pytest.raises(SourceError, match=r"(?s)leaves out.*patch of dep.*git apply .*fix\.patch"):
        check(project, PATCHED, **handed)
    assert check(project, PATCHED, unpatched=("dep",), **handed) == []


def test_a_name_that_only_cmake_knows_is_told(project):
    text = "function(fetch name)\nFetchContent_Declare(${name} URL https://e.org)\nendfunction()"
    (line,) = check(project, text)
    assert "CMakeLists.txt:2 declares a dependency by a name that only CMake knows" in line


@pytest.mark.parametrize(
    ("source", "declared", "is_told"),
    [
        (PinnedCommit(url="https://e.org", commit="cd" * 20), f"GIT_TAG {COMMIT}", True),
        (PinnedCommit(url="https://e.org", commit=COMMIT), f"GIT_TAG {COMMIT}", False),
        (PinnedCommit(url="https://e.org", commit=COMMIT), "GIT_TAG v1", False),
        (a_source(), f"URL_HASH SHA256={'00' * 32}", True),
        (a_source(), f"URL_HASH SHA256={a_digest('toy').upper()}", False),
    ],
)
def test_another_pin_than_upstream_s_is_told(project, source, declared, is_told):
    text = f"FetchContent_Declare(dep URL https://example.org/x {declared})"
    handed = {"FETCHCONTENT_SOURCE_DIR_DEP": "${sources.dep}"}
    lines = check(project, text, extra=[("dep", source)], **handed)
    assert bool(lines) is is_told


def test_a_file_that_is_no_cmake_is_refused(project):
    with pytest.raises(SourceError, match=r"CMakeLists\.txt: .*line 1: found no '\)'"):
        check(project, "project(x")


def test_another_backend_and_a_project_without_cmake_are_left_alone(project):
    (project / "CMakeLists.txt").write_text("project(x")
    recipe = a_recipe(build=msgspec.structs.replace(a_recipe().build, backend="torch"))
    plan = plan_make(recipe, recipe.versions[0], a_request(), some_facts())
    tree = PatchedTree(path=project, stamp=a_digest(), outcomes=())
    check_drift(plan, tree, {}, RecordingEvents())
    nowhere = replace(tree, path=project / "cmake")
    check_drift(replace(plan, backend="cmake"), nowhere, {}, RecordingEvents())
