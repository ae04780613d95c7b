"""Installing what the kit made: with the torch that it was built for, all of it or nothing."""

from buildkit.install.story import Installation, InstallRequest, install
from buildkit.install.wishes import parse_names

__all__ = ["InstallRequest", "Installation", "install", "parse_names"]
