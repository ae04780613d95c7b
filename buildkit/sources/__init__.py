"""Sources: pinned, fetched, checked and unpacked."""

from buildkit.sources.resolve import resolve_source

__all__ = ["resolve_source"]
