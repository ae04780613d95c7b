"""Estimates from each kind of evidence."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from buildkit.governor.estimate import (
    MARGIN,
    Call,
    Measured,
    Nearest,
    Prior,
    UnitKey,
    estimate,
    measured_of,
)
from buildkit.governor.profile import Unit
from buildkit.records import UnitRecord

GIB = 1 << 30
CALL = Call(unit=UnitKey("csrc/a.cu", "f1"), language="cuda")
PRIOR = Prior(peak_bytes=6 * GIB, seconds=60.0)


def ran(peak_gib: float, seconds: float = 10.0, *, ran_out: bool = False) -> Measured:
    return Measured(peak_bytes=int(peak_gib * GIB), seconds=seconds, ran_out=ran_out)


def unit(flags: str, peak_gib: float, seconds: float) -> Unit:
    return Unit(
        source="csrc/a.cu",
        flags=flags,
        seconds=seconds,
        cpu_seconds=seconds,
        peak_bytes=int(peak_gib * GIB),
    )


def expect(history=(), profile=(), shown=(), call=CALL, likeness=0.0):
    nearest = Nearest(call.words, likeness=likeness, runs=list(shown))
    return estimate(call, history=history, profile=profile, shown=nearest, prior=PRIOR)


def test_history_comes_first_and_its_largest_peak_counts():
    found = expect([ran(2, 10), ran(3, 30), ran(1, 20)], [unit("f1", 9, 9)], [ran(5)])
    assert (found.basis, found.seconds) == ("history", 20)
    assert found.peak_bytes == int(3 * GIB * 1.05)


def test_a_run_that_ran_out_raises_the_peak_and_says_nothing_of_the_time():
    found = expect([ran(2, 100), ran(4, 7, ran_out=True)])
    assert found.peak_bytes == int(4 * GIB * 1.5 * 1.05)
    assert found.seconds == 100


def test_profile_by_flags_else_the_largest_of_the_source():
    units = [unit("f1", 2, 50), unit("f2", 4, 70)]
    assert expect(profile=units).seconds == 50
    other = Call(unit=UnitKey("csrc/a.cu", "new"), language="cuda")
    found = expect(profile=units, call=other)
    assert (found.basis, found.seconds, found.peak_bytes) == ("profile", 70, int(4 * GIB * 1.1))


def test_the_prior_counts_each_pass():
    assert expect().peak_bytes == 6 * GIB
    call = Call(unit=UnitKey("a.cu", ""), language="cuda", passes=3)
    assert expect(call=call).peak_bytes == 18 * GIB


def test_what_the_build_shows_takes_over_from_the_prior_bit_by_bit():
    peaks = [expect(shown=[ran(1)] * count).peak_bytes for count in (1, 5, 50, 500)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[1] == int((5 * 1 + 2 * 6) / 7 * GIB)
    assert peaks[-1] < 1.1 * GIB


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=40))
def test_shown_peaks_are_a_floor(peaks):
    """Never less than what nine in ten stay below, however small the prior."""
    found = expect(shown=[ran(peak) for peak in peaks])
    assert sum(int(peak * GIB) <= found.peak_bytes + 1 for peak in peaks) >= 0.9 * len(peaks)


def test_the_names_most_like_tell_most():
    """Forward and backward kernels differ more than types do."""
    names = ["flash_fwd_hdim128_bf16.cu", "flash_bwd_hdim128_bf16.cu", "flash_bwd_hdim64_fp16.cu"]
    calls = [Call(unit=UnitKey(f"csrc/{name}", ""), language="cuda") for name in names]
    nearest = Nearest(
        Call(unit=UnitKey("csrc/flash_bwd_hdim64_bf16.cu", ""), language="cuda").words
    )
    assert nearest.hear(calls[0].words, ran(3))
    assert nearest.hear(calls[1].words, ran(6))
    assert nearest.runs == [ran(6)]
    assert not nearest.hear(calls[0].words, ran(3))
    assert nearest.hear(calls[2].words, ran(5))
    assert nearest.runs == [ran(6), ran(5)]


def test_the_more_alike_the_names_the_less_the_prior_counts():
    peaks = [expect(shown=[ran(1)], likeness=likeness).peak_bytes for likeness in (0, 0.5, 0.9, 1)]
    assert peaks == [int(GIB * peak) for peak in (13 / 3, 7 / 2, 2.2 / 1.2, 1)]


def test_a_name_like_no_other_takes_what_there_is():
    nearest = Nearest(frozenset())
    assert nearest.hear(frozenset({"a"}), ran(1))
    assert nearest.hear(frozenset({"b"}), ran(2))
    assert nearest.runs == [ran(1), ran(2)]


# --- tails ---------------------------------------------------------------------------------------


def came_down(peak_gib: float, tail_gib: float) -> Measured:
    return replace(ran(peak_gib), tail_bytes=int(tail_gib * GIB))


def test_a_tail_is_expected_as_the_part_of_the_peak_that_was_kept():
    found = expect(history=[came_down(4, 1), came_down(2, 1)])
    assert found.peak_bytes == int(4 * GIB * MARGIN)
    assert found.tail_bytes == found.peak_bytes // 2
    assert expect(shown=[came_down(4, 1)] * 9).tail_bytes is not None


def test_one_run_that_kept_its_peak_says_that_there_is_no_tail():
    assert expect(history=[came_down(4, 1), ran(4)]).tail_bytes is None
    assert expect(history=[came_down(4, 1), came_down(4, 4)]).tail_bytes is None
    assert expect(shown=[came_down(4, 1), ran(4)]).tail_bytes is None
    assert expect().tail_bytes is None


def test_a_profile_knows_tails():
    units = [replace(unit("f1", 4, 10), tail_bytes=GIB)]
    found = expect(profile=units)
    assert found.tail_bytes == found.peak_bytes // 4


def test_a_record_becomes_a_run_with_its_tail():
    record = UnitRecord(
        source="a.cu",
        output="a.o",
        tool="nvcc",
        decision="pinned",
        start=0.0,
        wall_seconds=10.0,
        cpu_seconds=9.0,
        peak_bytes=1000 << 20,
        status=0,
        paused_seconds=4.0,
        memory=((0.1, 100), (3.0, 990), (3.5, 200), (6.0, 300)),
    )
    assert measured_of(record) == Measured(peak_bytes=1000 << 20, seconds=6.0, tail_bytes=300 << 20)
    killed = replace(record, ended="governor")
    assert measured_of(killed) == Measured(peak_bytes=1000 << 20, seconds=6.0, ran_out=True)
