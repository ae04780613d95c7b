"""GPU targets: what they are called, which machine code runs on which, and since when.

What enters: text such as ``sm120``, ``12.0a`` or ``120a-real``. What leaves: a :class:`GpuArch`,
and the spelling that each ecosystem expects. Pure; what a given nvcc, CMake or torch accepts is
probed by :mod:`buildkit.toolchain`, never looked up here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from buildkit.errors import ArchError, nearest

__all__ = ["FIRST_CUDA", "TARGETS", "GpuArch", "parse_arch", "pins", "runs_on"]

Variant = Literal["", "a", "f"]

_SPELLING = re.compile(
    r"(?:sm_?|compute_?)?(?P<major>\d{1,2}?)(?P<dot>\.)?(?P<minor>\d)(?P<variant>[af]?)(?:-real)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, order=True)
class GpuArch:
    """A GPU target: compute capability and code variant.

    ``variant`` is ``""`` for portable code, ``"a"`` for architecture-specific code and ``"f"`` for
    family-specific code. Source: CUDA C++ Programming Guide, "Compute Capabilities", "Feature Set
    Compiler Targets".
    """

    major: int
    minor: int
    variant: Variant = ""

    @property
    def number(self) -> str:
        """The bare number, such as ``"120"``; also what ``FLASH_ATTN_CUDA_ARCHS`` takes."""
        return f"{self.major}{self.minor}"

    @property
    def name(self) -> str:
        """The kit's own spelling, such as ``"sm120a"``."""
        return f"sm{self.number}{self.variant}"

    @property
    def sm(self) -> str:
        """The name of its machine code, such as ``"sm_120a"``."""
        return f"sm_{self.number}{self.variant}"

    @property
    def compute(self) -> str:
        """The name of its virtual architecture, such as ``"compute_120a"``."""
        return f"compute_{self.number}{self.variant}"

    @property
    def gencode(self) -> str:
        """The nvcc flag that compiles machine code for it alone."""
        return f"-gencode=arch={self.compute},code={self.sm}"

    @property
    def cmake(self) -> str:
        """The entry of ``CMAKE_CUDA_ARCHITECTURES``; ``-real`` leaves PTX out."""
        return f"{self.number}{self.variant}-real"

    @property
    def dotted(self) -> str:
        """The entry of ``FLASHINFER_CUDA_ARCH_LIST``, such as ``"12.0f"``."""
        return f"{self.major}.{self.minor}{self.variant}"

    @property
    def torch(self) -> str:
        """The entry of ``TORCH_CUDA_ARCH_LIST``, which knows ``a`` but no ``f`` variants.

        Source: the list of supported targets in ``torch/utils/cpp_extension.py`` of torch 2.14.1.
        """
        return f"{self.major}.{self.minor}{'a' if self.variant == 'a' else ''}"

    @property
    def device(self) -> GpuArch:
        """The same compute capability without a variant."""
        return GpuArch(self.major, self.minor)

    def __str__(self) -> str:
        return self.name


FIRST_CUDA: dict[str, str] = {
    "90": "11.8",
    "90a": "12.0",
    "100": "12.8",
    "100a": "12.8",
    "100f": "12.9",
    "103": "12.9",
    "103a": "12.9",
    "103f": "12.9",
    "110": "13.0",
    "110a": "13.0",
    "110f": "13.0",
    "120": "12.8",
    "120a": "12.8",
    "120f": "12.9",
    "121": "12.9",
    "121a": "12.9",
    "121f": "12.9",
}
"""First CUDA release whose ptxas knows the target; used only to word a refusal.

Source: ``ptxas --help`` of CUDA 12.8.93 and 12.9.86, ``nvcc --list-gpu-code`` of 13.0.88; for the
Hopper rows the CUDA 11.8 and 12.0 release notes.
"""

TARGETS: tuple[str, ...] = tuple(f"sm{number}" for number in FIRST_CUDA)


def parse_arch(text: str) -> GpuArch:
    """Return the GPU target that ``text`` names.

    >>> [parse_arch(t).name for t in ("sm120", "sm_120a", "12.0", "120a-real", "compute_121f")]
    ['sm120', 'sm120a', 'sm120', 'sm120a', 'sm121f']

    :raises ArchError: if ``text`` is no target, or one that this kit does not know.
    """
    found = _SPELLING.fullmatch(text.strip())
    allowed = ", ".join(name for name in TARGETS if name[-1].isdigit())
    if found is None:
        raise ArchError(
            f"GPU target: found {text!r}, allowed {allowed} (each also with 'a' or 'f' where it"
            f" exists).{nearest(text, TARGETS)}",
            remedy="Spell it like sm120, sm_120a, 12.0 or 120a-real.",
        )
    variant = found["variant"].lower()
    name = f"{found['major']}{found['minor']}{variant}"
    if name not in FIRST_CUDA:
        raise ArchError(
            f"GPU target: {text!r} is not among those that buildkit knows: {allowed}"
            f" (each also with 'a' or 'f' where it exists).{nearest(f'sm{name}', TARGETS)}",
            remedy="Run `nvidia-smi --query-gpu=compute_cap --format=csv` to read your card's.",
        )
    return GpuArch(int(found["major"]), int(found["minor"]), _VARIANTS[variant])


_VARIANTS: dict[str, Variant] = {"": "", "a": "a", "f": "f"}


def runs_on(code: GpuArch, gpu: GpuArch) -> bool:
    """Tell whether machine code for ``code`` loads on a GPU of capability ``gpu``.

    Portable code runs on its own and on later minors of one major; ``f`` code on its family, which
    is the same rule; ``a`` code on exactly its own capability. Source: CUDA C++ Programming Guide,
    "Binary Compatibility" and "Feature Set Compiler Targets".
    """
    if code.variant == "a":
        return code.device == gpu.device
    return code.major == gpu.major and code.minor <= gpu.minor


def pins(code: GpuArch, target: GpuArch) -> bool:
    """Tell whether a wheel for ``target`` may hold machine code for ``code``.

    A target without a variant leaves the choice among its variants to the project that is built;
    one with a variant demands just that. Family code of an earlier minor counts too, because
    projects write ``120f`` once for 12.0 and 12.1.
    """
    if target.variant:
        return code == target
    if code.device == target.device:
        return True
    return code.variant == "f" and runs_on(code, target)
