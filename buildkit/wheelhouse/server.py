"""An index is served over HTTP for a lab or a CI network.

What enters: requests. What leaves: pages made of the wheels that there are at that moment, and the
wheels. A path is looked up among known names and never joined to a directory, so that none leads
out. Nothing is written, and there is no other method than GET and HEAD.
"""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from buildkit.errors import BuildkitError, JobError, Location, RequestError
from buildkit.wheelhouse.negotiate import negotiate
from buildkit.wheelhouse.pages import (
    HTML,
    JSON,
    render_project_html,
    render_project_json,
    render_root_html,
    render_root_json,
)
from buildkit.wheelhouse.stock import by_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildkit.wheelhouse.stock import IndexedWheel, Stock

__all__ = ["IndexServer", "open_server"]

_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a request gets."""

    status: HTTPStatus
    kind: str = _PLAIN
    body: bytes = b""
    wheel: IndexedWheel | None = None
    """Sent instead of the body."""
    headers: tuple[tuple[str, str], ...] = ()


class IndexServer(ThreadingHTTPServer):
    """Serves the wheels of a stock."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        family: socket.AddressFamily,
        stock: Stock,
        told: Callable[[str], None],
    ) -> None:
        self.address_family = family
        self.stock = stock
        self.told = told
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def url(self) -> str:
        """Address for ``--index-url``."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/simple/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of what a request broke on; a client that went away is no matter."""
        import sys

        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            self.told(f"{client_address[0]} failed: {type(error).__name__}: {error}")


