"""CMake's grammar: what one text says, in whatever way it is written."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildkit.drift.grammar import Argument, Command, expand, parse_cmake


def words(text: str) -> list[str]:
    (command,) = parse_cmake(text)
    return [argument.text for argument in command.arguments]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f()", []),
        ("f(a b\n\tc)", ["a", "b", "c"]),
        ("f (a;b)", ["a;b"]),
        ('f("a b" c)', ["a b", "c"]),
        ('f("a\\"b\\\\c")', ['a"b\\c']),
        ('f("one\\\ntwo")', ["onetwo"]),
        ('f("${x}\n#no comment")', ["${x}\n#no comment"]),
        ("f([[a ${b} \\c]])", ["a ${b} \\c"]),
        ("f([==[\n]]\n]==] z)", ["]]\n", "z"]),
        ("f(a # b) c\n d)", ["a", "d"]),
        ("f(a #[[ b)\n ]] c)", ["a", "c"]),
        ("f((a) AND b)", ["(", "a", ")", "AND", "b"]),
        ('f(-Da="b c" d)', ['-Da="b c"', "d"]),
        ("f($(make) a\\ b\\;c)", ["$", "(", "make", ")", "a b\\;c"]),
        ("f($<$<C:CUDA>:-x>)", ["$<$<C:CUDA>:-x>"]),
        ("f([a] =b])", ["[a]", "=b]"]),
        ("f(a\\tb)", ["a\tb"]),
        ("\ufefff(a)", ["a"]),
    ],
)
def test_arguments_are_what_cmake_makes_of_them(text, wanted):
    assert words(text) == wanted


def test_commands_have_their_lines_and_lose_their_case():
    parsed = parse_cmake("# why\n\nSet(A b)\n#[[ more\nlines ]]\nif(A) ENDIF()\n")
    assert [(command.name, command.line) for command in parsed] == [
        ("set", 3),
        ("if", 6),
        ("endif", 6),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("f(a", r"line 1: found no '\)'"),
        ("\nf", r"line 2: found '', allowed '\(' after f"),
        ("f(a))", "line 1: found '\\)', allowed the name of a command"),
        ('f("a)', "line 1: .*allowed an argument"),
        ("f([==[a]=])", "allowed ']==]'"),
        ("#[[ never", "allowed ']]'"),
    ],
)
def test_what_does_not_follow_the_grammar_is_named_with_its_line(text, told):
    with pytest.raises(ValueError, match=told):
        parse_cmake(text)


def test_references_are_expanded_as_far_as_they_are_known():
    known = {"A": "x", "B": "${A}/y", "in-x": "deep"}
    assert expand(Argument("${B}/${C}"), known) == "x/y/${C}"
    assert expand(Argument("${in-${A}}"), known) == "deep"
    assert expand(Argument("${A}", "bracket"), known) == "${A}"
    assert expand(Argument("${A}"), {"A": "${A}"}) == "${A}"


def render(text: str, how: str) -> str:
    if how == "quoted":
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    level = "="
    while f"]{level}]" in f"{text}]":
        level += "="
    return f"[{level}[\n{text}]{level}]"


CASE = st.tuples(
    st.text(st.characters(exclude_characters="\r")), st.sampled_from(["quoted", "bracket"])
)
GAPS = st.sampled_from([" ", "\n", "\t ", " # a (comment\n", " #[=[ a ) comment ]=] "])


@given(st.lists(st.tuples(CASE, GAPS), max_size=6), GAPS)
def test_what_is_written_is_what_is_read(cases, gap):
    body = "".join(render(*case) + between for case, between in cases)
    parsed = parse_cmake(f"{gap}f({gap}{body}){gap}")
    assert parsed == (
        Command(
            "f",
            tuple(Argument(text, how) for (text, how), _ in cases),
            parsed[0].line,
        ),
    )


@given(st.text(st.sampled_from('f(a) \n"\\#[]=$;{}'), max_size=40))
def test_any_text_is_read_or_refused(text):
    with suppress(ValueError):
        assert all(command.line <= 1 + text.count("\n") for command in parse_cmake(text))
