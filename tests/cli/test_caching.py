"""`buildkit cache` and `serve`: output, JSON and exit status."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest

from buildkit.cache import list_entries
from buildkit.cli.app import run
from buildkit.cli.caching import cache as group
from buildkit.holds import Holds, mark_of
from buildkit.paths import Paths
from tests.cache.stored import stored
from tests.wheels.toy import a_wheel


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return Paths(tmp_path / "cache")


@pytest.fixture
def entry(cache, tmp_path):
    return stored(cache.root, tmp_path)


def test_list(cache, entry, capsys):
    assert run(["cache", "list"]) == 0
    head, row, count = capsys.readouterr().out.splitlines()
    assert head.startswith("RECIPE  VERSION  TARGET  KEY ")
    assert row.split()[:4] == ["toy", "1.0", "sm120", entry.key[:8]]
    assert count.startswith("1 wheel")
    assert run(["cache", "list", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["key"] == entry.key
    assert document["wheel"] == str(entry.wheel)


def test_an_empty_cache_is_no_error(cache, capsys):
    assert run(["cache", "list"]) == 0
    assert capsys.readouterr().out.startswith("The cache holds no wheel; `buildkit cache size` ")
    assert run(["cache", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(["cache", "verify"]) == 0
    assert run(["cache", "gc", "--keep-days", "30"]) == 0
    capsys.readouterr()
    assert run(["cache", "size"]) == 0
    assert capsys.readouterr().out == f"0 B in {cache.root}\n"
    assert run(["cache", "export", "x.tar"]) == 2
    assert run(["cache", "index", "house"]) == 2


def test_size_tells_what_each_kind_takes(cache, entry, capsys):
    cache.locks.mkdir()
    (cache.locks / "user.lock").write_bytes(b"x" * 9000)
    assert run(["cache", "size"]) == 0
    head, wheel, notes, whole = capsys.readouterr().out.splitlines()
    assert head.split() == ["KIND", "COUNT", "SIZE", "LAST", "USED"]
    assert wheel.split()[:2] == ["wheel", "1"]
    assert notes.startswith("notes, which stay  1")
    assert whole.endswith(f" in {cache.root}")
    assert run(["cache", "size", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in document["kinds"]] == ["wheel", "notes"]
    assert document["kinds"][1]["size_bytes"] >= 9000
    assert document["size_bytes"] == sum(row["size_bytes"] for row in document["kinds"])


def test_a_cache_that_is_no_directory(cache, capsys):
    cache.root.write_text("mine")
    for command in (["list"], ["size"], ["verify"], ["gc", "--max-size", "0"]):
        assert run(["cache", *command]) == 1
        told = capsys.readouterr().err
        assert "Not a directory" in told
        assert told.count("\n") == 1


def test_gc_says_what_it_would_do_and_then_does_it(cache, entry, capsys):
    old = time.time() - 40 * 86400
    os.utime(entry.wheel.parent, (old, old))
    mark_of(entry.wheel.parent).unlink(missing_ok=True)
    line = ["cache", "gc", "--max-size", "50GiB", "--keep-days", "30"]
    assert run([*line, "--dry-run"]) == 0
    assert "1 would be removed" in capsys.readouterr().out
    assert len(list_entries(cache)) == 1
    assert run([*line, "-v"]) == 0
    out = capsys.readouterr().out
    assert "not used for 40 days" in out
    assert "1 removed" in out
    assert list_entries(cache) == ()


def test_gc_names_what_is_in_use(cache, entry, capsys):
    holds = Holds()
    holds.hold(entry.wheel.parent)
    assert run(["cache", "gc", "--max-size", "0"]) == 0
    assert "is in use, and stays" in capsys.readouterr().err
    holds.release()
    assert run(["cache", "gc", "--max-size", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in document["removed"]] == ["wheel"]
    assert document["after_bytes"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--max-size", "much"],
        ["--max-size", "-1"],
        ["--keep-days", "-1"],
        ["--keep-days", "nan"],
        ["--keep-days", "soon"],
    ],
)
def test_gc_without_a_limit_that_makes_sense_does_nothing(cache, entry, arguments, capsys):
    assert run(["cache", "gc", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert len(list_entries(cache)) == 1


def test_verify_has_status_1_when_something_was_damaged(cache, entry, capsys):
    assert run(["cache", "verify"]) == 0
    assert capsys.readouterr().out == "1 checked, 0 damaged\n"
    entry.wheel.write_bytes(b"damaged")
    assert run(["cache", "verify"]) == 1
    assert "it lies in" in capsys.readouterr().out
    assert run(["cache", "verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"checked": 0, "damaged": []}


def test_export_and_import(cache, entry, tmp_path, monkeypatch, capsys):
    assert run(["cache", "export", "w.tar", "--recipe", "toy", "--key", entry.key[:8]]) == 0
    assert capsys.readouterr().out == "1 wheel written to w.tar\n"
    assert run(["cache", "export", "w.tar", "--recipe", "other"]) == 2
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "other"))
    assert run(["cache", "import", "w.tar"]) == 0
    assert run(["cache", "import", "w.tar", "--json"]) == 0
    assert "already here" in capsys.readouterr().out
    data = bytearray((tmp_path / "w.tar").read_bytes())
    data[-6000] ^= 1
    (tmp_path / "w.tar").write_bytes(data)
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "third"))
    for source, status in (("none.tar", 2), (str(tmp_path / "third"), 1)):
        assert run(["cache", "import", source]) == status
        assert "Traceback" not in capsys.readouterr().err


def test_index(cache, entry, tmp_path, capsys):
    assert run(["cache", "index", "house"]) == 0
    out = capsys.readouterr().out
    assert out == f"1 wheel of 1 project\n{(tmp_path / 'house' / 'simple').as_uri()}/\n"
    a_wheel(tmp_path / "more")
    assert run(["cache", "index", "house", "--wheels", "more", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wheels"] == 1
    assert run(["cache", "index", "house", "--wheels", "more", "--recipe", "toy"]) == 2
    assert run(["cache", "index", "house", "--wheels", "none"]) == 2


def test_serve_refuses_what_it_cannot_serve(cache, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", "--port", port]) == 1
    assert "port" in capsys.readouterr().err
    assert run(["serve", "--bind", "no host", "--port", "0"]) == 2
    assert run(["serve", "none"]) == 2
    assert run(["serve", "--port", "99999"]) == 2


@pytest.mark.parametrize("name", group.commands)
def test_every_command_teaches_by_its_help(name, capsys):
    assert run(["cache", name, "--help"]) == 0
    assert "Example: buildkit cache" in capsys.readouterr().out


def test_push_writes_to_a_remote_what_it_does_not_have(cache, entry, capsys, tmp_path, monkeypatch):
    assert run(["cache", "push"]) == 2
    assert "No remote was named" in capsys.readouterr().err
    remote = tmp_path / "remote"
    assert run(["cache", "push", "--remote", str(remote)]) == 1
    assert "no such file or directory" in capsys.readouterr().err
    remote.mkdir()
    monkeypatch.setenv("BUILDKIT_REMOTE", str(remote))
    assert run(["cache", "push", "--recipe", "toy"]) == 0
    assert capsys.readouterr().out.startswith("1 wheel pushed to file://")
    assert (remote / "toy" / entry.key / "entry.json").is_file()
    assert run(["cache", "push", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pushed": 0, "already_there": 1}
