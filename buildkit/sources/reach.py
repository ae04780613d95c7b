"""Whether the host of an address answers, asked before a program that would wait for minutes.

What enters: an address and the variables of the program that will use it. What leaves: nothing, or
an error within seconds. git has no limit of its own for the time of connecting.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from buildkit.errors import SourceError
from buildkit.sources.settings import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CONNECT_SECONDS", "require_host"]

#: A host that answers does so in a fraction of this; the kernel would go on for two minutes.
#: Source: Linux ``Documentation/networking/ip-sysctl.rst``, tcp_syn_retries; the figure is ours.
CONNECT_SECONDS = 10.0

#: For ssh its own configuration may say that a name is another host's. Source: the IANA registry.
_PORTS = {"http": 80, "https": 443, "git": 9418}


def require_host(url: str, variables: Mapping[str, str]) -> None:
    """Refuse an address whose host cannot be connected to; behind a proxy nothing is asked.

    :raises SourceError: if the host has no address, refuses, or does not answer.
    """
    place = _host(url)
    if place is None or _has_proxy(url, variables):
        return
    host, port = place
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        is_silent = isinstance(error, TimeoutError)
        reason = f"no answer within {CONNECT_SECONDS:g} s" if is_silent else str(error)
        raise SourceError(
            f"{redact(url)} cannot be reached: {host}, port {port}: {reason}.",
            remedy="Look at the address, the network and the proxy, and try again; or fill a"
            " mirror with `buildkit fetch` where the network is.",
        ) from error


def _host(url: str) -> tuple[str, int] | None:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    try:
        return parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError:
        return None  # a port that is none: git says so


def _has_proxy(url: str, variables: Mapping[str, str]) -> bool:
    names = ("all_proxy", f"{urlsplit(url).scheme}_proxy")
    return any(variables.get(name) or variables.get(name.upper()) for name in names)
