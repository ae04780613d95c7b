"""GPU targets: spellings in and out, and which code runs where."""

from __future__ import annotations

import pytest

from buildkit.arch import FIRST_CUDA, GpuArch, parse_arch, pins, runs_on
from buildkit.errors import ArchError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sm120", "sm120"),
        ("sm_120a", "sm120a"),
        ("12.0", "sm120"),
        ("12.0a", "sm120a"),
        ("12.0f", "sm120f"),
        ("120a-real", "sm120a"),
        ("compute_121", "sm121"),
        ("SM_100F", "sm100f"),
        (" 9.0 ", "sm90"),
        ("90a", "sm90a"),
        ("10.3", "sm103"),
    ],
)
def test_every_spelling_of_a_target_is_read(text: str, name: str) -> None:
    assert parse_arch(text).name == name


@pytest.mark.parametrize("number", FIRST_CUDA)
def test_what_the_kit_writes_it_reads_back(number: str) -> None:
    arch = parse_arch(number)
    for spelling in (arch.name, arch.sm, arch.compute, arch.cmake, arch.dotted):
        assert parse_arch(spelling) == arch


def test_each_ecosystem_gets_its_own_spelling() -> None:
    arch = GpuArch(12, 0, "a")
    assert arch.gencode == "-gencode=arch=compute_120a,code=sm_120a"
    assert arch.cmake == "120a-real"
    assert arch.torch == "12.0a"
    assert arch.number == "120"
    assert GpuArch(12, 0, "f").torch == "12.0", "torch knows no family variants"


@pytest.mark.parametrize("text", ["", "sm", "foo", "sm_12", "sm1200", "8.6", "12.0+PTX", "120x"])
def test_an_unknown_target_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse_arch(text)
    assert repr(text) in str(caught.value)
    assert "sm120" in str(caught.value)


@pytest.mark.parametrize(
    ("code", "gpu", "answer"),
    [
        ("sm120", "sm120", True),
        ("sm120", "sm121", True),  # a GB10 runs sm_120 code
        ("sm120a", "sm121", False),  # but not sm_120a
        ("sm120f", "sm121", True),
        ("sm121f", "sm120", False),
        ("sm120", "sm110", False),
        ("sm90", "sm120", False),
        ("sm90a", "sm90", True),
        ("sm100f", "sm103", True),
    ],
)
def test_binary_compatibility(code: str, gpu: str, answer: bool) -> None:
    assert runs_on(parse_arch(code), parse_arch(gpu)) is answer


@pytest.mark.parametrize(
    ("code", "target", "answer"),
    [
        ("sm120", "sm120", True),
        ("sm120a", "sm120", True),
        ("sm120f", "sm121", True),
        ("sm120", "sm121", False),  # runs there, but is not what was asked for
        ("sm120a", "sm121", False),
        ("sm120", "sm120a", False),
        ("sm120a", "sm120a", True),
        ("sm90", "sm120", False),
    ],
)
def test_which_code_a_wheel_for_a_target_may_hold(code: str, target: str, answer: bool) -> None:
    assert pins(parse_arch(code), parse_arch(target)) is answer
