"""bk-launch by the name of a build tool: it offers as many calls as the governor wants."""

from __future__ import annotations

import subprocess

import pytest

from buildkit.launcher import binary


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("ninja", ["-v", "-j", "4"], ["-j64", "-v"]),
        ("ninja", ["-C", "build", "-j4", "-l", "2.5", "all"], ["-j64", "-C", "build", "all"]),
        ("make", ["-j", "install"], ["-j64", "install"]),
        ("make", ["--jobs=8", "--load-average=3", "-k"], ["-j64", "-k"]),
        ("make", ["-j4", "--", "-j9"], ["-j64", "--", "-j9"]),
    ],
)
def test_a_build_tool_offers_as_many_calls_as_the_governor_wants(tmp_path, tool, given, expected):
    real = tmp_path / f"real {tool}"
    real.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    real.chmod(0o755)
    (tmp_path / "launch.conf").write_text(f"tool {tool}\t{real}\njobs 64\n")
    (tmp_path / tool).symlink_to(binary("bk-launch"))
    done = subprocess.run(
        [tmp_path / tool, *given],
        env={"BK_LAUNCH_CONFIG": str(tmp_path / "launch.conf")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == expected
