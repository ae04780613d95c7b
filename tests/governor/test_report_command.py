"""``buildkit report`` on the recipe that ships, with the files of a build in its slot."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict

import pytest

from buildkit.cli.app import run
from buildkit.cli.options import kit_from
from buildkit.governor.governed import render_governed
from buildkit.make import draft
from buildkit.prepare import slot_of
from buildkit.request import cascade, parse_request
from tests.governor.builds import HOSTILE, STARTED, a_governed, a_record

COMMAND = ["report", "demo-kernel", "--arch", "sm120", "--offline"]


@pytest.fixture
def slot(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILDKIT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("BUILDKIT_RECIPES", raising=False)
    request = parse_request("demo-kernel", cascade({"arch": "sm120", "offline": True}, {}))
    with kit_from((), as_json=False) as kit:
        slot = slot_of(kit.paths, draft(request, kit).plan)
    slot.root.mkdir(parents=True)
    return slot


@pytest.fixture
def built(slot):
    records = [
        a_record("earlier.cu", start=STARTED - 500),
        a_record(f"{slot.source}/src/saxpy.cu", output="saxpy.o", start=STARTED + 1),
        a_record(HOSTILE, start=STARTED + 2, status=137, ended="governor"),
        a_record(HOSTILE, start=STARTED + 14, attempt=2),
        a_record("", output=f"{slot.build}/libdemo.so", start=STARTED + 25, wall_seconds=1.0),
    ]
    slot.records.write_text("".join(f"{json.dumps(asdict(record))}\n" for record in records))
    slot.governed.write_text(render_governed(a_governed(first_record=1)))
    return slot


def test_it_prints_what_the_last_build_did(built, capsys):
    assert run(COMMAND) == 0
    out = capsys.readouterr().out
    assert "demo-kernel 1.0.0 for sm120: 3 units in 4 calls" in out
    assert "makespan 25.0 s of compiler calls; the whole build 1 min 40 s" in out
    assert "1 by the governor, 0 by the kernel" in out
    assert "  src/saxpy.cu\n" in out
    assert "  libdemo.so\n" in out
    assert "earlier.cu" not in out
    assert "\x1b" not in out


def test_json_page_and_trace(built, capsys, tmp_path):
    page, trace = tmp_path / "new" / "report.html", tmp_path / "trace.json"
    assert run([*COMMAND, "--json", "--html", str(page), "--trace", str(trace)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["makespan_seconds"] == 25
    assert document["killed"] == {"governor": 1, "kernel": 0, "cap": 0}
    assert (document["html"], document["trace"]) == (str(page), str(trace))
    assert page.read_text().startswith("<!doctype html>")
    assert len(json.loads(trace.read_text())["traceEvents"]) > 4
    assert run([*COMMAND, "--html", str(page)]) == 0
    assert f"page     {page}\n" in capsys.readouterr().out


def test_without_a_build_there_is_one_clear_error(slot, capsys):
    assert run(COMMAND) == 2
    assert capsys.readouterr().err.endswith("Make it first.\n")
    slot.governed.write_text(render_governed(a_governed()))
    assert run([*COMMAND, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["slug"] == "request"


def test_a_damaged_file_is_one_clear_error(built, capsys):
    built.governed.write_text("{")
    assert run(COMMAND) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "governed.json: found no JSON. Make it again with --clean." in line


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_a_place_that_cannot_be_written_is_one_clear_error(built, capsys, tmp_path, option):
    (tmp_path / "file").write_text("mine")
    for place, status in ((tmp_path, 2), (tmp_path / "file" / "x", 1), ("", 2)):
        assert run([*COMMAND, option, str(place)]) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert option in captured.err
        assert len(captured.err.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_no_file_is_left_alone_and_a_link_stays_one(built, capsys, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run([*COMMAND, "--html", str(pipe)]) == 2
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert run([*COMMAND, "--html", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text().startswith("<!doctype html>")
