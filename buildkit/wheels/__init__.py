"""The bytes of wheels: read, listed, rewritten."""

from buildkit.wheels.gpucode import list_gpu_code
from buildkit.wheels.provenance import read_provenance, render_provenance
from buildkit.wheels.read import WheelContents, read_wheel
from buildkit.wheels.rewrite import rewrite_wheel

__all__ = [
    "WheelContents",
    "list_gpu_code",
    "read_provenance",
    "read_wheel",
    "render_provenance",
    "rewrite_wheel",
]
