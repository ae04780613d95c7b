"""The uv that is installed with the kit, and how it is told of the user's package index."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from buildkit.environ import base_environment
from buildkit.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buildkit.kit import Supply
    from buildkit.run import Completed
    from buildkit.values import IndexSettings

__all__ = ["call_pip", "index_arguments", "uv_binary", "uv_environment"]


def uv_binary() -> str:
    """Return the path of the kit's own uv; not PATH's, whose version nobody pinned.

    :raises ToolchainError: if it is missing.
    """
    from uv import find_uv_bin

    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise ToolchainError(
            "The program uv, which comes with the kit, is missing.",
            remedy="Install the kit again: `pip install --force-reinstall uv`.",
        ) from error


def uv_environment(supply: Supply, settings: IndexSettings) -> dict[str, str]:
    """Return the whole environment of a call of uv.

    No configuration file of the user's own takes part: the index is the one of the kit's settings.
    Addresses go through variables, because they may hold credentials and arguments are for all
    users of a machine to see.
    """
    supply.holds.hold(supply.paths.uv)
    variables = base_environment(supply.environment, network=True)
    variables |= {
        "UV_CACHE_DIR": str(supply.paths.uv),
        "UV_NO_CONFIG": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": str(int(settings.timeout_seconds or 60)),
    }
    if settings.index_url:
        variables["UV_DEFAULT_INDEX"] = settings.index_url
    if settings.extra_index_urls:
        variables["UV_EXTRA_INDEX_URL"] = " ".join(settings.extra_index_urls)
    if settings.find_links:
        variables["UV_FIND_LINKS"] = ",".join(settings.find_links)
    if settings.cert:
        variables["SSL_CERT_FILE"] = settings.cert
    if settings.client_cert:
        variables["SSL_CLIENT_CERT"] = settings.client_cert
    if settings.proxy:
        variables |= {"HTTP_PROXY": settings.proxy, "HTTPS_PROXY": settings.proxy}
    if settings.trusted_hosts:
        variables["UV_INSECURE_HOST"] = " ".join(settings.trusted_hosts)
    return variables


def index_arguments(settings: IndexSettings, *, is_offline: bool) -> Sequence[str]:
    """Return the switches that have no variable."""
    arguments = ["--offline"] if is_offline else []
    return [*arguments, "--no-index"] if settings.no_index else arguments


def call_pip(
    verb: str,
    arguments: Sequence[str | Path],
    supply: Supply,
    *,
    folders: Sequence[Path],
    is_pinned: bool,
) -> Completed:
    """Run ``uv pip install`` or its like with the user's index, and return how it ended.

    :param folders: Directories of wheels besides those of the user's pip.
    :param is_pinned: Every version is named: what was fetched before needs no network.
    """
    places = (*(str(folder) for folder in folders), *supply.settings.find_links)
    settings = dataclasses.replace(supply.settings, find_links=places)
    variables = uv_environment(supply, settings)
    command = [
        *(uv_binary(), "pip", verb, "--quiet"),
        *index_arguments(settings, is_offline=supply.is_offline),
        *arguments,
    ]
    if is_pinned and not supply.is_offline:
        done = supply.runner.capture([*command, "--offline"], env=variables)
        if done.status == 0:
            return done
    return supply.runner.capture(command, env=variables)
