"""The history under many processes, damage and missing rights."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from buildkit.events import SILENT
from buildkit.governor.estimate import Measured, UnitKey
from buildkit.governor.history import History
from tests.fakes import RecordingEvents

if TYPE_CHECKING:
    from pathlib import Path

KEY = UnitKey("csrc/a.cu", "f1")


def history(file: Path, *, arch: str = "sm120", events=SILENT) -> History:
    return History(file, recipe="demo", arch=arch, compiler="nvcc 13.0", events=events)


def ran(peak: int) -> Measured:
    return Measured(peak_bytes=peak, seconds=1.5, ran_out=False)


def test_remembers_the_last_three_of_each_unit(tmp_path):
    file = tmp_path / "new" / "history.sqlite3"
    for peak in range(5):
        history(file).remember([(KEY, ran(peak)), (UnitKey("b.cu", ""), ran(9))])
    found = history(file).recall()
    assert [run.peak_bytes for run in found[KEY]] == [2, 3, 4]
    assert len(found[UnitKey("b.cu", "")]) == 3


def test_a_tail_comes_back(tmp_path):
    run = Measured(peak_bytes=9, seconds=1.0, tail_bytes=3)
    history(tmp_path / "h").remember([(KEY, run), (KEY, ran(9))])
    assert history(tmp_path / "h").recall() == {KEY: [run, ran(9)]}


def test_targets_do_not_mix(tmp_path):
    file = tmp_path / "history.sqlite3"
    history(file, arch="sm90").remember([(KEY, ran(1))])
    assert history(file, arch="sm120").recall() == {}
    history(file, arch="sm120").remember([(KEY, ran(2))])
    assert history(file, arch="sm90").recall() == {KEY: [ran(1)]}


def test_nothing_recalled_makes_no_file(tmp_path):
    file = tmp_path / "history.sqlite3"
    assert history(file).recall() == {}
    assert not file.exists()


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, "cut", "scribble"])
def test_damaged_file_is_set_aside_and_told(tmp_path, damage):
    file = tmp_path / "history.sqlite3"
    history(file).remember([(UnitKey(f"{number}.cu", ""), ran(number)) for number in range(500)])
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "scribble":
        file.write_bytes(whole[:4096] + b"\xff" * 8192 + whole[12288:])
    else:
        file.write_bytes(damage)
    events = RecordingEvents()
    assert history(file, events=events).recall() == {}
    assert "damaged" in events.warnings[0]
    assert (tmp_path / "history.sqlite3.damaged").exists()
    history(file).remember([(KEY, ran(7))])
    assert history(file).recall() == {KEY: [ran(7)]}


def test_a_directory_in_its_place_is_told_and_no_error(tmp_path):
    file = tmp_path / "history.sqlite3"
    file.mkdir()
    events = RecordingEvents()
    subject = history(file, events=events)
    subject.remember([(KEY, ran(1))])
    assert subject.recall() == {}
    assert len(events.warnings) == 2


def test_a_full_transaction_is_all_or_none(tmp_path):
    file = tmp_path / "history.sqlite3"
    events = RecordingEvents()
    broken = Measured(peak_bytes=None, seconds=1.0)  # type: ignore[arg-type]
    history(file, events=events).remember([(KEY, ran(1)), (KEY, broken)])
    assert events.warnings
    assert history(file).recall() == {}


def _write_many(file: Path, writer: int) -> None:
    for number in range(10):
        history(file).remember([(UnitKey(f"{writer}-{number}.cu", ""), ran(number))])


def test_many_processes_lose_nothing(tmp_path):
    file = tmp_path / "history.sqlite3"
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        for task in [pool.submit(_write_many, file, writer) for writer in range(4)]:
            task.result()
    assert len(history(file).recall()) == 40
    with sqlite3.connect(file) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
