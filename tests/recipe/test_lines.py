"""A recipe with several lines of versions, and the file that runs inside a CMake project."""

from __future__ import annotations

import msgspec
import pytest

from buildkit.errors import RecipeError
from buildkit.paths import data_root
from buildkit.recipe import lock_file, read_recipe, settle, version_of
from buildkit.recipe.check import lint_recipe
from buildkit.recipe.model import ArchSettings, Build, BundledSource, Version
from buildkit.recipe.placeholders import needed_sources
from tests.builders import a_recipe

HERE = BundledSource(path="toy")

TEXT = """\
name = "toy"
summary = "A toy."
homepage = "https://example.org"
default-version = "1.0"
architectures = ["sm90", "sm120"]

[[versions]]
version = "1.0"
source = { kind = "bundled", path = "toy" }

[[versions]]
version = "2.0"
project = "toy-kernel"
requires = ["setuptools>=80"]
source = { kind = "bundled", path = "toy" }

[versions.defines]
B = 2

[build]
requires = ["setuptools"]
project-include = "toy.cmake"

[build.defines]
A = 1
B = 1

[verify]
imports = ["toy"]
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "toy.cmake").write_text("")
    file = tmp_path / "toy.toml"
    file.write_text(TEXT)
    return file


def test_a_version_has_its_own_project_requirements_defines_and_lock(file):
    recipe = read_recipe(file)
    first, second = recipe.versions
    assert settle(recipe, first) == recipe
    settled = settle(recipe, second)
    assert settled.project == "toy-kernel"
    assert settled.build.requires == ("setuptools>=80",)
    assert settled.build.defines == {"A": 1, "B": 2}
    assert lock_file(file, first) == file.with_name("toy.lock")
    assert lock_file(file, second) == file.with_name("toy-2.0.lock")
    _, issues = lint_recipe(file)
    remedies = [issue.remedy for issue in issues if issue.path == ("build", "requires")]
    assert remedies[1] == "Run `buildkit pin toy --version 2.0`."


def test_a_target_needs_the_sources_that_it_is_told_of():
    version = Version(
        version="1.0",
        source=HERE,
        sources={"big": HERE, "absent": HERE, "always": HERE, "never": HERE},
        defines={"DIR": "${sources.big}"},
    )
    recipe = a_recipe(
        versions=(version,),
        build=Build(environment={"X": "a:${sources.always}/b"}),
        arch={"sm120": ArchSettings(defines={"DIR": "${sources.absent}"})},
    )
    assert needed_sources(recipe, version, "sm90") == ("always", "big")
    assert needed_sources(recipe, version, "sm120") == ("absent", "always")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"toy.cmake"', '"../toy.cmake"', "allowed a file beside the recipe file"),
        ('"toy.cmake"', '"/toy.cmake"', "allowed a file beside the recipe file"),
        ('"toy.cmake"', '"other.cmake"', "there is no such file beside the recipe"),
        ('"toy.cmake"', '"toy.cmake"\nbackend = "torch"', "allowed with 'cmake' alone"),
        ("B = 2", "CMAKE_PROJECT_INCLUDE = 'x'", "is set by the kit for build.project-include"),
        ("B = 2", "B = '${sources.x}'", "allowed none"),
        ('"setuptools>=80"', '"setuptools>>80"', "PEP 508"),
        ("B = 2", "'B C' = 2", "the name of a variable"),
    ],
)
def test_what_is_wrong_in_a_line_is_named(file, old, new, told):
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(RecipeError, match=told.replace("[", "\\[")):
        read_recipe(file)


def test_every_target_and_version_of_sgl_kernel_hands_over_the_same_dependencies():
    recipe = read_recipe(data_root() / "recipes" / "sgl-kernel.toml")
    for version in recipe.versions:
        defines = settle(recipe, version).build.defines
        handed = {name for name in defines if name.startswith("FETCHCONTENT_SOURCE_DIR_")}
        for settings in recipe.arch.values():
            merged = defines | settings.defines
            assert handed <= merged.keys()
            kept, dropped = (
                set(str(merged[f"BK_SGL_{what}"]).split(";")) for what in ("KEEP", "DROP")
            )
            assert not kept & dropped
    assert version_of(recipe, "0.4.3").project == "sglang-kernel"
    unpinned = msgspec.to_builtins(version_of(recipe, "0.4.10").source)
    assert "commit" not in unpinned or not unpinned["commit"]
