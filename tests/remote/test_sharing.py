"""One cache makes a wheel, another takes it through a remote; and nothing that is wrong with the
remote harms either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from buildkit import objects
from buildkit.cache import look_up, store_wheel
from buildkit.cache.store import stored_entry
from buildkit.digest import digest_file
from buildkit.remote import Remote, RemoteWish
from buildkit.sharing import offer, pull, push, shared_note
from tests.builders import a_recipe
from tests.cache.stored import a_plan, a_verified
from tests.fakes import RecordingEvents
from tests.remote.servers import free_port, request_line, s3, socket_that, webdav
from tests.test_transfer import a_kit


def plain_plan(*patches: str):
    """A plan without CUDA, so that no tool is needed to read the wheel's code."""
    plan = a_plan(*patches, project="toy-x")
    return replace(plan, toolchain=replace(plan.toolchain, cuda_root=None))


def machine(root: Path, url: str, mode="read"):
    kit = a_kit(root)
    return replace(kit, remote=Remote(RemoteWish(url=url, mode=mode), kit.environment, kit.events))


def made(kit, folder: Path, plan) -> None:
    verified = replace(a_verified(folder, plan), gpu_code=())
    store_wheel(kit.paths, plan, verified, kit.holds)
    offer(plan, kit)


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def plan():
    return plain_plan()


@pytest.fixture
def pushed(tmp_path, shared, plan):
    """A directory with the wheel of the plan, which another machine has pushed."""
    kit = machine(tmp_path / "a", shared.as_uri(), "read-write")
    made(kit, tmp_path / "work", plan)
    assert kit.events.warnings == []
    return shared


def warning(kit) -> str:
    (text,) = kit.events.warnings
    return text


def note_in(shared: Path, plan) -> Path:
    return shared / plan.recipe / plan.key / "entry.json"


def goes_through(url: str, tmp_path: Path, plan) -> None:
    here = machine(tmp_path / "a", url, "read-write")
    there = machine(tmp_path / "b", url)
    assert shared_note(plan, there) is None
    assert pull(plan, a_recipe(), there) is None
    made(here, tmp_path / "work", plan)
    assert ("push", url) in here.events.steps
    assert shared_note(plan, there).origin == url
    entry = pull(plan, a_recipe(), there)
    first = look_up(here.paths, plan.recipe, plan.key)
    assert entry.wheel.read_bytes() == first.wheel.read_bytes()
    assert (entry.origin, first.origin) == (url, "")
    assert look_up(there.paths, plan.recipe, plan.key) == entry
    assert there.events.warnings == here.events.warnings == []


def test_a_wheel_goes_through_a_directory(tmp_path, shared, plan):
    goes_through(shared.as_uri(), tmp_path, plan)


def test_a_wheel_goes_through_webdav(tmp_path, plan):
    with webdav(tmp_path / "nginx") as url:
        goes_through(f"{url}/open", tmp_path, plan)


def test_a_wheel_goes_through_s3(tmp_path, plan, monkeypatch):
    with s3(tmp_path) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        goes_through("s3://wheels/team", tmp_path, plan)


def test_wrong_credentials_of_s3_cost_one_warning(tmp_path, plan, monkeypatch):
    with s3(tmp_path, is_guarded=True) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
        text = goes_on("s3://wheels/team", tmp_path, plan)
    assert "it answered 403 Forbidden" in text
    assert "hunter2" not in text


def test_what_is_there_is_not_sent_again_and_a_reader_sends_nothing(tmp_path, pushed, plan):
    before = {path: path.stat().st_mtime_ns for path in pushed.rglob("*")}
    for name, mode in (("c", "read-write"), ("d", "read")):
        kit = machine(tmp_path / name, pushed.as_uri(), mode)
        made(kit, tmp_path / f"work {name}", plan)
        assert kit.events.warnings == []
    assert {path: path.stat().st_mtime_ns for path in pushed.rglob("*")} == before


