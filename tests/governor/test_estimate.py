"""Estimates from each kind of evidence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from buildkit.governor.estimate import (
    Call,
    Measured,
    Prior,
    UnitKey,
    digest_flags,
    estimate,
    passes_at_once,
)
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


def expect(history=(), profile=(), shown=(), call=CALL):
    return estimate(call, history=history, profile=profile, shown=shown, prior=PRIOR)


def test_history_comes_first_and_its_largest_peak_counts():
    found = expect([ran(2, 10), ran(3, 30), ran(1, 20)], [unit("f1", 9, 9)], [ran(5)])
    assert (found.basis, found.seconds) == ("history", 20)
    assert found.peak_bytes == int(3 * GIB * 1.1)


def test_a_run_that_ran_out_raises_the_peak_and_says_nothing_of_the_time():
    found = expect([ran(2, 100), ran(4, 7, ran_out=True)])
    assert found.peak_bytes == int(4 * GIB * 1.5 * 1.1)
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


def test_threads_beyond_the_passes_do_not_count():
    assert [passes_at_once(*case) for case in ((4, 1), (4, 2), (1, 4), (0, 3))] == [1, 2, 1, 3]


def test_flags_are_the_same_from_another_directory_and_differ_by_option():
    one = digest_flags(["nvcc", "-O3", "-I", "/a/b", "-c", "/s/x.cu", "-o", "/b/x.o", "-MF", "x.d"])
    two = digest_flags(["/opt/nvcc", "-O3", "-I", "/c", "-c", "/t/y.cu", "-o", "y.o", "-MF", "y.d"])
    assert one == two
    assert one != digest_flags(["nvcc", "-O2", "-c", "/s/x.cu", "-o", "/b/x.o"])
