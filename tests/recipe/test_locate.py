"""The line and the key of what is wrong in a TOML file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.recipe.locate import locate, render_key

TEXT = '''\
# a comment with [brackets] and = signs
name = "x"  # name = 2
dotted.inner = 1

[build]
requires = [
  "a[extra]>=1",  # ]
  'b',
]
defines = { A = "x, y = 1", "B C" = true }
text = """
[versions]
fake = 1
"""

[[versions]]
version = "1"
[versions.source]
kind = "pypi"
[versions.sources.cutlass]
url = "u"

[[versions]]
version = "2"
source = { kind = "git", url = "a#b" }
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("dotted", "inner"), 3),
        (("build",), 5),
        (("build", "requires"), 6),
        (("build", "requires", 0), 7),
        (("build", "requires", 1), 8),
        (("build", "defines", "A"), 10),
        (("build", "defines", "B C"), 10),
        (("build", "text"), 11),
        (("versions", 0), 16),
        (("versions", 0, "version"), 17),
        (("versions", 0, "source", "kind"), 19),
        (("versions", 0, "sources", "cutlass", "url"), 21),
        (("versions", 1, "version"), 24),
        (("versions", 1, "source", "url"), 25),
        (("versions", 1, "source", "missing"), 25),
        (("build", "missing", "deeper"), 5),
    ],
)
def test_each_key_has_its_line(path, line):
    assert locate(TEXT, path) == line


def test_what_is_nowhere_has_no_line():
    assert locate(TEXT, ("nothing",)) is None
    assert render_key(("versions", 1, "source")) == "versions[1].source"


keys = st.sampled_from(["a", "b", "c-d", "e_f"])
values = st.recursive(
    st.one_of(st.integers(0, 9), st.booleans(), st.sampled_from(['"x"', "'#'", '"= [ {"'])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)


def render(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(render(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {render(item)}" for key, item in value.items()) + "}"
    return str(value)


def paths(value: Any, path: tuple = ()) -> list[tuple]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += paths(item, (*path, number))
    return found


@given(st.lists(st.tuples(keys, values), max_size=4, unique_by=lambda pair: pair[0]))
def test_every_path_of_a_line_lies_on_that_line(pairs):
    text = "".join(f"{key} = {render(value)}\n" for key, value in pairs)
    document = tomllib.loads(text)
    for line, (key, _) in enumerate(pairs, start=1):
        for path in paths(document[key], (key,)):
            assert locate(text, path) == line
