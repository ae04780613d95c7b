"""Notes of packages that were patched in place, outlasting a reinstall."""

from __future__ import annotations

from dataclasses import replace

import pytest

from buildkit.patchlog import forget_patched, lost_patches, note_patched
from buildkit.wheels.installed import Installed


@pytest.fixture
def installed(tmp_path):
    root = tmp_path / "site"
    return Installed(name="toy_x", version="1.0", root=root, dist_info=root / "toy_x-1.0.dist-info")


def test_what_was_never_patched_has_lost_nothing(tmp_path, installed):
    assert lost_patches(tmp_path / "log", installed) is None


def test_a_reinstall_and_a_change_of_version_are_told_apart(tmp_path, installed):
    note_patched(tmp_path / "log", installed, ["one", "two"])
    lost = lost_patches(tmp_path / "log", installed)
    assert lost is not None
    assert (lost.patches, lost.detail) == (("one", "two"), "gone: it was reinstalled")
    newer = replace(installed, version="2.0")
    lost = lost_patches(tmp_path / "log", newer)
    assert lost is not None
    assert lost.detail == "gone: it was changed from 1.0 to 2.0"


def test_environments_and_names_do_not_mix(tmp_path, installed):
    note_patched(tmp_path / "log", installed, ["one"])
    assert lost_patches(tmp_path / "log", replace(installed, root=tmp_path / "other")) is None
    assert lost_patches(tmp_path / "log", replace(installed, name="toy_y")) is None


def test_what_was_reverted_is_not_lost(tmp_path, installed):
    note_patched(tmp_path / "log", installed, ["one"])
    forget_patched(tmp_path / "log", installed)
    assert lost_patches(tmp_path / "log", installed) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "1.0"}', "null"])
def test_a_broken_note_says_nothing(tmp_path, installed, text):
    note_patched(tmp_path / "log", installed, ["one"])
    (note,) = (tmp_path / "log").iterdir()
    note.write_text(text)
    assert lost_patches(tmp_path / "log", installed) is None


def test_a_log_that_cannot_be_written_harms_nothing(tmp_path, installed):
    (tmp_path / "log").write_text("a file")
    note_patched(tmp_path / "log", installed, ["one"])
    forget_patched(tmp_path / "log", installed)
    assert lost_patches(tmp_path / "log", installed) is None
