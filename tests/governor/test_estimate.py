"""Estimates from each kind of evidence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from buildkit.governor.estimate import Call, Measured, Nearest, Prior, UnitKey, estimate
from buildkit.governor.profile import Unit

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
