"""Loads both libraries, so that an import proves that they can be loaded."""

import ctypes
from pathlib import Path

here = Path(__file__).parent
nodes = [ctypes.CDLL(str(here / f"_{how}.so")).nodes() for how in ("found", "asked")]
