"""What the kit writes for bk-launch, and reads of its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildkit.arch import parse_arch
from buildkit.errors import RecipeError
from buildkit.launcher import Isolation, read_records, render_config
from buildkit.values import FlagRule


def render(**changes: object) -> str:
    values: dict = {
        "target": parse_arch("sm120"),
        "without_code": "keep",
        "rules": (),
        "tools": {"nvcc": Path("/opt/a b/nvcc")},
        "records": Path("/tmp/r"),
    }
    return render_config(**(values | changes))


def test_the_accepted_code_is_the_target_with_its_variants_and_its_family():
    accepted = [line[7:] for line in render().splitlines() if line.startswith("accept sm_")]
    assert accepted == ["sm_120", "sm_120a", "sm_120f"]
    later = render(target=parse_arch("sm121"))
    accepted = [line[7:] for line in later.splitlines() if line.startswith("accept sm_")]
    assert accepted == ["sm_120f", "sm_121", "sm_121a", "sm_121f"]
    exact = render(target=parse_arch("sm120a"))
    accepted = [line[7:] for line in exact.splitlines() if line.startswith("accept sm_")]
    assert accepted == ["sm_120a"]


def test_paths_with_blanks_are_kept_and_line_ends_refused():
    assert "tool nvcc\t/opt/a b/nvcc" in render().splitlines()
    with pytest.raises(RecipeError, match="line end or tab"):
        render(rules=(FlagRule(old="-a\n-b", new="", language="any"),))


def test_records_that_a_kill_tore_are_left_out(tmp_path):
    file = tmp_path / "records.jsonl"
    whole = (
        '{"source":"a.cu","output":"a.o","tool":"nvcc","decision":"pinned","start":1.0,'
        '"wall_seconds":2.0,"cpu_seconds":1.5,"peak_bytes":7,"status":0,"stderr":"","flags":"f"}'
    )
    file.write_text(f"{whole}\n{whole[:40]}")
    assert [record.source for record in read_records(file)] == ["a.cu"]
    assert read_records(tmp_path / "none") == ()


def test_the_description_says_whether_the_network_is_closed():
    assert Isolation(network=True, pid=True).description == "no network"
    assert "open" in Isolation(network=False, pid=True).description
