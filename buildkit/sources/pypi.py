"""Files of a package index, or at an address: found through unearth, kept by digest.

What enters: a project and a file name, or an address, and the user's index settings. What leaves:
a file in the download cache whose SHA-256 is the one that was asked for. A file that differs is
never kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from buildkit.digest import Digest, digest_file
from buildkit.errors import Location, SourceError
from buildkit.events import Progress
from buildkit.sources.reach import CONNECT_SECONDS
from buildkit.sources.settings import redact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from buildkit.events import Events
    from buildkit.kit import Supply
    from buildkit.paths import Paths
    from buildkit.values import IndexSettings

__all__ = ["IndexFile", "cached_file", "download", "find_files"]

#: Seconds to wait before each further try of a download that broke off.
PAUSES_SECONDS = (1.0, 3.0, 9.0)

#: Errors of a host that cannot be connected to. By name, since unearth's HTTP client has changed
#: its package before. Source: httpx, "Exceptions".
_AWAY = ("ConnectError", "ConnectTimeout")

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A file of a project on an index."""

    filename: str
    version: str
    url: str
    """May hold credentials."""
    is_yanked: bool
    sha256: Digest | None
    """What the index says that it is; None where it says nothing."""
    requires_python: str
    """PEP 440 specifiers; empty for all."""


def find_files(project: str, settings: IndexSettings) -> tuple[IndexFile, ...]:
    """Return all files of a project on the user's indexes and in the find-links directories.

    :raises SourceError: if no index can be asked.
    """
    from unearth import PackageFinder

    with _client(settings) as client:
        indexes = () if settings.no_index else _indexes(settings)
        finder = PackageFinder(
            client,
            index_urls=indexes,
            find_links=settings.find_links,
            trusted_hosts=settings.trusted_hosts,
            ignore_compatibility=True,
        )
        try:
            packages = list(finder.find_all_packages(project, allow_yanked=True))
        except Exception as error:  # unearth and its HTTP client have no common root
            raise SourceError(
                f"The package index cannot be asked for {project}: {redact(str(error))}.",
                remedy="Look at the network and at `pip config list`, and try again.",
            ) from error
    return tuple(
        IndexFile(
            filename=package.link.filename,
            version=str(package.version or ""),
            url=package.link.normalized,
            is_yanked=package.link.yank_reason is not None,
            sha256=_sha256(package.link),
            requires_python=package.link.requires_python or "",
        )
        for package in packages
    )


def _sha256(link: Any) -> Digest | None:
    found = (link.hash_option or {}).get("sha256")
    return Digest(found[0].lower()) if found else None


def cached_file(paths: Paths, sha256: Digest, filename: str) -> Path | None:
    """Return a file of the download cache, or None; one that was damaged is removed."""
    file = paths.download(sha256, filename)
    if not file.is_file():
        return None
    if digest_file(file) != sha256:
        file.unlink(missing_ok=True)
        return None
    return file


def download(
    url: str, filename: str, expected: Digest | None, supply: Supply
) -> tuple[Path, Digest]:
    """Fetch a file into the download cache.

    :param expected: Digest that it must have; None when it is to be pinned.
    :returns: The file and its digest.
    :raises SourceError: if it cannot be fetched, or differs.
    """
    import os
    import tempfile
    from pathlib import Path as FilePath

    downloads = supply.paths.downloads
    downloads.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".part-", dir=downloads)
    os.close(handle)
    part = FilePath(name)
    try:
        with _client(supply.settings) as client:
            _retry(lambda: _stream(client, url, part, filename, supply.events), filename)
        digest = digest_file(part)
        if expected is not None and digest != expected:
            raise SourceError(
                f"{filename} differs from its pin: found sha256 {digest}, allowed {expected}.",
                remedy="If the publisher replaced it knowingly, write the new digest with"
                " `buildkit pin`; if not, do not build it.",
            )
        place = supply.paths.download(digest, filename)
        supply.holds.hold(place.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        part.chmod(0o444)
        part.replace(place)
    except OSError as error:
        raise SourceError(
            f"{filename} cannot be kept: {error.strerror or error}.",
            where=Location(file=str(downloads)),
            remedy="Free some space, or point BUILDKIT_CACHE to another disk.",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return place, digest


def _indexes(settings: IndexSettings) -> tuple[str, ...]:
    # Source: pip's default index, PEP 503.
    first = settings.index_url or "https://pypi.org/simple"
    return (first, *settings.extra_index_urls)


def _client(settings: IndexSettings) -> Any:
    import ssl

    from unearth.fetchers import PyPIClient

    seconds = settings.timeout_seconds or 60.0
    context = ssl.create_default_context(cafile=settings.cert)
    if settings.client_cert:
        context.load_cert_chain(settings.client_cert)
    proxy: dict[str, Any] = {"proxy": settings.proxy} if settings.proxy else {}
    return PyPIClient(
        trusted_hosts=list(settings.trusted_hosts),
        verify=context,
        # To connect, to read, to write, to get a connection of the pool.
        timeout=(min(seconds, CONNECT_SECONDS), seconds, seconds, seconds),
        follow_redirects=True,
        **proxy,
    )


def _stream(client: Any, url: str, part: Path, filename: str, events: Events) -> None:
    with client.get_stream(url) as response, part.open("wb") as file:
        response.raise_for_status()
        total = int(response.headers.get("Content-Length", 0)) or None
        done = 0
        for block in response.iter_bytes(_BLOCK_BYTES):
            file.write(block)
            done += len(block)
            events.progress(Progress(done=done, total=total, unit="bytes", current=filename))


def _retry(fetch: Callable[[], None], filename: str) -> None:
    """Try again what may pass: broken connections and servers in trouble, not refusals.

    A host that cannot be connected to is tried twice: it is seldom back within seconds.

    :raises SourceError: with the last reason.
    """
    for tries, pause_seconds in enumerate((*PAUSES_SECONDS, None)):
        try:
            fetch()
        except OSError:
            raise
        except Exception as error:  # the HTTP client's errors have several roots
            status = getattr(getattr(error, "response", None), "status_code", 500)
            is_away = type(error).__name__ in _AWAY and tries > 0
            if pause_seconds is None or status < 500 or is_away:
                raise SourceError(
                    f"{filename} cannot be fetched: {redact(str(error) or type(error).__name__)}.",
                    remedy="Look at the network and at `pip config list`, and try again.",
                ) from error
            time.sleep(pause_seconds)
        else:
            return
