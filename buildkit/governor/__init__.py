"""Admission of compiler calls: how many run at once under a memory cap."""
