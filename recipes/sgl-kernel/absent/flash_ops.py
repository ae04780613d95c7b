"""In place of FlashAttention 3, which this build of sgl-kernel leaves out.

``sgl_kernel.flash_attn`` imports the library ``flash_ops`` for what it registers, and SGLang
imports that module whether or not it will call it. So the import works, and a call explains.
"""

import torch

_TOLD = (
    "This build of sgl-kernel has no FlashAttention 3, which has no kernels for this GPU."
    " Choose another attention backend, such as --attention-backend flashinfer or triton."
)


class _Absent:
    """An operator that says why it is not there; also under its overload's name."""

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(_TOLD)

    @property
    def default(self):
        return self


torch.ops.sgl_kernel.fwd = _Absent()