def test_where_a_wheel_came_from_stays_at_home(tmp_path, pushed, plan):
    kit = machine(tmp_path / "b", pushed.as_uri())
    pull(plan, a_recipe(), kit)
    other = tmp_path / "other"
    other.mkdir()
    entry = stored_entry(kit.paths, plan.recipe, plan.key)
    assert entry.note.origin == pushed.as_uri()
    assert push(entry, Remote(RemoteWish(url=other.as_uri()), {}, RecordingEvents()))
    assert str(pushed) not in note_in(other, plan).read_text()


# --- what is refused ------------------------------------------------------------------------------


CHANGES = {
    "other field": {"fields": [["recipe", "other"]]},
    "other digest": {"sha256": "0" * 64},
    "leads out": {"wheel": "../../../../toy_x-1.0-py3-none-any.whl"},
    "control characters": {"verdict": "\x1b[2Jverified"},
    "other code": {"targets": ["sm_120"]},
    "large": {"verdict": "x" * (5 << 20)},
}


def harm(note: Path, how: str) -> None:
    document = json.loads(note.read_text())
    wheel = note.parent / document["sha256"] / document["wheel"]
    data = bytearray(wheel.read_bytes())
    match how:
        case "flipped bit":
            data[len(data) // 2] ^= 1
            wheel.write_bytes(data)
        case "cut off":
            wheel.write_bytes(data[:-9])
        case "no wheel":
            wheel.unlink()
        case "no JSON":
            note.write_text("null")
        case "deep JSON":
            note.write_text("[" * 100_000)
        case _:
            note.write_text(json.dumps(document | CHANGES[how]))


HARMS = ("flipped bit", "cut off", "no wheel", "no JSON", "deep JSON", *CHANGES)


@pytest.mark.parametrize("how", HARMS)
def test_a_damaged_entry_is_refused_named_and_replaced(tmp_path, pushed, plan, how):
    harm(note_in(pushed, plan), how)
    kit = machine(tmp_path / "b", pushed.as_uri(), "read-write")
    assert pull(plan, a_recipe(), kit) is None
    assert plan.key in warning(kit)
    assert "refused" in warning(kit)
    assert "\x1b" not in warning(kit)
    assert look_up(kit.paths, plan.recipe, plan.key) is None
    assert not list(tmp_path.glob("b/wheels/*/.*.????????"))
    made(kit, tmp_path / "work b", plan)
    assert len(kit.events.warnings) == 1
    last = machine(tmp_path / "c", pushed.as_uri())
    assert pull(plan, a_recipe(), last) is not None
    assert last.events.warnings == []


def test_a_sound_entry_of_another_key_is_not_taken(tmp_path, pushed, plan):
    wanted = plain_plan("fix")
    note_in(pushed, plan).parent.rename(pushed / plan.recipe / wanted.key)
    kit = machine(tmp_path / "b", pushed.as_uri())
    assert pull(wanted, a_recipe(), kit) is None
    assert "its key fields are not those of this key" in warning(kit)


def test_a_wheel_of_another_project_is_not_taken(tmp_path, pushed, plan):
    kit = machine(tmp_path / "b", pushed.as_uri())
    assert pull(replace(plan, project="torch"), a_recipe(), kit) is None
    assert "a wheel of toy-x, allowed torch" in warning(kit)


def test_a_push_that_is_interrupted_leaves_nothing_to_take(tmp_path, shared, plan, monkeypatch):
    """The wheel goes first; without its note it is not there."""
    kit = machine(tmp_path / "a", shared.as_uri(), "read-write")
    send = objects.Objects.send

    def dying(self, name, contents):
        if name.endswith("entry.json"):
            raise KeyboardInterrupt
        send(self, name, contents)

    monkeypatch.setattr(objects.Objects, "send", dying)
    with pytest.raises(KeyboardInterrupt):
        made(kit, tmp_path / "work", plan)
    assert [path.suffix for path in shared.rglob("*") if path.is_file()] == [".whl"]
    there = machine(tmp_path / "b", shared.as_uri())
    assert pull(plan, a_recipe(), there) is None
    assert there.events.warnings == []


# --- what fails -----------------------------------------------------------------------------------


def goes_on(url: str, tmp_path: Path, plan, mode="read-write") -> str:
    """Ask, build and offer; return the one warning."""
    kit = machine(tmp_path / "b", url, mode)
    assert pull(plan, a_recipe(), kit) is None
    made(kit, tmp_path / "work b", plan)
    assert pull(plain_plan("fix"), a_recipe(), kit) is None
    assert look_up(kit.paths, plan.recipe, plan.key) is not None
    return warning(kit)


def test_each_failure_costs_one_warning_and_the_wheel_is_made(tmp_path, plan):
    with webdav(tmp_path / "nginx") as url:
        for place, act, status in (
            ("private", "read", 401),
            ("denied", "read", 403),
            ("read", "write", 405),
            ("full", "write", 507),
        ):
            text = goes_on(f"{url}/{place}", tmp_path / place, plan)
            assert f"failed to {act} toy/" in text
            assert f"it answered {status}" in text
        assert not list((tmp_path / "nginx" / "files").rglob("entry.json"))
    assert "refused" in goes_on(f"http://127.0.0.1:{free_port()}", tmp_path / "closed", plan)
    assert "no such file" in goes_on((tmp_path / "none").as_uri(), tmp_path / "no folder", plan)


def test_a_host_that_never_answers_is_asked_once(tmp_path, plan, monkeypatch):
    monkeypatch.setattr(objects, "ANSWER_SECONDS", 0.3)
    with socket_that(None) as url:
        assert "did not answer in time" in goes_on(url, tmp_path, plan)


def test_a_server_that_dies_while_it_sends_or_takes_a_wheel_is_left_alone(tmp_path, pushed, plan):
    note = note_in(pushed, plan).read_bytes()

    def answer(connection):
        line = request_line(connection)
        head = "HTTP/1.1 200 OK\r\nLast-Modified: Thu, 03 Dec 2026 00:00:00 GMT\r\n"
        if line.startswith("PUT"):
            return
        size = len(note) if "entry.json" in line else 1_000_000
        connection.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        connection.sendall(note if "entry.json" in line else b"PK" * 500)

    with socket_that(answer) as url:
        assert "the connection broke" in goes_on(url, tmp_path, plan)

    def empty(connection):
        if request_line(connection).startswith("GET"):
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with socket_that(empty) as url:
        assert "failed to write toy/" in goes_on(url, tmp_path / "push", plan)


# --- many at once ---------------------------------------------------------------------------------

_WORKER = """
import sys
from pathlib import Path
from tests.remote.test_sharing import a_recipe, machine, made, plain_plan, pull
url, number, root = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
for turn in range(3):
    kit = machine(root / f"cache {number} {turn}", url, "read-write")
    for name in ("same", f"of {number}", f"of {(number + 1) % 8}"):
        plan = plain_plan(name)
        if pull(plan, a_recipe(), kit) is None:
            made(kit, root / f"work {number} {turn} {name}", plan)
    assert kit.events.warnings == [], kit.events.warnings
"""


@pytest.mark.parametrize("kind", ["directory", "webdav"])
def test_eight_processes_push_and_pull_at_once_and_nothing_is_lost(tmp_path, kind):
    (tmp_path / "folder").mkdir()
    if kind == "directory":
        eight((tmp_path / "folder").as_uri(), tmp_path)
    else:
        with webdav(tmp_path / "nginx") as url:
            eight(f"{url}/open", tmp_path)


def eight(url: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, url, str(number), str(tmp_path)],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for worker in workers:
        _, told = worker.communicate(timeout=200)
        assert worker.returncode == 0, told
    kit = machine(tmp_path / "last", url)
    for name in ("same", *(f"of {number}" for number in range(8))):
        plan = plain_plan(name)
        entry = pull(plan, a_recipe(), kit)
        assert digest_file(entry.wheel) == entry.sha256
    assert kit.events.warnings == []
