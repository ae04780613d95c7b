"""Verified wheels, by key."""

from buildkit.cache.store import look_up, nearest_fields, require_cache, store_wheel

__all__ = ["look_up", "nearest_fields", "require_cache", "store_wheel"]
