"""Drift: what a CMake project would fetch, beside what its recipe hands over."""

from buildkit.drift.check import check_drift

__all__ = ["check_drift"]
