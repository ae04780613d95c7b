"""Profiles as text, and from records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.errors import RecipeError
from buildkit.governing import profile_file
from buildkit.governor.profile import (
    Profile,
    Unit,
    parse_profile,
    profile_of,
    read_profile,
    render_profile,
)
from buildkit.paths import data_root
from buildkit.recipe import read_recipe
from buildkit.records import UnitRecord

HEAD = (
    '{"profile": 1, "recipe": "demo", "version": "1.0", "arch": "sm120",'
    ' "compiler": "nvcc 13.0.88", "recorded": "2 CPUs"}'
)
LINE = '{"source": "a.cu", "flags": "f", "seconds": 1.5, "cpu_seconds": 3.0, "peak_mib": 200}'


def record(source: str, *, status: int = 0, peak: int = 1 << 30, flags: str = "f") -> UnitRecord:
    return UnitRecord(
        source=source,
        output="build/a.o",
        tool="nvcc",
        decision="pinned",
        start=0.0,
        wall_seconds=2.0,
        cpu_seconds=2.0,
        peak_bytes=peak,
        status=status,
        flags=flags,
    )


def profile_from(*records: UnitRecord) -> Profile:
    return profile_of(
        records,
        root="/src",
        recipe="demo",
        version="1.0",
        arch="sm120",
        compiler="nvcc 13.0.88",
        recorded="2 CPUs",
    )


def test_reads_one_unit_per_line():
    (unit,) = parse_profile(f"{HEAD}\n{LINE}\n", file="p").units
    assert (unit.source, unit.seconds, unit.peak_bytes, unit.cpus) == ("a.cu", 1.5, 200 << 20, 2)


units = st.builds(
    Unit,
    source=st.text(min_size=1),
    flags=st.text("0123456789abcdef", max_size=12),
    seconds=st.integers(0, 10**5).map(lambda tenth: tenth / 10),
    cpu_seconds=st.integers(0, 10**5).map(lambda tenth: tenth / 10),
    peak_bytes=st.integers(0, 10**6).map(lambda mib: mib << 20),
    tail_bytes=st.none() | st.integers(0, 10**6).map(lambda mib: mib << 20),
)


@given(st.lists(units, unique_by=lambda unit: (unit.source, unit.flags)))
def test_text_and_back(units):
    units.sort(key=lambda unit: (unit.source, unit.flags))
    profile = Profile(
        recipe="r",
        version="1",
        arch="sm120",
        compiler="nvcc",
        recorded="here",
        units=tuple(units),
    )
    assert parse_profile(render_profile(profile), file="p") == profile


@given(st.text() | st.text('{}[]":,profile 1\n'))
def test_any_other_text_is_refused_with_its_file(text):
    with pytest.raises(RecipeError, match=r"^here\.jsonl: Profile: line 1"):
        parse_profile(text, file="here.jsonl")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "line 1: found no JSON"),
        (f"{HEAD}\n{LINE}\n{{}}\n[1\n", "line 3: found other keys"),
        (f"{HEAD}\n{LINE}\n{{}}\n[1\n", "line 4: found no JSON"),
        (HEAD.replace(": 1,", ": 2,"), "found format 2, allowed 1"),
        (f"{HEAD}\n{LINE.replace('200', '-1')}", "wrong value of peak_mib"),
        (f"{HEAD}\n{LINE.replace('1.5', 'true')}", "wrong value of seconds"),
    ],
)
def test_issues_name_their_line(text, part):
    with pytest.raises(RecipeError) as caught:
        parse_profile(text, file="p")
    assert part in str(caught.value)


def test_records_become_units_with_relative_names():
    found = profile_from(
        record("/src/csrc/a.cu", peak=1 << 30),
        record("/src/csrc/a.cu", status=1, peak=9 << 30),
        record("/src/csrc/a.cu", peak=2 << 30, flags="g"),
        record(""),
    )
    assert [(unit.source, unit.flags, unit.peak_bytes >> 30) for unit in found.units] == [
        ("csrc/a.cu", "f", 1),
        ("csrc/a.cu", "g", 2),
        ("build/a.o", "f", 1),
    ]


SHIPPED = sorted((data_root() / "recipes").glob("*.profile"))


def test_the_kit_ships_profiles():
    assert SHIPPED


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_a_profile_of_the_kit_belongs_to_a_recipe_its_version_and_target(file):
    profile = read_profile(file)
    recipe_file = file.with_name(f"{profile.recipe}.toml")
    recipe = read_recipe(recipe_file)
    assert file == profile_file(recipe_file, profile.arch)
    assert profile.version in {version.version for version in recipe.versions}
    assert profile.arch in recipe.architectures
    assert all(unit.seconds > 0 and unit.peak_bytes > 0 for unit in profile.units)
    assert render_profile(profile) == file.read_text(), "as `buildkit profile` writes it"
