"""Recipes: TOML files that say what to fetch, patch, compile and check."""

from buildkit.recipe.catalogue import (
    find_recipe,
    list_recipes,
    lock_file,
    patch_directory,
    settle,
    version_of,
)
from buildkit.recipe.decode import read_recipe

__all__ = [
    "find_recipe",
    "list_recipes",
    "lock_file",
    "patch_directory",
    "read_recipe",
    "settle",
    "version_of",
]
