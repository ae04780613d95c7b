"""How a stage tells what it does, without knowing who listens.

A stage takes ``events`` as an argument and calls the four verbs. The terminal, plain and JSON
renderings live in :mod:`buildkit.console`; :data:`SILENT` is for callers that do not care.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["SILENT", "Events", "Progress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a step has come. A total of None means that the end is not known."""

    done: int
    total: int | None
    unit: str
    """What is counted: ``"files"``, ``"bytes"``."""
    current: str = ""
    seconds_left: float | None = None
    """What it will still take, if somebody knows better than the count tells."""


class Events(Protocol):
    """What a stage may tell."""

    def step(self, name: str, detail: str = "") -> None:
        """Tell that a step began; the step before it has ended well."""

    def progress(self, progress: Progress) -> None:
        """Tell that the current step has moved on; may be called many times a second."""

    def warning(self, text: str) -> None:
        """Tell something that the user should know and that is no error."""

    def fact(self, key: str, value: str) -> None:
        """Tell a result worth keeping in the machine-readable output, such as a count."""

    def output(self, line: str) -> None:
        """Tell what a tool printed; shown to those who ask for it."""


class _Silent:
    def step(self, name: str, detail: str = "") -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def warning(self, text: str) -> None: ...
    def fact(self, key: str, value: str) -> None: ...
    def output(self, line: str) -> None: ...


SILENT: Events = _Silent()
