"""Needs a library of the system."""
