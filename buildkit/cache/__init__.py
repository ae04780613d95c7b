"""Verified wheels, by key."""

from buildkit.cache.store import (
    look_up,
    nearest_fields,
    require_cache,
    store_wheel,
    stored_fields,
)

__all__ = ["look_up", "nearest_fields", "require_cache", "store_wheel", "stored_fields"]
