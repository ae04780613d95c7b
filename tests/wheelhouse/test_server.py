"""The server of wheels: installers are the reference, and a hostile client gets nothing."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from buildkit.cache.gc import choose, remove_items, scan
from buildkit.digest import digest_bytes
from buildkit.holds import last_used, mark_of
from buildkit.paths import Paths
from buildkit.wheelhouse.pages import JSON
from tests.cache.stored import stored
from tests.fakes import hear_interrupts
from tests.programs import kit
from tests.wheelhouse.clients import INSTALLERS
from tests.wheels.toy import a_wheel, rewritten


class Served:
    """A running `buildkit serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url = process.stdout.readline().strip()
        self.address = urlsplit(self.url).netloc
        self.log = ""

    def ask(self, method: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as stream:
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: stream.recv(65536), b""))

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        _, told = self.process.communicate(timeout=60)
        self.log += told
        return self.process.returncode


@contextmanager
def serving(cache, *arguments):
    process = subprocess.Popen(
        kit("serve", "--port", "0", *map(str, arguments)),
        env={**os.environ, "BUILDKIT_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    served = Served(process)
    try:
        yield served
    finally:
        if process.poll() is None:
            served.stop()


@pytest.fixture
def cache(tmp_path):
    stored(tmp_path / "cache", tmp_path, project="toy-x")
    return tmp_path / "cache"


def files(served: Served) -> list[dict[str, object]]:
    _, body = served.ask("GET", "/simple/toy-x/", Accept=JSON)
    return json.loads(body)["files"]


@pytest.mark.parametrize("name", INSTALLERS)
def test_installers_take_wheels_of_the_cache(cache, tmp_path, name):
    with serving(cache, "-v") as served:
        done = INSTALLERS[name](tmp_path / "target", "--index-url", served.url, "toy-x")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "target" / "toy_x" / "__init__.py").is_file()
        assert served.stop() == 0
    assert re.search(r'^127\.0\.0\.1 "GET /simple/toy-x/ HTTP/1\.1" 200$', served.log, re.M)
    assert "Traceback" not in served.log


@pytest.mark.parametrize("name", INSTALLERS)
def test_installers_take_wheels_of_a_directory(tmp_path, name):
    rewritten(tmp_path)
    with serving(tmp_path / "cache", tmp_path / "out") as served:
        done = INSTALLERS[name](tmp_path / "target", "--index-url", served.url, "toy-x")
        assert done.returncode == 0, done.stderr
        assert served.stop(signal.SIGINT) == 0
    assert served.log == "stopped\n", "quiet without -v"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".used")] == []


def test_wheel_and_metadata_have_the_digests_that_the_page_says(cache):
    with serving(cache) as served:
        (file,) = files(served)
        path = str(file["url"]).removeprefix("../..")
        for suffix, digest in (("", file["hashes"]), (".metadata", file["core-metadata"])):
            answer, body = served.ask("GET", path + suffix)
            assert (answer.status, digest_bytes(body)) == (200, digest["sha256"])
            head, nothing = served.ask("HEAD", path + suffix)
            assert head.getheader("Content-Length") == str(len(body))
            assert nothing == b""


def test_the_client_chooses_the_form(cache):
    with serving(cache) as served:
        for accept, kind in (("text/html", "text/html"), (JSON, JSON), ("*/*", "text/html")):
            for path in ("/simple/", "/simple/toy-x/"):
                answer, _ = served.ask("GET", path, Accept=accept)
                assert answer.getheader("Content-Type").startswith(kind)
                assert answer.getheader("Vary") == "Accept"
        assert served.ask("GET", "/simple/", Accept="image/png")[0].status == 406


def test_other_spellings_of_a_project_are_redirected(cache):
    with serving(cache) as served:
        for path, place in (
            ("/simple", "simple/"),
            ("/simple/toy-x", "toy-x/"),
            ("/simple/Toy_X/", "../toy-x/"),
        ):
            answer, _ = served.ask("GET", path)
            assert (answer.status, answer.getheader("Location")) == (301, place)
        assert served.ask("GET", "//evil.example/simple/toy-x")[0].status == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/nothing", "/simple/none/", "/simple/../../etc/passwd", "/../../../../etc/passwd"),
        *(
            "/wheels/%2e%2e/%2e%2e%2fetc%2fpasswd",
            "/wheels/..%2f..%2fetc/passwd",
            "/%00",
            "/wheels//",
        ),
        *("/simple/toy-x/../../../entry.json", "/wheels/toy/entry.json", "/simple/%0d%0aX:y/"),
    ],
)
def test_no_path_leads_out(cache, path):
    with serving(cache, "-v") as served:
        answer = served.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"root:" not in answer
        served.stop()
    assert "Traceback" not in served.log
    assert len(served.log.splitlines()) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "BREW"])
def test_there_is_nothing_but_get_and_head(cache, method):
    with serving(cache) as served:
        answer, _ = served.ask(method, "/simple/")
        assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"GARBAGE\r\n\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\x1b[2J\x07 HTTP/1.1\r\n\r\n",
    ],
)
def test_nonsense_is_answered_and_harms_nobody(cache, data):
    with serving(cache, "-v") as served:
        served.raw(data)
        assert served.ask("GET", "/simple/")[0].status == 200
        served.stop()
    assert "Traceback" not in served.log
    assert "\x1b" not in served.log


def test_a_body_is_not_taken_for_the_next_request(cache):
    inner = b"GET /simple/ HTTP/1.1\r\nHost: x\r\n\r\n"
    request = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(inner)
    with serving(cache) as served:
        assert served.raw(request + inner).count(b"HTTP/1.1 ") == 1


def test_what_comes_and_goes_shows_at_once(cache, tmp_path):
    with serving(cache) as served:
        assert len(files(served)) == 1
        entry = stored(cache, tmp_path, "fix", project="toy-x")
        assert len(files(served)) == 2
        entry.wheel.with_name("entry.json").unlink()
        assert len(files(served)) == 1


def test_a_download_is_a_use_that_ends(cache):
    paths = Paths(cache)
    (folder,) = (path for path in paths.wheels.glob("toy/*") if len(path.name) == 64)
    os.utime(folder, (1, 1))
    mark_of(folder).unlink(missing_ok=True)
    with serving(cache) as served:
        (file,) = files(served)
        assert last_used(folder) == 1
        served.ask("GET", str(file["url"]).removeprefix("../.."))
        assert last_used(folder) > 1
        found = choose(scan(paths, now_seconds=0), now_seconds=0, keep_seconds=None, max_bytes=0)
        assert len(remove_items(found, told=lambda *_: None)) == 1
        assert served.ask("GET", "/simple/toy-x/")[0].status == 404


def test_a_broken_wheel_is_told_and_left_out(tmp_path):
    shutil.copy(rewritten(tmp_path), tmp_path / "out" / "other-1.0-py3-none-any.whl")
    (tmp_path / "out" / "half-1.0-py3-none-any.whl").write_bytes(b"PK")
    a_wheel(tmp_path / "out")
    with serving(tmp_path / "cache", tmp_path / "out") as served:
        assert len(files(served)) == 2
        files(served)
        served.stop()
    assert served.log.count("half-1.0-py3-none-any.whl does not fit") == 1
    assert served.log.count("other-1.0-py3-none-any.whl does not fit") == 1
