"""A tiny CUDA library behind ctypes: needs neither torch nor Python's headers."""

import ctypes
from pathlib import Path

__all__ = ["saxpy", "sum_of", "targets"]

_library = ctypes.CDLL(str(Path(__file__).with_name("libdemo_kernel.so")))
_library.demo_targets.restype = ctypes.c_char_p
_floats = ctypes.POINTER(ctypes.c_float)
_library.demo_saxpy.argtypes = [ctypes.c_int, ctypes.c_float, _floats, _floats]
_library.demo_sum.argtypes = [ctypes.c_int, _floats, _floats]


def targets() -> list[str]:
    """Return the targets that the library holds machine code for, such as ``["sm_120"]``."""
    numbers = _library.demo_targets().decode().split(",")
    return [f"sm_{int(number) // 10}" for number in numbers]


def saxpy(a: float, x: list[float], y: list[float]) -> list[float]:
    """Return ``a * x + y``, computed on the GPU.

    :raises RuntimeError: if the GPU refuses, for example for want of code for it.
    """
    count = len(x)
    xs = (ctypes.c_float * count)(*x)
    ys = (ctypes.c_float * count)(*y)
    _check(_library.demo_saxpy(count, a, xs, ys))
    return list(ys)


def sum_of(x: list[float]) -> float:
    """Return the sum of a list, computed on the GPU.

    :raises RuntimeError: if the GPU refuses, for example for want of code for it.
    """
    count = len(x)
    total = ctypes.c_float()
    _check(_library.demo_sum(count, (ctypes.c_float * count)(*x), ctypes.byref(total)))
    return total.value


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"CUDA error {error}")
