"""The plan is a function of values, and its key of everything that can change the wheel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from buildkit.arch import parse_arch
from buildkit.borrowed import SystemChoice, SystemPackage
from buildkit.digest import digest_value
from buildkit.errors import ArchError
from buildkit.plan import difference, plan_make
from buildkit.recipe.model import (
    ArchSettings,
    Build,
    FlagReplacement,
    Flags,
    Verify,
)
from buildkit.values import ProjectInclude, Unpinned
from tests.builders import (
    a_digest,
    a_lock,
    a_patch,
    a_python,
    a_recipe,
    a_request,
    a_source,
    a_tool,
    a_toolchain,
    some_facts,
)

if TYPE_CHECKING:
    from buildkit.recipe.model import Recipe
    from buildkit.request import Request
    from buildkit.values import Facts, Plan


def plan(
    recipe: Recipe | None = None, request: Request | None = None, facts: Facts | None = None
) -> Plan:
    recipe = recipe or a_recipe()
    return plan_make(recipe, recipe.versions[0], request or a_request(), facts or some_facts())


def with_build(**changes: object) -> Recipe:
    return a_recipe(build=msgspec.structs.replace(a_recipe().build, **changes))


def an_include(text: str = "x") -> ProjectInclude:
    return ProjectInclude(file=Path("/recipes/toy.cmake"), digest=a_digest(text))


CHANGES: dict[str, Plan] = {
    "source": plan(facts=some_facts(source=a_source(sha256=a_digest("other")))),
    "subdirectory": plan(facts=some_facts(source=a_source(subdirectory="inner"))),
    "further source": plan(facts=some_facts(extra_sources=(("cutlass", a_source()),))),
    "patch added": plan(facts=some_facts(patches=(a_patch(),))),
    "patch edited": plan(facts=some_facts(patches=(a_patch(text="other"),))),
    "patch renamed": plan(facts=some_facts(patches=(a_patch(name="other"),))),
    "target": plan(request=a_request(arch=parse_arch("sm90"))),
    "variant": plan(request=a_request(arch=parse_arch("sm120f"))),
    "recipe's variant": plan(a_recipe(arch={"sm120": ArchSettings(code="sm120")})),
    "define": plan(with_build(defines={"FA3": False})),
    "define by target": plan(
        a_recipe(arch={"sm120": ArchSettings(code="sm120a", defines={"FA3": True})})
    ),
    "project include": plan(facts=some_facts(project_include=an_include())),
    "project include edited": plan(facts=some_facts(project_include=an_include("other"))),
    "environment": plan(with_build(environment={"FORCE": "TRUE"})),
    "config setting": plan(with_build(config_settings={"a": "b"})),
    "backend": plan(with_build(backend="torch")),
    "flag rule": plan(
        a_recipe(flags=Flags(replace=(FlagReplacement(old="--threads=*", language="cuda"),)))
    ),
    "without code": plan(a_recipe(flags=Flags(without_code="replace"))),
    "verification": plan(a_recipe(verify=Verify(imports=("toy",)))),
    "torch": plan(a_recipe(torch=True)),
    "project": plan(a_recipe(project="toy-kernel")),
    "python": plan(facts=some_facts(python=a_python(tag="cp312"))),
    "platform": plan(facts=some_facts(python=a_python(platform="linux_aarch64"))),
    "python version": plan(facts=some_facts(python=a_python(version="3.11.8"))),
    "python flags": plan(facts=some_facts(python=a_python(flags=a_digest("-O3")))),
    "launcher": plan(facts=some_facts(launcher=a_digest("launch.cc"))),
    "linker": plan(
        facts=some_facts(toolchain=a_toolchain(tools=(*a_toolchain().tools, a_tool("ld", "2.40"))))
    ),
    "libc": plan(facts=some_facts(python=a_python(libc="glibc-2.39"))),
    "compiler version": plan(
        facts=some_facts(toolchain=a_toolchain(tools=(a_tool("nvcc", "13.1.0"),)))
    ),
    "compiler bytes": plan(
        facts=some_facts(
            toolchain=a_toolchain(
                tools=(a_tool("nvcc", "13.0.88", "patched"), *a_toolchain().tools[1:])
            )
        )
    ),
    "CUDA wheels": plan(facts=some_facts(toolchain=a_toolchain(cuda_lock=a_lock(nvcc="13.0")))),
    "locked version": plan(facts=some_facts(lock=a_lock(setuptools="85.0.0"))),
    "locked bytes": plan(
        facts=some_facts(lock=replace(a_lock(setuptools="84.0.0"), digest=a_digest("rebuilt")))
    ),
    "no local version": plan(request=a_request(has_local_version=False)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_can_change_the_wheel_changes_the_key(name: str) -> None:
    assert CHANGES[name].key != plan().key
    assert difference(plan().key_fields, CHANGES[name].key_fields)


def test_no_two_changes_share_a_key() -> None:
    keys = {changed.key for changed in CHANGES.values()}
    assert len(keys) == len(CHANGES)


@pytest.mark.parametrize(
    "same",
    [
        plan(facts=some_facts()),
        plan(request=a_request(out=Path("/elsewhere"), jobs=3, memory_bytes=1, is_offline=True)),
        plan(a_recipe(summary="Other words.", homepage="https://example.org")),
        plan(facts=some_facts(python=a_python(executable=Path("/opt/python")))),
        plan(facts=some_facts(toolchain=a_toolchain(cuda_root=Path("/opt/cuda")))),
        plan(facts=some_facts(source=a_source(filename="renamed.tar.gz"))),
    ],
)
def test_what_cannot_change_the_wheel_keeps_the_key(same: Plan) -> None:
    assert same.key == plan().key


def test_the_key_is_the_digest_of_its_explanation() -> None:
    made = plan()
    assert made.key == digest_value([[field.name, field.value] for field in made.key_fields])
    assert difference(made.key_fields, made.key_fields) == ()


def test_a_difference_names_what_was_and_what_is() -> None:
    old, new = plan(), CHANGES["compiler version"]
    lines = difference(old.key_fields, new.key_fields)
    assert lines[0].startswith("tool nvcc: was 13.0.88 sha256:")
    assert ", is 13.1.0 sha256:" in lines[0]
    assert any(line.startswith("tool gcc: was ") and line.endswith("is gone") for line in lines)


def test_the_local_version_tells_what_the_wheel_is_for() -> None:
    made = plan(a_recipe(torch=True), facts=some_facts(lock=a_lock(torch="2.14.1+cu130")))
    assert made.local_version == f"cu130.sm120.torch2.14.k{made.key[:8]}"
    assert plan().local_version == f"cu130.sm120.k{plan().key[:8]}"
    assert CHANGES["no local version"].local_version == ""


def test_the_target_reaches_the_build_in_each_ecosystem_s_spelling() -> None:
    recipe = a_recipe(
        build=Build(
            arch_environment={"FLASH_ATTN_CUDA_ARCHS": "number", "FI_LIST": "flashinfer"},
            defines={"FA3": False, "N": 3, "CMAKE_CXX_STANDARD": "20"},
        ),
        arch={"sm120": ArchSettings(code="sm120f", defines={"N": 4}, environment={"E": "1"})},
    )
    made = plan(recipe)
    assert dict(made.environment) == {
        "E": "1",
        "FI_LIST": "12.0f",
        "FLASH_ATTN_CUDA_ARCHS": "120",
        "TORCH_CUDA_ARCH_LIST": "12.0",
    }
    assert dict(made.defines) == {
        "CMAKE_CUDA_ARCHITECTURES": "120f-real",
        "CMAKE_CXX_STANDARD": "20",
        "FA3": "OFF",
        "N": "4",
    }


def test_a_target_that_the_recipe_does_not_support_is_refused() -> None:
    with pytest.raises(ArchError, match="Recipe toy does not support sm100; it supports sm120, s"):
        plan(request=a_request(arch=parse_arch("sm100")))


def test_an_unpinned_source_is_planned_and_known() -> None:
    missing = Unpinned(description="git https://example.org", reason="no commit")
    made = plan(facts=some_facts(extra_sources=(("cutlass", missing),)))
    assert made.unpinned == (missing,)
    assert plan().unpinned == ()


def test_what_is_handed_over_is_all_there_is():
    made = plan(with_build(defines={"FETCHCONTENT_SOURCE_DIR_X": "/x"}))
    assert dict(made.defines)["FETCHCONTENT_FULLY_DISCONNECTED"] == "ON"
    assert "FETCHCONTENT_FULLY_DISCONNECTED" not in dict(plan().defines)


def test_packages_of_the_system_are_in_the_key_by_version_and_digest():
    package = SystemPackage(
        name="libnuma-dev",
        version="2.0-1",
        architecture="amd64",
        sha256=a_digest("deb"),
        filename="libnuma-dev.deb",
    )
    facts = some_facts(system=SystemChoice(packages=(package,)))
    recipe = a_recipe()
    plan = plan_make(recipe, recipe.versions[0], a_request(), facts)
    told = {field.name: field.value for field in plan.key_fields}
    assert told["system package libnuma-dev"] == f"2.0-1 amd64 sha256:{a_digest('deb')}"
    other = plan_make(recipe, recipe.versions[0], a_request(), some_facts())
    assert plan.key != other.key
