"""Promises about every error: one slug, one status, one page."""

from __future__ import annotations

from pathlib import Path

import pytest

import buildkit.backend
from buildkit import errors
from buildkit.errors import BuildkitError, JobError, UsageError, nearest

DOCS = Path(__file__).parent.parent / "docs" / "errors.md"


def every(root: type[BuildkitError]) -> list[type[BuildkitError]]:
    return [root, *(child for sub in root.__subclasses__() for child in every(sub))]


def test_slugs_are_unique() -> None:
    slugs = [kind.slug for kind in every(BuildkitError)]
    assert buildkit.backend.BackendError in every(BuildkitError)
    assert len(slugs) == len(set(slugs))


@pytest.mark.parametrize("kind", every(BuildkitError), ids=lambda kind: kind.__name__)
def test_each_slug_has_its_section_in_the_documentation(kind: type[BuildkitError]) -> None:
    assert f"## {kind.slug}\n" in DOCS.read_text()


def test_statuses_follow_from_the_family() -> None:
    assert {kind.status for kind in every(UsageError)} == {2}
    assert {kind.status for kind in every(JobError)} == {1}
    assert errors.INTERRUPTED == 130


def test_the_nearest_name_is_offered_only_if_it_is_near() -> None:
    assert nearest("memroy", ["memory", "jobs"]) == " Did you mean 'memory'?"
    assert nearest("zzz", ["memory", "jobs"]) == ""
