"""One cascade: flag, variable, configuration file, default."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildkit.errors import ArchError, BuildkitError, RequestError
from buildkit.request import Request, cascade, parse_request
from buildkit.sizes import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping


def ask(
    flags: Mapping[str, object], variables: Mapping[str, str], config: str, folder: Path
) -> Request:
    file = folder / "config.toml"
    file.write_text(config)
    return parse_request("toy", cascade(flags, {"BUILDKIT_CONFIG": str(file), **variables}))


def test_the_flag_wins_over_the_variable_over_the_file(tmp_path: Path) -> None:
    config = 'arch = "sm90"\njobs = 3\nmemory = "8GiB"\n'
    variables = {"BUILDKIT_ARCH": "sm100", "BUILDKIT_JOBS": "4"}
    request = ask({"arch": "sm120"}, variables, config, tmp_path)
    assert (request.arch.name, request.jobs, request.memory_bytes) == ("sm120", 4, 8 << 30)
    assert request.out == Path("dist")
    assert not request.is_offline
    assert request.object_cache == "off"


@pytest.mark.parametrize(
    ("flags", "variables", "config", "words"),
    [
        ({}, {}, "", ["No GPU target was named", "--arch sm120"]),
        ({"arch": "sm86"}, {}, "", ["command line (--arch)", "'sm86'"]),
        ({}, {"BUILDKIT_ARCH": "x"}, "", ["environment (BUILDKIT_ARCH)", "'x'"]),
        ({"arch": "sm120"}, {"BUILDKIT_JOBS": "0"}, "", ["BUILDKIT_JOBS", "'0'", "1 to 4096"]),
        ({"arch": "sm120", "memory": "lots"}, {}, "", ["--memory", "'lots'", "12GiB"]),
        ({"arch": "sm120"}, {}, 'memroy = "1GiB"', ["config.toml", "Did you mean 'memory'"]),
        ({"arch": "sm120"}, {}, "arch = ", ["config.toml", "Not valid TOML", "Invalid value"]),
        ({}, {}, "arch = 86", ["config.toml (arch)", "'86'"]),
        ({"arch": "sm120"}, {"BUILDKIT_OFFLINE": "maybe"}, "", ["BUILDKIT_OFFLINE", "yes or no"]),
        (
            {"arch": "sm120", "object_cache": "on"},
            {},
            "",
            ["--object-cache", "auto, ccache or off"],
        ),
        ({"arch": "sm120"}, {}, "out = 3", ["config.toml (out)", "a text"]),
    ],
)
def test_a_wrong_value_is_refused_where_it_was_set(
    flags: Mapping[str, object],
    variables: Mapping[str, str],
    config: str,
    words: list[str],
    tmp_path: Path,
) -> None:
    with pytest.raises(BuildkitError) as caught:
        ask(flags, variables, config, tmp_path)
    assert caught.value.status == 2
    assert isinstance(caught.value, RequestError | ArchError)
    for word in words:
        assert word in str(caught.value)


def test_a_configuration_file_that_is_not_there_is_fine(tmp_path: Path) -> None:
    assert cascade({}, {"BUILDKIT_CONFIG": str(tmp_path / "none.toml")}) == {}


@pytest.mark.parametrize("text", ["", "12 parsecs", "-1GiB", "0", "GiB", "1e3"])
def test_no_size_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="12GiB"):
        parse_size(text)


def test_sizes() -> None:
    assert parse_size("12GiB") == parse_size("12 gb") == parse_size("12G") == 12 << 30
    assert parse_size("100") == 100
