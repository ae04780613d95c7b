"""Hosts that do not answer: told at once, before git would wait for minutes."""

from __future__ import annotations

import socket

import pytest

from buildkit.errors import SourceError
from buildkit.sources.git import Git
from buildkit.sources.reach import require_host
from tests.sources.test_fetch import a_supply


@pytest.fixture
def closed_port():
    """A port of this machine where nobody listens: bound, so that nobody else takes it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("scheme", ["http", "https", "git"])
def test_a_host_that_refuses_is_named_with_its_port(closed_port, scheme):
    with pytest.raises(SourceError, match=f"127.0.0.1, port {closed_port}: .*refused"):
        require_host(f"{scheme}://me:secret@127.0.0.1:{closed_port}/x.git", {})


def test_a_host_without_an_address_is_told_without_the_password():
    with pytest.raises(
        SourceError, match=r"cannot be reached: nowhere\.invalid, port 443"
    ) as caught:
        require_host("https://me:secret@nowhere.invalid/x.git", {})
    assert "secret" not in caught.value.what
    assert "buildkit fetch" in (caught.value.remedy or "")


def test_a_host_that_listens_is_let_through():
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_host(f"http://127.0.0.1:{server.getsockname()[1]}/x.git", {})


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("https://nowhere.invalid/x", {"https_proxy": "http://proxy.invalid:3128"}),
        ("http://nowhere.invalid/x", {"ALL_PROXY": "socks5://proxy.invalid"}),
        ("ssh://git@nowhere.invalid/x", {}),
        ("git@nowhere.invalid:x", {}),
        ("file:///nowhere", {}),
        ("https://nowhere.invalid:port/x", {}),
    ],
    ids=["proxy", "PROXY", "ssh", "scp", "file", "no port"],
)
def test_what_another_program_has_to_decide_is_left_to_it(url, variables):
    require_host(url, variables)


def test_git_is_not_started_for_a_host_that_is_away(tmp_path, closed_port):
    tool = Git(a_supply(tmp_path))
    url = f"http://127.0.0.1:{closed_port}/x.git"
    with pytest.raises(SourceError, match="cannot be reached"):
        tool.resolve(url, "v1")
    with pytest.raises(SourceError, match="cannot be reached"):
        tool.fetch(url, "0" * 40)
