"""Addresses of remotes, and what is said of one that fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from buildkit import objects
from buildkit.errors import Location, RemoteError, RequestError
from buildkit.objects import Objects
from buildkit.remote import parse_remote
from buildkit.request import cascade, parse_request
from tests.fakes import hear_interrupts
from tests.remote.servers import free_port, request_line, s3, socket_that, webdav

HERE = Location(file="environment", key="BUILDKIT_REMOTE")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/path/", "s3://bucket/path"),
        ("https://host:8443/dav", "https://host:8443/dav"),
        ("/srv/my wheels", "file:///srv/my%20wheels"),
        ("file:///srv", "file:///srv"),
        ("az://container", "az://container"),
    ],
)
def test_an_address_is_a_url_or_a_directory(text, url):
    assert parse_remote(text, "read", HERE).url == url


@pytest.mark.parametrize(
    "text",
    [
        "https://ann:hunter2@host/dav",
        "https://hunter2@host/dav",
        "s3://hunter2:@bucket",
        "https://account.blob.core.windows.net/c?sig=hunter2",
        "https://host/#hunter2",
        "https://ann:hunter2@[host/",
        "hunter2:x",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(text):
    with pytest.raises(RequestError) as caught:
        parse_remote(text, "read", HERE)
    assert "BUILDKIT_REMOTE" in str(caught.value)
    assert text.startswith("hunter2") or "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["s4://b", "wheels", "s3://", "file:///", "https:///x", "s3://a b"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(RequestError, match="allowed s3://"):
        parse_remote(text, "read", HERE)


def test_flag_variable_and_file_choose_the_remote_and_offline_forgets_it(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('remote = "s3://file"\nremote_mode = "read-write"\n')
    environment = {"BUILDKIT_CONFIG": str(config), "BUILDKIT_ARCH": "sm120"}

    def chosen(flags, **variables):
        return parse_request("toy", cascade(flags, environment | variables)).remote

    assert (chosen({}).url, chosen({}).mode) == ("s3://file", "read-write")
    assert chosen({}, BUILDKIT_REMOTE="s3://variable").url == "s3://variable"
    assert chosen({"remote": "s3://flag"}, BUILDKIT_REMOTE="s3://variable").url == "s3://flag"
    assert chosen({"offline": True}) is None
    with pytest.raises(RequestError, match="allowed read or read-write"):
        chosen({"remote_mode": "write"})


# --- what works -----------------------------------------------------------------------------------


def keeps(url: str, tmp_path, **variables: str) -> None:
    there = Objects(url, variables)
    assert there.read("toy/k/entry.json", 100) is None
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 80_000)  # 20 MB: several parts
    there.send("toy/k/d/a+b-1.0.whl", large)
    there.send("toy/k/entry.json", b"one")
    there.send("toy/k/entry.json", b"two")
    assert there.read("toy/k/entry.json", 100) == b"two"
    with pytest.raises(ValueError, match="larger than 2 bytes"):
        there.read("toy/k/entry.json", 2)
    with (tmp_path / "back").open("wb") as file:
        there.fetch("toy/k/d/a+b-1.0.whl", file)
    assert (tmp_path / "back").read_bytes() == large.read_bytes()
    with (tmp_path / "back").open("wb") as file, pytest.raises(ValueError, match="is missing"):
        there.fetch("toy/k/none", file)


def test_a_directory_keeps_objects(tmp_path):
    (tmp_path / "shared wheels").mkdir()
    keeps((tmp_path / "shared wheels").as_uri(), tmp_path)


def test_webdav_keeps_objects_also_behind_a_password(tmp_path):
    with webdav(tmp_path / "nginx") as url:
        keeps(f"{url}/open", tmp_path)
        secret = {"BUILDKIT_REMOTE_USER": "ann", "BUILDKIT_REMOTE_PASSWORD": "right"}
        assert Objects(f"{url}/private", secret).read("toy/k/entry.json", 100) == b"two"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    with s3(tmp_path) as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield "s3://wheels"


def test_s3_keeps_objects(bucket, tmp_path):
    keeps(f"{bucket}/some/path", tmp_path)
    with pytest.raises(RemoteError, match="no such bucket"):
        Objects("s3://elsewhere", {}).read("a", 1)


# --- what fails -----------------------------------------------------------------------------------


def failure(url: str, act: str = "read", **variables: str) -> str:
    there = Objects(url, variables)
    with pytest.raises(RemoteError) as caught:
        if act == "read":
            there.read("toy/entry.json", 100)
        else:
            there.send("toy/entry.json", b"x")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.what


def test_servers_that_refuse_are_told_by_their_status(tmp_path):
    wrong = {"BUILDKIT_REMOTE_USER": "ann", "BUILDKIT_REMOTE_PASSWORD": "hunter2"}
    with webdav(tmp_path / "nginx") as url:
        assert "401 Unauthorized" in failure(f"{url}/private", **wrong)
        assert "401 Unauthorized" in failure(f"{url}/private", BUILDKIT_REMOTE_TOKEN="hunter2")
        assert "403 Forbidden" in failure(f"{url}/denied")
        assert "405 Method Not Allowed" in failure(f"{url}/read", "send")
        assert "507 Insufficient Storage" in failure(f"{url}/full", "send")


def test_a_directory_that_is_not_there_is_told(tmp_path):
    assert "no such file or directory" in failure((tmp_path / "none").as_uri())
    assert "no such file or directory" in failure((tmp_path / "none").as_uri(), "send")


def test_a_closed_port_is_told_at_once():
    assert "the connection was refused" in failure(f"http://127.0.0.1:{free_port()}")


def test_a_name_that_nobody_knows_is_told(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    assert "nobody knows its name" in failure("https://no.such.host.invalid/x")


def test_a_host_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(objects, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(objects, "STALL_SECONDS", 0.3)
    with socket_that(None) as url:
        before = time.monotonic()
        assert "did not answer in time" in failure(url)
        assert "did not answer in time" in failure(url, "send")
        assert time.monotonic() - before < 30


def test_what_a_server_writes_is_not_repeated():
    def answer(connection):
        request_line(connection)
        body = b"hunter2 \x1b[31m status code: 200"
        head = b"HTTP/1.1 418 hunter2\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)

    with socket_that(answer) as url:
        assert "it answered 418 I'm a Teapot" in failure(url)


def test_a_server_that_dies_in_the_middle_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "STALL_SECONDS", 5)

    def answer(connection):
        request_line(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n")
        connection.sendall(b"Last-Modified: Thu, 03 Dec 2026 00:00:00 GMT\r\n\r\n" + b"x" * 5000)

    with (
        socket_that(answer) as url,
        (tmp_path / "part").open("wb") as file,
        pytest.raises(RemoteError, match="the connection broke"),
    ):
        Objects(url, {}).fetch("toy/wheel", file)


_ASKING = """
import sys
from buildkit.objects import Objects
print("asking", flush=True)
try:
    Objects(sys.argv[1], {}).read("toy/entry.json", 100)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_ends_the_wait_for_a_silent_host_without_a_word_of_the_library():
    with socket_that(None) as url:
        asking = subprocess.Popen(
            [sys.executable, "-c", _ASKING, url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )
        assert asking.stdout.readline() == "asking\n"
        time.sleep(0.5)
        asking.send_signal(signal.SIGINT)
        _, told = asking.communicate(timeout=60)
        assert (asking.returncode, told) == (130, "")
