"""What is held is not claimed, by whatever process; a use leaves its time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from buildkit.holds import Holds, claimed, last_used, mark_of

HOLDER = """
import sys, time
from pathlib import Path
from buildkit.holds import Holds
Holds().hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(100)
"""


@pytest.fixture
def item(tmp_path):
    (tmp_path / "item").mkdir()
    return tmp_path / "item"


def is_free(item: Path) -> bool:
    with claimed(item) as answer:
        return answer


def test_what_another_process_holds_is_free_only_when_that_has_died(item):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, item], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert not is_free(item)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert is_free(item)


def test_several_may_hold_and_the_last_frees(item):
    one, two = Holds(), Holds()
    one.hold(item)
    one.hold(item)
    two.hold(item)
    assert not is_free(item)
    one.release()
    assert not is_free(item)
    two.release()
    assert is_free(item)


def test_a_use_counts_without_access_times(item):
    os.utime(item, (1000, 1000))
    assert last_used(item) == 1000
    with claimed(item):
        pass
    assert last_used(item) == 1000, "to be looked at by a collector is no use"
    Holds().hold(item)
    assert last_used(item) > 1000
    os.utime(mark_of(item), (2000, 2000))
    Holds().hold(item)
    assert last_used(item) > 2000


def test_the_mark_goes_with_the_item(item):
    with claimed(item) as answer:
        assert answer
        item.rmdir()
    assert not mark_of(item).exists()


def test_whoever_waited_for_a_collector_has_a_lock_that_others_see(item):
    script = HOLDER.replace("Holds()", 'print("wait", flush=True); Holds()')
    with claimed(item) as answer:
        assert answer
        holder = subprocess.Popen([sys.executable, "-c", script, item], stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"wait\n"
        item.rmdir()
    assert holder.stdout.readline() == b"held\n"
    assert not is_free(item)
    holder.kill()
    holder.wait()
    holder.stdout.close()


def test_a_cache_that_cannot_be_written_is_used_without_marks(tmp_path):
    (tmp_path / "file").write_text("")
    Holds().hold(tmp_path / "file" / "item")  # no directory can be there
