"""Tools: probed, locked, installed into isolated environments."""
