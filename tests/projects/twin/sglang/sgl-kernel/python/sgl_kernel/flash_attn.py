import torch

try:
    from sgl_kernel import flash_ops  # noqa: F401
except:  # noqa: E722
    raise ImportError("sgl_kernel is not complete: is it installed?")  # noqa: B904


def flash_attn_varlen_func(q):
    return torch.ops.sgl_kernel.fwd.default(q)
