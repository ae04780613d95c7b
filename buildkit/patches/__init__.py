"""Patches: diffs that prove that they took effect."""
