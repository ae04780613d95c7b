"""A package index of wheels: written to a directory, or served."""

from buildkit.wheelhouse.server import IndexServer, open_server
from buildkit.wheelhouse.stock import CacheStock, FolderStock, cached_wheels, folder_wheels
from buildkit.wheelhouse.write import write_index

__all__ = [
    "CacheStock",
    "FolderStock",
    "IndexServer",
    "cached_wheels",
    "folder_wheels",
    "open_server",
    "write_index",
]
