"""Verified wheels, by key."""
