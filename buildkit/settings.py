"""The settings that a flag, a variable or the configuration file may give: a table, no more."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SETTINGS", "Setting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting that may come from a flag, a variable or the configuration file."""

    flag: str
    variable: str
    help: str


SETTINGS: dict[str, Setting] = {
    "arch": Setting(
        flag="--arch", variable="BUILDKIT_ARCH", help="GPU target, such as sm120 or 12.0."
    ),
    "python": Setting(
        flag="--python",
        variable="BUILDKIT_PYTHON",
        help="Python to build for: a version, an interpreter or an environment.",
    ),
    "out": Setting(
        flag="--out", variable="BUILDKIT_OUT", help="Directory for the wheel.  [default: dist]"
    ),
    "jobs": Setting(
        flag="--jobs", variable="BUILDKIT_JOBS", help="Most compiler calls at the same time."
    ),
    "memory": Setting(
        flag="--memory",
        variable="BUILDKIT_MEMORY",
        help="Most memory that the build may use, such as 12GiB.",
    ),
    "hard_cap": Setting(
        flag="--hard-cap",
        variable="BUILDKIT_HARD_CAP",
        help="Let the kernel keep the build to its memory too: auto, on or off.",
    ),
    "object_cache": Setting(
        flag="--object-cache",
        variable="BUILDKIT_OBJECT_CACHE",
        help="Take compiled objects from earlier builds (experimental): auto, ccache or off."
        "  [default: off]",
    ),
    "offline": Setting(
        flag="--offline", variable="BUILDKIT_OFFLINE", help="Use only what was fetched before."
    ),
    "mirror": Setting(
        flag="--mirror",
        variable="BUILDKIT_MIRROR",
        help="Directory that `buildkit fetch` filled; asked before the network.",
    ),
    "system_packages": Setting(
        flag="--system-packages",
        variable="BUILDKIT_SYSTEM_PACKAGES",
        help="Headers and libraries that this machine lacks: download takes them from the"
        " distribution's packages, without root; never asks for them.  [default: download]",
    ),
    "remote": Setting(
        flag="--remote",
        variable="BUILDKIT_REMOTE",
        help="Wheels of other machines, asked before a build: s3://, gs://, az://, https:// or a"
        " directory.",
    ),
    "remote_mode": Setting(
        flag="--remote-mode",
        variable="BUILDKIT_REMOTE_MODE",
        help="read, or read-write: what is built here is pushed.  [default: read]",
    ),
}
"""Every setting of the cascade; its name is the key in the configuration file."""
