"""Loads the variant for the card; without a card, the one for all but Hopper."""

import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

# The twin has no torch: as much of it as the package touches.
_torch = ModuleType("torch")
_torch.ops = SimpleNamespace(sgl_kernel=SimpleNamespace())
sys.modules.setdefault("torch", _torch)

common_ops = import_module("sgl_kernel.sm100.common_ops")