def open_server(
    stock: Stock,
    *,
    host: str,
    port: int,
    told: Callable[[str], None],
) -> IndexServer:
    """Return a server that listens already.

    :param port: 0 takes any that is free.
    :param told: Called with a line for each request.
    :raises RequestError: if the address is none of this machine.
    :raises JobError: if the port is taken or not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return IndexServer((str(address[0]), int(address[1])), family, stock, told)
    except (socket.gaierror, UnicodeError) as error:
        raise RequestError(
            f"Found {host!r}, allowed an address of this machine, such as 127.0.0.1 or 0.0.0.0.",
            where=Location(file="command line", key="--bind"),
            remedy="Correct it and try again.",
        ) from error
    except OSError as error:
        raise JobError(
            f"Cannot listen at {host}, port {port}: {error.strerror or error}.",
            remedy="Give another --port (0 takes any that is free) or another --bind.",
        ) from error


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: IndexServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if self.headers["Content-Length"] or self.headers["Transfer-Encoding"]:
            self.close_connection = True  # a body would be read as the next request
        try:
            answer = self._answer()
        except BuildkitError as error:
            self.server.told(f"{self.client_address[0]} {error.what}")
            answer = _says(HTTPStatus.INTERNAL_SERVER_ERROR, "The wheels cannot be read.")
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 - the library calls it so

    def version_string(self) -> str:
        """Name the kit and no versions."""
        return "buildkit"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the library refuses by itself: unknown methods, lines that are no request."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        allowed = (("Allow", "GET, HEAD"),) if status is HTTPStatus.METHOD_NOT_ALLOWED else ()
        self.close_connection = True
        self._send(_says(status, message or status.phrase, headers=allowed))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Tell of a request in one line that holds no control characters."""
        status = code.value if isinstance(code, HTTPStatus) else code
        line = ascii(getattr(self, "requestline", ""))[1:-1]
        self.server.told(f'{self.client_address[0]} "{line}" {status}')

    def log_message(self, format: str, *args: Any) -> None:
        """Tell of a connection that timed out."""
        self.server.told(f"{self.client_address[0]} {ascii(format % args)[1:-1]}")

    @cached_property
    def _offer(self) -> str:
        return ", ".join((JSON, HTML, "text/html"))

    def _answer(self) -> _Answer:
        """Look a path up."""
        parts = [unquote(part) for part in urlsplit(self.path).path.split("/")]
        match parts:
            case ["", ""]:
                page = render_root_html(["simple"])
                return _Answer(status=HTTPStatus.OK, kind="text/html; charset=utf-8", body=page)
            case ["", "simple"]:
                return _moved("simple/")
            case ["", "simple", ""]:
                return self._root()
            case ["", "simple", name]:
                return self._project(name, "")
            case ["", "simple", name, ""]:
                return self._project(name, "../")
            case ["", "wheels", digest, name]:
                return self._wheel(digest, name)
            case _:
                told = "There is no such page. The index is at /simple/."
                return _says(HTTPStatus.NOT_FOUND, told)

    def _root(self) -> _Answer:
        projects = by_project(self.server.stock.wheels())
        return self._page(lambda: render_root_json(projects), lambda: render_root_html(projects))

    def _project(self, name: str, back: str) -> _Answer:
        from packaging.utils import canonicalize_name

        project = str(canonicalize_name(name))
        wheels = by_project(self.server.stock.wheels()).get(project)
        if wheels is None:
            return _says(HTTPStatus.NOT_FOUND, "There is no wheel of this project.")
        if not back or name != project:
            return _moved(f"{back}{quote(project)}/")
        return self._page(
            lambda: render_project_json(project, wheels, _address),
            lambda: render_project_html(project, wheels, _address),
        )

    def _page(self, as_json: Callable[[], bytes], as_html: Callable[[], bytes]) -> _Answer:
        kind = negotiate(", ".join(self.headers.get_all("Accept", [])))
        if kind is None:
            return _says(HTTPStatus.NOT_ACCEPTABLE, f"This index speaks {self._offer}.")
        return _Answer(
            status=HTTPStatus.OK,
            kind=kind if kind != "text/html" else "text/html; charset=utf-8",
            body=as_json() if kind == JSON else as_html(),
            headers=(("Vary", "Accept"), ("Cache-Control", "no-cache")),
        )

    def _wheel(self, digest: str, name: str) -> _Answer:
        stem = name.removesuffix(".metadata")
        for wheel in self.server.stock.wheels():
            if wheel.filename == stem and wheel.sha256[:16] == digest:
                lasting = (("Cache-Control", "public, max-age=31536000, immutable"),)
                kind = "application/octet-stream"
                if stem != name:
                    body = wheel.metadata
                    return _Answer(status=HTTPStatus.OK, kind=_PLAIN, body=body, headers=lasting)
                return _Answer(status=HTTPStatus.OK, kind=kind, wheel=wheel, headers=lasting)
        return _says(HTTPStatus.NOT_FOUND, "There is no such wheel.")

    def _send(self, answer: _Answer) -> None:
        wheel = answer.wheel
        if wheel is None:
            self._start(answer, len(answer.body))
            if self.command != "HEAD":
                self.wfile.write(answer.body)
            return
        self.server.stock.note_use(wheel)
        try:
            file = wheel.path.open("rb")
        except OSError:
            self._send(_says(HTTPStatus.NOT_FOUND, "The wheel is gone."))
            return
        with file:  # stays readable when its name goes
            self._start(answer, wheel.size_bytes)
            if self.command != "HEAD":
                shutil.copyfileobj(file, self.wfile, 1 << 20)

    def _start(self, answer: _Answer, size_bytes: int) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(size_bytes))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def _address(wheel: IndexedWheel) -> str:
    return f"../../wheels/{wheel.sha256[:16]}/{quote(wheel.filename)}"


def _says(status: HTTPStatus, text: str, headers: tuple[tuple[str, str], ...] = ()) -> _Answer:
    return _Answer(status=status, body=f"{text}\n".encode(), headers=headers)


def _moved(place: str) -> _Answer:
    return _says(
        HTTPStatus.MOVED_PERMANENTLY, "It is at the address with the slash.", (("Location", place),)
    )
