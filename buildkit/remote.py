"""Whether and where wheels are shared: the address of a remote, and what became of it.

What enters: the address and the mode that a user gave. What leaves: a :class:`RemoteWish` without
any secret, and the :class:`Remote` of one command, which is left alone after its first failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from buildkit.errors import Location, RequestError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.errors import RemoteError
    from buildkit.events import Events
    from buildkit.objects import Objects

__all__ = ["Remote", "RemoteMode", "RemoteWish", "parse_remote", "parse_remote_mode"]

RemoteMode = Literal["read", "read-write"]

SCHEMES = ("s3", "gs", "az", "https", "http", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWish:
    """A place for wheels that several machines share."""

    url: str
    """Holds no secret."""
    mode: RemoteMode = "read"


class Remote:
    """One remote during one command."""

    def __init__(self, wish: RemoteWish, environment: Mapping[str, str], events: Events) -> None:
        self.url = wish.url
        self.is_writable = wish.mode == "read-write"
        self.is_given_up = False
        self.refused: set[str] = set()
        """Names of notes whose entries are damaged; a push replaces them."""
        self._environment = environment
        self._events = events

    @cached_property
    def objects(self) -> Objects:
        """What lies there."""
        from buildkit.objects import Objects

        return Objects(self.url, self._environment)

    def give_up(self, error: RemoteError) -> None:
        """Warn once, and leave the remote alone from now on."""
        if not self.is_given_up:
            self.is_given_up = True
            self._events.warning(f"{error.what} The rest of this command does without it.")

    def refuse(self, name: str, reason: str) -> None:
        """Warn of an entry that is not taken."""
        self.refused.add(name)
        self._events.warning(f"The remote's {name} is refused: {reason.rstrip('.')}. ({self.url})")


def parse_remote(text: str, mode: RemoteMode, where: Location) -> RemoteWish:
    """Return the remote at an address: a URL, or a directory.

    :raises RequestError: if the address has another form or holds a secret, which is not repeated.
    """
    if text.startswith(("/", "~", "./", "../")):
        text = Path(text).expanduser().absolute().as_uri()
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        raise _wrong("an address that is none", where) from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise RequestError(
            "Found a user, a password, a query or a fragment in the address of the remote, allowed"
            " none of them: addresses are printed and stored.",
            where=where,
            remedy="Put credentials into variables, such as AWS_SECRET_ACCESS_KEY or"
            " BUILDKIT_REMOTE_PASSWORD; docs/cache.md lists them.",
        )
    if parts.scheme not in SCHEMES:
        found = f"the scheme {parts.scheme!r}" if parts.scheme else "no scheme"
        raise _wrong(found, where, nearest(parts.scheme, SCHEMES))
    is_local = parts.scheme == "file"
    if bool(host) == is_local or (is_local and parts.path in {"", "/"}):
        raise _wrong(f"{parts.scheme}: without a {'directory' if is_local else 'host'}", where)
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise _wrong("blanks", where)
    if find_spec("obstore") is None:
        raise RequestError(
            "A remote needs the library obstore, which is not installed.",
            where=where,
            remedy="Run `pip install '.[remote]'` in the kit's clone, or name no remote.",
        )
    return RemoteWish(url=text.rstrip("/"), mode=mode)


def parse_remote_mode(value: object, where: Location) -> RemoteMode:
    """Return the mode of a remote.

    :raises RequestError: if it is none.
    """
    match value:
        case "read" | "read-write":
            return value
        case _:
            raise RequestError(
                f"Found {value!r}, allowed read or read-write.",
                where=where,
                remedy="Correct it and try again.",
            )


def _wrong(found: str, where: Location, hint: str = "") -> RequestError:
    return RequestError(
        f"Found {found}, allowed s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH,"
        f" https://HOST/PATH or a directory.{hint}",
        where=where,
        remedy="Correct the address of the remote.",
    )
