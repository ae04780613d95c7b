"""Verified wheels, by key; and the collection of everything that grows in the cache."""

from buildkit.cache.store import (
    list_entries,
    look_up,
    nearest_fields,
    require_cache,
    store_wheel,
    stored_fields,
)

__all__ = [
    "list_entries",
    "look_up",
    "nearest_fields",
    "require_cache",
    "store_wheel",
    "stored_fields",
]
