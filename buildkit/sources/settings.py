"""The user's own pip configuration: which index, through which proxy, with which certificate.

What enters: the environment and pip's configuration files. What leaves: the settings that fetching
needs. Read here once, so that unearth and uv, which read none of it or other files, agree with what
``pip install`` does on this machine. Source: pip user guide, "Configuration".
"""

from __future__ import annotations

import configparser
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from buildkit.errors import Location, RequestError
from buildkit.values import IndexSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["read_index_settings", "redact"]

#: Sections that count for fetching, a later one over an earlier one.
_SECTIONS = ("global", "download", "install")


def read_index_settings(environment: Mapping[str, str]) -> IndexSettings:
    """Return how the user's pip reaches package indexes.

    :raises RequestError: if a configuration file cannot be parsed, or a value is wrong.
    """
    merged: dict[str, tuple[str, Location]] = {}
    for file in _files(environment):
        merged |= _read(file)
    for name, value in environment.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE" and value:
            key = name[4:].lower().replace("_", "-")
            merged[key] = (value, Location(file="environment", key=name))

    def text(key: str) -> str | None:
        return merged[key][0].strip() or None if key in merged else None

    def listed(key: str) -> tuple[str, ...]:
        return tuple(merged[key][0].split()) if key in merged else ()

    return IndexSettings(
        index_url=text("index-url"),
        extra_index_urls=listed("extra-index-url"),
        find_links=tuple(_place(item) for item in listed("find-links")),
        no_index=(text("no-index") or "no").lower() in {"1", "true", "yes", "on"},
        cert=text("cert"),
        client_cert=text("client-cert"),
        proxy=text("proxy"),
        trusted_hosts=listed("trusted-host"),
        timeout_seconds=_seconds(merged),
    )


def redact(text: str) -> str:
    """Return a text with the credentials of all addresses in it hidden.

    >>> redact("see https://user:secret@example.org/simple and ssh://git@host/x")
    'see https://***@example.org/simple and ssh://***@host/x'
    """
    return re.sub(r"(\w+://)[^/\s@]+@", r"\1***@", text)


def without_credentials(url: str) -> str:
    """Return an address without user, password, query and fragment, fit to be written down."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield pip's configuration files, the one that has the last word last."""
    named = environment.get("PIP_CONFIG_FILE")
    if named == "/dev/null":
        return
    for base in reversed(environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
        yield Path(base) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    yield home / ".pip" / "pip.conf"
    configured = environment.get("XDG_CONFIG_HOME")
    yield (Path(configured) if configured else home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _read(file: Path) -> dict[str, tuple[str, Location]]:
    parser = configparser.RawConfigParser()
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return {}  # pip too goes on without a file that it may not read
    except UnicodeDecodeError as error:
        raise _wrong(file, "it is not UTF-8 text") from error
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise _wrong(file, str(error).splitlines()[0]) from error
    found = {}
    for section in _SECTIONS:
        if parser.has_section(section):
            for key, value in parser.items(section):
                name = key.lower().replace("_", "-")
                place = Location(file=str(file), key=f"{section}.{key}")
                found[name] = (value, place)
    return found


def _wrong(file: Path, reason: str) -> RequestError:
    return RequestError(
        f"pip's configuration cannot be read: {reason}.",
        where=Location(file=str(file)),
        remedy="Mend it, or set PIP_CONFIG_FILE=/dev/null to go without.",
    )


def _place(item: str) -> str:
    """Return a find-links entry as it can be used from any directory."""
    return item if "://" in item else str(Path(item).expanduser().absolute())


def _seconds(merged: Mapping[str, tuple[str, Location]]) -> float | None:
    for key in ("timeout", "default-timeout"):
        if key in merged:
            value, place = merged[key]
            try:
                return float(value)
            except ValueError:
                raise RequestError(
                    f"Found {value!r}, allowed a number of seconds.",
                    where=place,
                    remedy="Correct it and try again.",
                ) from None
    return None
