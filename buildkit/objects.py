"""Objects with names at an address, which may be slow, broken or gone; the one user of obstore.

What enters: the address of a remote, and names. What leaves: bytes, or one
:class:`~buildkit.errors.RemoteError` that says why not, in our own words: an answer of a server, or
an address with a signature in it, is never quoted. The library speaks to S3 and what is like it,
Google Cloud Storage, Azure, HTTP with WebDAV, and directories; credentials are what it finds in the
environment, or ``BUILDKIT_REMOTE_*`` for HTTP. It is imported late: a ``make`` that finds its wheel
here needs none of it.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from buildkit.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from obstore.store import ClientConfig, ObjectStore, RetryConfig

__all__ = ["Objects"]

#: Until there is a connection. A host that is there answers within its round trip.
CONNECT_SECONDS = 3

#: Until a small object has come, with the connection and what the credentials take.
ANSWER_SECONDS = 5

#: Without a byte of a large object.
STALL_SECONDS = 20

#: An upload that is slower is given up.
SLOWEST_BYTES_PER_SECOND = 256 << 10

#: After this no request is tried again, so that a host that is gone costs one wait.
RETRY_SECONDS = 2

_PART_BYTES = 8 << 20

_Result = TypeVar("_Result")


class Objects:
    """What lies at one address."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        self.url = url
        self._environment = environment

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Return a small object, or None where there is none.

        :raises RemoteError: if the remote fails.
        :raises ValueError: if the object is larger than ``most_bytes``.
        """
        import obstore

        def act() -> bytes | None:
            try:
                found = obstore.get(self._opened(ANSWER_SECONDS), name)
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None
            if found.meta["size"] > most_bytes:
                raise ValueError(f"{name} is larger than {most_bytes} bytes")
            return bytes(found.bytes())

        return self._run(act, f"read {name}", ANSWER_SECONDS)

    def fetch(self, name: str, file: BinaryIO) -> None:
        """Write an object to a file.

        :raises RemoteError: if the remote fails; the file holds a part then.
        :raises ValueError: if there is no such object.
        """
        import obstore

        def act() -> None:
            try:
                found = obstore.get(self._opened(None), name)
            except FileNotFoundError as error:
                raise ValueError(f"{name} is missing") from error
            for block in found.stream(min_chunk_size=1 << 20):
                file.write(block)

        self._run(act, f"read {name}", None)

    def send(self, name: str, contents: bytes | Path) -> None:
        """Write an object, whole or not at all, in place of one that is there.

        :raises RemoteError: if the remote fails.
        """
        import obstore

        is_small = isinstance(contents, bytes)
        size = len(contents) if isinstance(contents, bytes) else contents.stat().st_size
        seconds = STALL_SECONDS + size / SLOWEST_BYTES_PER_SECOND

        def act() -> None:
            obstore.put(
                self._opened(seconds),
                name,
                contents,
                # WebDAV knows no parts; each request of it is a whole object, from memory.
                use_multipart=not is_small and not self.url.startswith(("http:", "https:")),
                chunk_size=_PART_BYTES,
                max_concurrency=4,
            )

        self._run(act, f"write {name}", seconds)

    # --- the library --------------------------------------------------------------------------

    def _run(self, act: Callable[[], _Result], what: str, seconds: float | None) -> _Result:
        """Run one act to its end, in words of ours when it fails; Ctrl-C ends the wait at once.

        The library's calls hear no signal, so that a thread waits for them, which does not keep the
        process. Its asynchronous calls would, but they touch the interpreter from threads of their
        own, also when it is about to end, which aborts the process.
        """
        from obstore.exceptions import BaseError

        results: list[_Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(act())
            except BaseException as error:
                errors.append(error)

        thread = Thread(target=work, daemon=True)
        thread.start()
        # The library's own limits come first; this one is for what they do not cover.
        thread.join(None if seconds is None else seconds + 1)
        if results:
            return results[0]
        error = errors[0] if errors else TimeoutError()
        # An error with a number is of a file of ours: the library's have none.
        is_ours = isinstance(error, OSError) and error.errno is not None
        if isinstance(error, (BaseError, OSError, NotImplementedError)) and not is_ours:
            # The library's text holds what the server said, and so is no cause to show.
            raise self._failed(what, _reason(error))
        raise error

    def _failed(self, what: str, reason: str) -> RemoteError:
        return RemoteError(
            f"The remote {self.url} failed to {what}: {reason}.",
            remedy="Look at its address, its credentials and its disk.",
        )

    def _opened(self, seconds: float | None) -> ObjectStore:
        """Return the library's view of the address.

        :param seconds: Limit of a whole request; None for one that may take long, and is given up
            when nothing comes any more.
        """
        from obstore.store import HTTPStore, LocalStore, from_url

        if self.url.startswith("file:"):
            return LocalStore.from_url(self.url)
        options: ClientConfig = {
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(days=1) if seconds is None else timedelta(seconds=seconds),
            "allow_http": True,
        }
        if seconds is None:
            options["read_timeout"] = timedelta(seconds=STALL_SECONDS)
        retry: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
        try:
            if self.url.startswith(("http:", "https:")):
                if headers := _authorization(self._environment):
                    options["default_headers"] = headers
                return HTTPStore(self.url, client_options=options, retry_config=retry)
            return from_url(self.url, client_options=options, retry_config=retry)
        except ValueError:
            raise self._failed("open", "the environment does not configure it") from None


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    from base64 import b64encode

    if token := environment.get("BUILDKIT_REMOTE_TOKEN"):
        return {"authorization": f"Bearer {token}"}
    if user := environment.get("BUILDKIT_REMOTE_USER"):
        pair = f"{user}:{environment.get('BUILDKIT_REMOTE_PASSWORD', '')}"
        return {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    return {}


#: What the library's errors say in their own words, and what we say for it.
_REASONS = (
    ("dns error", "nobody knows its name"),
    ("ConnectionRefused", "the connection was refused"),
    ("kind: Timeout", "it did not answer in time"),
    ("TimedOut", "it did not answer in time"),
    ("kind: Connect", "there is no connection"),
    ("kind: Decode", "the connection broke"),
    ("kind: Body", "the connection broke"),
    ("kind: Interrupted", "the connection broke"),
)


def _reason(error: BaseException) -> str:
    """Return why the remote failed. Nothing of the text but numbers is passed on."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    text = str(error)
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if "//169.254.169.254/" in text:  # asked for the role of the machine, as the last resort
        return "there are no credentials in the environment"
    first = text.partition("\n")[0]
    if status := re.search(r"status code: (\d{3})\b", first):
        number = int(status[1])
        with_name = f"{number} {HTTPStatus(number).phrase}" if number in set(HTTPStatus) else ""
        return f"it answered {with_name or number}"
    for mark, reason in _REASONS:
        if mark in text:
            return reason
    if code := re.search(r"\bcode: (\d+),", text):
        return os.strerror(int(code[1])).lower()
    return f"{type(error).__name__} of the library"
