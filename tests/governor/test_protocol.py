"""Lines between launcher and governor: what the one writes the other reads; nonsense is none."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buildkit.governor.protocol import (
    ORDERS,
    Ask,
    Began,
    End,
    Out,
    Report,
    Resumed,
    Rss,
    parse_message,
    render_request,
)

ASK = b"ask\t/k\tx.cu\tx.o\tf00d\tcuda\t2\t0"


def escape(text: bytes) -> bytes:
    """As ``Escape`` in ``native/wire.cc`` does; ``wire_test.cc`` holds it to the same examples."""
    return b"".join(
        b"%%%02X" % byte if byte == ord("%") or byte < 0x20 else bytes([byte]) for byte in text
    )


def test_the_examples_of_the_native_test():
    assert escape(b"a\tb\nc\r100%") == b"a%09b%0Ac%0D100%25"
    assert escape(b"\0\x1f\x7f") == b"%00%1F\x7f"


@given(st.binary(), st.binary(), st.binary())
@example(b"%41", b"\xff\xfe", b"\t\n")
def test_what_the_launcher_escapes_reads_back(build, source, output):
    words = [b"ask", escape(build), escape(source), escape(output), b"f00d", b"c++", b"3", b"77"]
    line = b"\t".join(words)
    assert b"\n" not in line
    assert parse_message(line) == Ask(
        build=build.decode(errors="surrogateescape"),
        source=source.decode(errors="surrogateescape"),
        output=output.decode(errors="surrogateescape"),
        flags="f00d",
        language="c++",
        passes=3,
        floor_bytes=77,
    )


@given(st.binary(min_size=1).filter(lambda path: b"\0" not in path))
@example(b"/a\tb\n%41\xff")
def test_a_report_names_its_build_whatever_it_is_called(build):
    name = os.fsdecode(build)
    line = render_request("report", name)
    assert line.count(b"\n") == 1
    assert parse_message(line[:-1]) == Report(name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"began", Began()),
        (b"rss\t4096", Rss(4096)),
        (b"resume\t4096\t12.500", Resumed(4096, 12.5)),
        (b"out\tkernel\t5", Out("kernel", 5)),
        (b"out\tgovernor\t0", Out("governor", 0)),
        (b"end\t137\t1\t0.001", End(137, 1, 0.001)),
    ],
)
def test_each_message(line, message):
    assert parse_message(line) == message


def test_a_call_has_one_pass_at_least():
    asked = parse_message(ASK.replace(b"\t2\t", b"\t0\t"))
    assert isinstance(asked, Ask)
    assert asked.passes == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"start",
        b"began\t1",
        b"rss\t-1",
        b"rss\t1e3",
        b"rss\t" + b"9" * 20,
        "rss\t\u0661".encode(),
        b"resume\t1\tnan",
        b"resume\t1\t-1",
        b"end\t0\t1\tinf",
        b"end\t0\t1",
        b"out\tboredom\t1",
        ASK.replace(b"cuda", b"fortran"),
        ASK + b"\t0",
        ASK[: ASK.rindex(b"\t")],
    ],
)
def test_a_line_that_means_nothing_is_none(line):
    assert parse_message(line) is None


words = st.sampled_from([b"ask", b"rss", b"end", b"resume", b"out", b"report", b"cuda", b"kernel"])
figures = st.sampled_from([b"0", b"-1", b"nan", b"1e999", b"9" * 5000, b"%", b"%4", b"%zz"])


@given(st.lists(st.one_of(words, figures, st.binary()), max_size=9))
def test_no_line_raises(parts):
    parse_message(b"\t".join(parts))


@given(st.binary(max_size=len(ASK)), st.integers(0, len(ASK)))
def test_no_torn_or_spoiled_line_raises(junk, place):
    parse_message(ASK[:place] + junk + ASK[place + len(junk) :])
    parse_message(ASK[:place])


def test_orders_are_lines():
    assert {order[-1:] for order in ORDERS.values()} == {b"\n"}
    assert len(set(ORDERS.values())) == len(ORDERS)
