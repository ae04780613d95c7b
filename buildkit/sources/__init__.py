"""Sources: pinned, fetched, unpacked."""
