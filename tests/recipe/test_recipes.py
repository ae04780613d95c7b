"""Reading, checking and finding recipes; and the recipes that ship with the kit."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from buildkit.errors import RecipeError
from buildkit.paths import data_root
from buildkit.recipe import (
    find_recipe,
    list_recipes,
    lock_file,
    patch_directory,
    read_recipe,
    version_of,
)
from buildkit.recipe.check import lint_recipe
from buildkit.recipe.model import PypiSource
from buildkit.recipe.reference import render_reference
from buildkit.recipe.schema import render_schema

GOOD = """\
name = "toy"
summary = "A toy."
homepage = "https://example.org"
default-version = "1.0"
architectures = ["sm120"]

[[versions]]
version = "1.0"
source = { kind = "pypi", filename = "toy-1.0.tar.gz", sha256 = "SHA" }

[build]
requires = ["setuptools>=77"]

[verify]
imports = ["toy"]
""".replace("SHA", "ab" * 32)

SHIPPED = list_recipes([data_root() / "recipes"])


def write(folder: Path, text: str, name: str = "toy.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refusal(folder: Path, text: str) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        read_recipe(write(folder, text))
    assert caught.value.remedy
    return caught.value


def test_a_good_recipe_is_read(tmp_path):
    recipe = read_recipe(write(tmp_path, GOOD))
    assert recipe.name == "toy"
    assert isinstance(recipe.versions[0].source, PypiSource)
    assert recipe.build.requires == ("setuptools>=77",)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "told"),
    [
        ("summary =", "sumary =", 2, "sumary", "Did you mean 'summary'?"),
        ("[verify]\nimports", "[verify]\nimport", 15, "verify.import", "Did you mean 'imports'?"),
        ('"1.0"\narch', '"1.1"\narch', 4, "default-version", "allowed one of the versions: 1.0"),
        ('["sm120"]', '["sm122"]', 5, "architectures[0]", "Did you mean 'sm121'?"),
        ('["sm120"]', '"sm120"', 5, "architectures", "Expected array, got str"),
        ('name = "toy"', 'name = "toys"', 1, "name", "in a file named 'toy.toml'"),
        ('"pypi"', '"pypy"', 9, "versions[0].source.kind", "'pypi'"),
        ("ab" * 32, "AB" * 32, 9, "versions[0].source.sha256", "64 lower-case hexadecimal"),
        ("toy-1.0.tar", "../toy-1.0.tar", 9, "versions[0].source.filename", "without directories"),
        ("setuptools>=77", "setuptools>>77", 12, "build.requires[0]", "PEP 508"),
        ("setuptools>=77", "x @ https://e.org/x", 12, "build.requires[0]", "an address"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, old, new, line, key, told):
    assert old in GOOD
    error = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert told in str(error)
    assert error.where is not None
    assert (error.where.line, error.where.key) == (line, key)


@pytest.mark.parametrize(
    ("extra", "key", "told"),
    [
        ("[build.environment]\nPATH = '/x'", "build.environment.PATH", "set by the kit itself"),
        ("[build.environment]\n'A B' = 'x'", "build.environment.A B", "name of a variable"),
        ("[toolchain]\ncuda = 'twelve'", "toolchain.cuda", "PEP 440 range"),
        ("[memory]\ncuda = 'much'", "memory.cuda", "with kib, mib"),
        ("[arch.sm90]\ncode = 'sm90a'", "arch.sm90", "allowed sm120"),
        (
            "[[versions]]\nversion = 'one'\nsource = { kind = 'bundled', path = 'x' }",
            "versions[1].version",
            "PEP 440",
        ),
        ("[flags]\nreplace = [{ old = 'x' }]", "flags.replace[0].old", "begins with '-'"),
        ("[build.defines]\nX = '${sources.y}'", "build.defines.X", "allowed none"),
        (
            "[[versions]]\nversion = '1.0'\nsource = { kind = 'bundled', path = 'x' }",
            "versions[1].version",
            "stands here twice",
        ),
        (
            "[[versions]]\nversion = '2'\nsource = { kind = 'bundled', path = '../x' }",
            "versions[1].source.path",
            "beside the recipe file",
        ),
        (
            "[[versions]]\nversion = '2'\nsource = { kind = 'git', url = 'ext::sh -c id' }",
            "versions[1].source.url",
            "https, ssh or file",
        ),
        (
            "[[versions]]\nversion = '2'\n"
            "source = { kind = 'git', url = 'https://e.org/x', commit = 'abc' }",
            "versions[1].source.commit",
            "40 hexadecimal",
        ),
        (
            "[[versions]]\nversion = '2'\n"
            "source = { kind = 'archive', url = 'http://e.org/x.zip' }",
            "versions[1].source.url",
            "https or file",
        ),
        (
            "[[versions]]\nversion = '2'\npatches = ['../x']\n"
            "source = { kind = 'bundled', path = 'x' }",
            "versions[1].patches[0]",
            "without directories",
        ),
    ],
)
def test_values_that_no_type_catches_are_refused(tmp_path, extra, key, told):
    text = f"{GOOD}\n{extra}\n"
    error = refusal(tmp_path, text)
    assert told.lower() in str(error).lower()
    assert error.where is not None
    assert error.where.key == key


def test_all_unknown_keys_are_told_at_once(tmp_path):
    error = refusal(tmp_path, GOOD.replace("summary", "sumary").replace("imports", "import"))
    assert "sumary" in str(error)
    assert "verify.import" in str(error)


@pytest.mark.parametrize(
    ("content", "told"), [(b"name = [", "Not valid TOML"), (b"name = '\xff'", "not UTF-8")]
)
def test_a_file_that_is_no_toml_is_refused(tmp_path, content, told):
    file = tmp_path / "toy.toml"
    file.write_bytes(content)
    with pytest.raises(RecipeError, match=told):
        read_recipe(file)


def test_a_directory_or_missing_file_is_refused(tmp_path):
    (tmp_path / "toy.toml").mkdir()
    with pytest.raises(RecipeError, match="cannot be read"):
        read_recipe(tmp_path / "toy.toml")
    with pytest.raises(RecipeError, match="no such file"):
        find_recipe(str(tmp_path / "none.toml"), [])


def test_a_recipe_is_found_by_name_and_the_first_folder_wins(tmp_path):
    mine, kit = tmp_path / "mine", tmp_path / "kit"
    for folder in (mine, kit):
        folder.mkdir()
        write(folder, GOOD)
    write(kit, GOOD.replace('"toy"', '"other"'), "other.toml")
    assert find_recipe("toy", [mine, kit]) == mine / "toy.toml"
    assert list_recipes([mine, kit]) == (kit / "other.toml", mine / "toy.toml")
    with pytest.raises(RecipeError, match="Did you mean 'other'"):
        find_recipe("othr", [mine, kit])


def test_locks_and_patches_lie_beside_the_recipe(tmp_path):
    file = write(tmp_path, GOOD)
    assert lock_file(file) == tmp_path / "toy.lock"
    assert patch_directory(file) == data_root() / "patches" / "toy"
    (tmp_path / "patches" / "toy").mkdir(parents=True)
    assert patch_directory(file) == tmp_path / "patches" / "toy"


def test_a_version_that_is_not_listed_is_the_default_without_its_pins(tmp_path):
    recipe = read_recipe(write(tmp_path, GOOD))
    assert version_of(recipe, None).version == "1.0"
    other = version_of(recipe, "2.0")
    assert other.version == "2.0"
    assert isinstance(other.source, PypiSource)
    assert other.source.sha256 == ""
    with pytest.raises(RecipeError, match="no version 'new'"):
        version_of(recipe, "new")


def test_lint_tells_doubts_that_reading_lets_pass(tmp_path):
    file = write(tmp_path, GOOD.replace('homepage = "https://example.org"\n', ""))
    read_recipe(file)
    _, issues = lint_recipe(file)
    assert [issue.is_error for issue in issues] == [False, False]
    assert {issue.path for issue in issues} == {("homepage",), ("build", "requires")}


def test_the_schema_accepts_what_the_kit_accepts(tmp_path):
    schema = json.loads(render_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads(GOOD), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(GOOD.replace("summary", "sumary")), schema)
    recipe = schema["$defs"]["Recipe"]["properties"]
    assert recipe["default-version"]["description"].startswith("Version that is made")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_recipe_of_the_kit_is_right(file):
    _, issues = lint_recipe(file)
    assert [issue.text for issue in issues if issue.is_error] == []
    jsonschema.validate(tomllib.loads(file.read_text()), json.loads(render_schema()))
    recipe = read_recipe(file)
    assert lock_file(file).is_file()
    assert recipe.verify.imports or recipe.installed_imports


def test_the_reference_page_is_current():
    page = Path(__file__).parents[2] / "docs" / "recipe-reference.md"
    assert page.read_text() == render_reference(), "run `nox -s gen`"


def test_the_kit_ships_its_recipes():
    assert {file.stem for file in SHIPPED} >= {
        "causal-conv1d",
        "demo-kernel",
        "flash-attn",
        "sgl-kernel",
        "vllm",
    }
