"""What is known of a build's units: through its file and back, and which of it counts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.governor.estimate import Measured, Prior, UnitKey
from buildkit.governor.jobs import Limit
from buildkit.governor.knowledge import Knowledge, read_knowledge, unit_of
from buildkit.governor.profile import Unit
from buildkit.governor.protocol import Ask

GIB = 1 << 30


def a_unit(**changes: object) -> Unit:
    unit = Unit(source="csrc/p.cu", flags="f", seconds=30.0, cpu_seconds=29.0, peak_bytes=2 * GIB)
    return replace(unit, **changes)


def some_knowledge(**changes: object) -> Knowledge:
    known = Knowledge(
        limit=Limit(memory_bytes=16 * GIB, cpus=8),
        roots=("/src", "/build"),
        history={UnitKey("csrc/h.cu", "f"): [Measured(peak_bytes=GIB, seconds=10.0)]},
        profile={"csrc/p.cu": [a_unit()], "csrc/h.cu": [a_unit(source="csrc/h.cu")]},
        priors={
            "cuda": Prior(peak_bytes=6 * GIB, seconds=90.0),
            "c++": Prior(peak_bytes=GIB, seconds=20.0),
            "link": Prior(peak_bytes=GIB, seconds=5.0),
        },
    )
    return replace(known, **changes)


def an_ask(source: str, **changes: object) -> Ask:
    ask = Ask(
        build="/k",
        source=source,
        output="x.o",
        flags="f",
        language="cuda",
        passes=1,
        floor_bytes=0,
    )
    return replace(ask, **changes)


# --- the file ------------------------------------------------------------------------------------


def test_knowledge_goes_through_its_file(tmp_path):
    file = tmp_path / "knowledge"
    known = some_knowledge(
        history={
            UnitKey("a\udc80 \u00e9.cu", "f"): [
                Measured(peak_bytes=1, seconds=0.5, ran_out=True),
                Measured(peak_bytes=2, seconds=0, tail_bytes=1),
            ]
        }
    )
    file.write_text(known.render())
    assert read_knowledge(file) == known


def test_what_this_build_has_shown_stays_with_its_governor(tmp_path):
    file = tmp_path / "knowledge"
    known = some_knowledge()
    known.show(known.call_of(an_ask("x.cu")), Measured(peak_bytes=1, seconds=1.0))
    file.write_text(known.render())
    assert read_knowledge(file).shown == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory_bytes", "16 GiB"),
        ("memory_bytes", -1),
        ("memory_bytes", float("nan")),
        ("cpus", None),
        ("cpus", True),
        ("roots", 5),
        ("roots", [5]),
        ("history", {"a": 1}),
        ("history", [["a.cu", "f", 1, 1.0]]),
        ("history", [["a.cu", "f", "many", 1.0, False]]),
        ("history", [["a.cu", "f", 1, float("inf"), False]]),
        ("history", [[["a.cu"], "f", 1, 1.0, False]]),
        ("profile", [["a.cu", "f", 1.0, 1.0, None]]),
        ("priors", []),
        ("priors", {"cuda": [1, 1.0], "c++": [1, 1.0]}),
        ("priors", {"cuda": [1], "c++": [1, 1.0], "link": [1, 1.0]}),
    ],
)
def test_a_damaged_file_is_told(tmp_path, key, value):
    file = tmp_path / "knowledge"
    file.write_text(json.dumps(json.loads(some_knowledge().render()) | {key: value}))
    with pytest.raises(ValueError, match=r"knowledge|unpack|not enough"):
        read_knowledge(file)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 100_000, b"null"])
def test_a_file_of_something_else_is_told(tmp_path, text):
    file = tmp_path / "knowledge"
    file.write_bytes(text)
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own words, of several kinds
        read_knowledge(file)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_knowledge(tmp_path / "knowledge")


@given(st.data())
def test_no_torn_file_is_read(tmp_path_factory, data):
    text = some_knowledge().render()
    file = tmp_path_factory.mktemp("torn") / "knowledge"
    file.write_text(text[: data.draw(st.integers(0, len(text) - 1))])
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own words, of several kinds
        read_knowledge(file)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "output", "name"),
    [
        ("/src/csrc/a.cu", "a.o", "csrc/a.cu"),
        ("/build/generated.cu", "g.o", "generated.cu"),
        ("csrc/a.cu", "a.o", "csrc/a.cu"),
        ("/elsewhere/a.cu", "a.o", "/elsewhere/a.cu"),
        ("/srcs/a.cu", "a.o", "/srcs/a.cu"),
        ("", "/build/lib.so", "lib.so"),
    ],
)
def test_a_unit_is_named_without_what_moves(source, output, name):
    assert unit_of(source, output, "f", ["/src", "/build"]) == UnitKey(name, "f")


# --- estimates -----------------------------------------------------------------------------------


def test_history_before_profile_before_shown_before_prior():
    known = some_knowledge()

    def basis(source: str) -> str:
        return known.expect(known.call_of(an_ask(source))).basis

    sources = ["/src/csrc/h.cu", "/src/csrc/p.cu", "/src/csrc/new.cu"]
    assert [basis(source) for source in sources] == ["history", "profile", "prior"]
    known.show(known.call_of(an_ask("/src/csrc/other.cu")), Measured(peak_bytes=GIB, seconds=9.0))
    assert [basis(source) for source in sources] == ["history", "profile", "this build"]


def test_history_of_other_flags_does_not_count():
    known = some_knowledge()
    call = known.call_of(an_ask("/src/csrc/h.cu", flags="g"))
    assert known.expect(call).basis == "profile"


def test_only_what_rests_on_this_build_is_a_guess():
    known = some_knowledge()
    calls = [known.call_of(an_ask(f"/src/csrc/{name}.cu")) for name in ("h", "p", "new")]
    assert [known.is_guess(call) for call in calls] == [False, False, True]


def test_what_calls_take_revises_what_is_expected_of_their_like():
    known = some_knowledge()
    new = known.call_of(an_ask("/src/csrc/new.cu"))
    prior = known.expect(new)
    for _ in range(20):
        known.show(
            known.call_of(an_ask("/src/csrc/done.cu")), Measured(peak_bytes=GIB, seconds=9.0)
        )
    revised = known.expect(new)
    assert GIB <= revised.peak_bytes < prior.peak_bytes
    assert 9.0 <= revised.seconds < prior.seconds


def test_the_same_directory_is_part_of_the_name():
    known = some_knowledge()
    for _ in range(50):
        known.show(known.call_of(an_ask("/src/big/a.cu")), Measured(peak_bytes=9 * GIB, seconds=9))
    for _ in range(50):
        known.show(known.call_of(an_ask("/src/tiny/a.cu")), Measured(peak_bytes=GIB, seconds=9))

    def peak(source: str) -> int:
        return known.expect(known.call_of(an_ask(source))).peak_bytes

    assert peak("/src/tiny/b.cu") < 2 * GIB
    assert peak("/src/big/b.cu") == 9 * GIB
    assert peak("/src/unseen/b.cu") == 9 * GIB


def test_what_nothing_like_it_has_shown_says_nothing():
    known = some_knowledge()
    known.show(
        known.call_of(an_ask("/src/a.cpp", language="c++")), Measured(peak_bytes=1, seconds=1)
    )
    known.show(known.call_of(an_ask("/src/a.cu", passes=4)), Measured(peak_bytes=1, seconds=1))
    assert known.expect(known.call_of(an_ask("/src/b.cu"))).basis == "prior"


def test_each_pass_at_once_takes_its_own_memory():
    known = some_knowledge()
    assert known.expect(known.call_of(an_ask("/src/a.cu", passes=3))).peak_bytes == 18 * GIB
