"""Compare an installed causal-conv1d with plain torch on the GPU at hand.

Run it on the machine that the wheel was built for:

    pip install --no-deps causal_conv1d-*.whl && python benchmarks/causal_conv1d_check.py

Prints the largest relative error of each case and of its gradients; exit status 1 if one is above
what its number format allows.
"""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as functional
from causal_conv1d import causal_conv1d_fn

#: Largest relative error to accept: some units of the last place of each format.
ALLOWED = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def plain(x, weight, bias, activation):
    """Return the definition: a depthwise convolution that sees only the past."""
    width = weight.shape[1]
    out = functional.conv1d(
        x.double(),
        weight.double().unsqueeze(1),
        bias.double(),
        padding=width - 1,
        groups=weight.shape[0],
    )[..., : x.shape[-1]]
    return functional.silu(out) if activation else out


def error(found, expected):
    """Return the largest difference, relative to the largest value."""
    return ((found.double() - expected).abs().max() / expected.abs().max()).item()


def main() -> int:
    """Run all cases."""
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    failures = 0
    for dtype, allowed in ALLOWED.items():
        for width in (2, 3, 4):
            for length in (1, 127, 2048):
                inputs = [
                    torch.randn(2, 256, length, device="cuda", dtype=dtype),
                    torch.randn(256, width, device="cuda", dtype=dtype),
                    torch.randn(256, device="cuda", dtype=dtype),
                ]
                ours = [tensor.clone().requires_grad_() for tensor in inputs]
                theirs = [tensor.double().requires_grad_() for tensor in inputs]
                found = causal_conv1d_fn(*ours, activation="silu")
                expected = plain(*theirs, "silu")
                gradient = torch.randn_like(found)
                found.backward(gradient)
                expected.backward(gradient.double())
                errors = [error(found, expected)] + [
                    error(one.grad, other.grad) for one, other in zip(ours, theirs, strict=True)
                ]
                is_good = max(errors) <= allowed
                failures += not is_good
                told = " ".join(f"{value:.1e}" for value in errors)
                print(f"{dtype} width {width} length {length}: {told} {'ok' if is_good else 'BAD'}")
    print("all cases agree" if not failures else f"{failures} cases differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
