"""Yards, which several modules share."""

from __future__ import annotations

import pytest

from tests.governor.yard import Yard


@pytest.fixture
def yards(tmp_path):
    """Make yards under one governor's directory, whose path no socket address could hold."""
    made: list[Yard] = []
    governor = tmp_path / ("a long directory" * 8) / "governor"

    def make(name: str = "build", **changes: int) -> Yard:
        yard = Yard(root=tmp_path / name, governor=governor, name=name, **changes)
        made.append(yard)
        return yard

    yield make
    for yard in made:
        yard.clear()
