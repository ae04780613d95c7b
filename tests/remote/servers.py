"""Real servers on loopback, each an ordinary process of its own, and sockets that misbehave."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, Request, build_opener

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Where Debian puts programs of administrators; it is not on everybody's PATH.
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"

_NGINX = """\
daemon off;
master_process off;
pid {root}/pid;
error_log {root}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {root}/body;
  client_max_body_size 0;
  proxy_temp_path {root}/unused1; fastcgi_temp_path {root}/unused2;
  uwsgi_temp_path {root}/unused3; scgi_temp_path {root}/unused4;
  server {{
    listen 127.0.0.1:{port};
    location /open/ {{ alias {root}/files/; dav_methods PUT; create_full_put_path on; }}
    location /read/ {{ alias {root}/files/; }}
    location /private/ {{
      alias {root}/files/; dav_methods PUT; create_full_put_path on;
      auth_basic "wheels"; auth_basic_user_file {root}/users;
    }}
    location /denied/ {{ deny all; }}
    location /full/ {{
      alias {root}/files/; dav_methods PUT;
      if ($request_method = PUT) {{ return 507; }}
    }}
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str | Path], port: int, log: Path, **variables: str
) -> Iterator[None]:
    """Run a server until the block ends; it begins when the port is open."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | variables)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


@contextmanager
def webdav(root: Path) -> Iterator[str]:
    """Run nginx; its files lie in ``root/files``. Yield its address."""
    program = shutil.which("nginx", path=_PATH)
    if program is None:
        pytest.skip("no nginx: apt-get install nginx-light")
    (root / "files").mkdir(parents=True)
    (root / "users").write_text("ann:{PLAIN}right\n")
    port = free_port()
    (root / "nginx.conf").write_text(_NGINX.format(root=root, port=port))
    command = [program, "-p", root, "-e", root / "error.log", "-c", root / "nginx.conf"]
    with running(command, port, root / "log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def s3(root: Path, *, is_guarded: bool = False) -> Iterator[str]:
    """Run a server that speaks S3, with the bucket ``wheels``. Yield its address.

    :param is_guarded: It knows no user, and refuses all credentials.
    """
    if find_spec("moto") is None or find_spec("flask") is None:
        pytest.skip("no moto: pip install '.[test]'")
    port = free_port()
    script = "import sys; from moto.server import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", script, "-H", "127.0.0.1", "-p", str(port)]
    # The first request makes the bucket; those after it need credentials if `is_guarded`.
    variables = {"INITIAL_NO_AUTH_ACTION_COUNT": "1"} if is_guarded else {}
    with running(command, port, root / "log", **variables):
        url = f"http://127.0.0.1:{port}"
        request = Request(f"{url}/wheels", method="PUT")
        with build_opener(ProxyHandler({})).open(request) as answer:
            assert answer.status == 200
        yield url


@contextmanager
def socket_that(answer: Callable[[socket.socket], None] | None) -> Iterator[str]:
    """Listen on a port; each connection is given to ``answer``, or waits for ever when None."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()

        def serve() -> None:
            server.settimeout(0.05)
            while not stopped.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    if answer is not None:
                        answer(connection)

        thread = threading.Thread(target=serve)
        if answer is not None:
            thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stopped.set()
            if answer is not None:
                thread.join()


def request_line(connection: socket.socket) -> str:
    """Read a request up to its body, and return its first line."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = connection.recv(65536)
        if not block:
            break
        data += block
    return data.partition(b"\r\n")[0].decode()
