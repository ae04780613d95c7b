"""buildkit: a recipe becomes a plan, the plan becomes a wheel that runs on the GPU at hand."""

__version__ = "0.1.0"
