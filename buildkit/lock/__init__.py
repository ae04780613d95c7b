"""Locks of environments: what was installed, made and patched, and the same again elsewhere."""

from buildkit.lock.record import Recorded, lock_environment
from buildkit.lock.sync import Synced, SyncRequest, check_environment, sync_environment

__all__ = [
    "Recorded",
    "SyncRequest",
    "Synced",
    "check_environment",
    "lock_environment",
    "sync_environment",
]
