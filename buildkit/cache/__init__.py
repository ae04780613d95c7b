"""Verified wheels, by key."""

from buildkit.cache.store import look_up, nearest_fields, store_wheel

__all__ = ["look_up", "nearest_fields", "store_wheel"]
