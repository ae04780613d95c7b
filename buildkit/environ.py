"""Every environment variable that the kit reads or sets; the one user of ``os.environ``.

What enters: the process environment, once. What leaves: the small part that children may see.
A variable outside the allow-list does not reach a compiler, so a stray ``CFLAGS`` or
``NVCC_APPEND_FLAGS`` can neither change a wheel nor hide from its key.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NETWORK", "SECRET_MARKS", "STRAY", "base_environment", "process_environment", "strays"]

#: What every child gets. PATH is replaced by the build's own.
_ALWAYS = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "XDG_CACHE_HOME")

#: What children that fetch get besides: proxies, certificates and the index configuration.
NETWORK = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NETRC",
    "SSH_AUTH_SOCK",
)

#: Variables that compilers and build tools obey and that people leave set. They are dropped, and
#: the plan names those that were set. Source: GCC manual "Environment Variables", nvcc manual
#: "NVCC Environment Variables", CMake manual "cmake-env-variables".
STRAY = (
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "CUDAFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "CMAKE_ARGS",
    "CMAKE_PREFIX_PATH",
    "CMAKE_GENERATOR",
    "TORCH_CUDA_ARCH_LIST",
    "CUDAARCHS",
    "CUDAHOSTCXX",
    "CC",
    "CXX",
    "MAX_JOBS",
    "NVCC_THREADS",
    "MAKEFLAGS",
    "NINJAFLAGS",
    "PYTHONPATH",
    "LD_PRELOAD",
)

#: A variable whose name holds one of these is not printed.
SECRET_MARKS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "NETRC")


def process_environment() -> Mapping[str, str]:
    """Return the environment that the kit was started with, read-only."""
    return MappingProxyType(dict(os.environ))


def base_environment(environment: Mapping[str, str], *, network: bool = False) -> dict[str, str]:
    """Return what a child may see of ``environment``.

    :param network: The child fetches: proxies and certificates are passed on too. ``PIP_*`` and
        ``UV_*`` are not: index settings are read once by :mod:`buildkit.sources` and passed as
        arguments.
    """
    names = (*_ALWAYS, *NETWORK) if network else _ALWAYS
    kept = {name: environment[name] for name in names if name in environment}
    kept.setdefault("HOME", "/")
    # One locale for all tools: messages are matched and sorted output enters wheels.
    kept.update(LANG="C.UTF-8", LC_ALL="C.UTF-8", PATH=environment.get("PATH", os.defpath))
    return kept


def strays(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that were set and that the build does not pass on."""
    return tuple(name for name in STRAY if environment.get(name))
