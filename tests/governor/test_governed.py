"""The file that tells under which limits a build ran."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.errors import CacheError, RequestError
from buildkit.governor.governed import parse_governed, read_governed, render_governed
from tests.governor.builds import a_governed


@pytest.mark.parametrize("ended", [None, 1.5])
def test_text_and_back(ended):
    governed = a_governed(ended=ended, status="running")
    assert parse_governed(render_governed(governed)) == governed


def test_the_whole_time_is_known_when_it_has_ended():
    assert a_governed(started=10.0, ended=12.5).whole_seconds == 2.5
    assert a_governed(ended=None).whole_seconds is None


def test_keys_of_a_later_release_are_passed_over():
    text = json.dumps({**asdict(a_governed()), "colour": "blue"})
    assert parse_governed(text) == a_governed()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cap_bytes", 0),
        ("cap_bytes", "12"),
        ("cpus", True),
        ("started", float("nan")),
        ("ended", "never"),
        ("first_record", -1),
        ("status", "fine"),
        ("status", []),
        ("hard_cap", None),
    ],
)
def test_a_wrong_value_is_named(key, value):
    text = json.dumps({**asdict(a_governed()), key: value})
    with pytest.raises(ValueError, match=f"wrong or no value of {key}$"):
        parse_governed(text)


@given(st.text() | st.text('{}[]":,0'))
def test_any_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"^found "):
        parse_governed(text)


def test_no_file_means_that_nothing_was_built(tmp_path):
    with pytest.raises(RequestError, match=r"Make it first\.$"):
        read_governed(tmp_path / "governed.json")
    (tmp_path / "file").touch()
    with pytest.raises(RequestError):
        read_governed(tmp_path / "file" / "governed.json")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]"])
def test_a_damaged_file_is_one_clear_error(tmp_path, data):
    (tmp_path / "governed.json").write_bytes(data)
    with pytest.raises(CacheError, match=r"governed\.json: .*--clean\.$"):
        read_governed(tmp_path / "governed.json")
