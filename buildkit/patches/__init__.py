"""Patches: reviewed diffs that are applied all or none, and prove that they took effect."""

from buildkit.patches.select import select_patches

__all__ = ["select_patches"]
