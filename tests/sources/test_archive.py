"""Archives that lie: nothing is written outside, nothing is left behind."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildkit.errors import SourceError
from buildkit.sources.archive import extract_archive


def a_tar(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, value in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                info.mode = 0o4755 if name.endswith(".sh") else 0o600
                tar.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                tar.addfile(info)
    return path


FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def test_an_sdist_loses_its_wrapping_directory_and_gets_sane_modes(tmp_path):
    archive = a_tar(
        tmp_path / "x-1.tar.gz",
        [("x-1/a.py", FILE, b"1"), ("x-1/run.sh", FILE, b"2"), ("x-1/l", LINK, "a.py")],
    )
    out = tmp_path / "out"
    extract_archive(archive, out, strips_top=True)
    assert (out / "a.py").read_bytes() == b"1"
    assert stat.S_IMODE((out / "a.py").stat().st_mode) == 0o644
    assert stat.S_IMODE((out / "run.sh").stat().st_mode) == 0o755
    assert (out / "l").resolve() == (out / "a.py").resolve()


def test_two_directories_at_the_top_are_kept(tmp_path):
    archive = a_tar(tmp_path / "x.tar.gz", [("a/f", FILE, b""), ("b/f", FILE, b"")])
    extract_archive(archive, tmp_path / "out", strips_top=True)
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["a", "b"]


def test_a_directory_of_the_wrapper_s_own_name_survives(tmp_path):
    archive = a_tar(tmp_path / "x.tar.gz", [("x/x/f", FILE, b"1")])
    extract_archive(archive, tmp_path / "out", strips_top=True)
    assert (tmp_path / "out" / "x" / "f").read_bytes() == b"1"


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", FILE, b"")],
        [("/evil", FILE, b"")],
        [("a/../../evil", FILE, b"")],
        [("l", LINK, "../.."), ("l/evil", FILE, b"")],
        [("l", LINK, "/etc")],
        [("d/l", LINK, "../../evil")],
        [("h", HARD, "../evil")],
        [("dev", tarfile.CHRTYPE, "")],
        [("pipe", tarfile.FIFOTYPE, "")],
    ],
)
def test_a_tar_that_leads_out_is_refused_whole(tmp_path, members):
    folder = tmp_path / "inner"
    folder.mkdir()
    archive = a_tar(folder / "x.tar.gz", [("good", FILE, b"1"), *members])
    with pytest.raises(SourceError, match="cannot be used"):
        extract_archive(archive, folder / "out", strips_top=False)
    assert sorted(entry.name for entry in folder.iterdir()) == ["x.tar.gz"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["inner"]


@pytest.mark.parametrize(
    ("name", "mode", "data"),
    [
        ("../evil", stat.S_IFREG, b""),
        ("/evil", stat.S_IFREG, b""),
        ("a\\..\\evil", stat.S_IFREG, b""),
        ("l", stat.S_IFLNK, b"../evil"),
        ("p", stat.S_IFIFO, b""),
    ],
)
def test_a_zip_that_leads_out_is_refused_whole(tmp_path, name, mode, data):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        info = zipfile.ZipInfo(name)
        info.external_attr = (mode | 0o644) << 16
        bundle.writestr(info, data)
    with pytest.raises(SourceError, match="cannot be used"):
        extract_archive(archive, tmp_path / "out", strips_top=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.zip"]


def test_a_damaged_or_unknown_archive_is_refused(tmp_path):
    whole = a_tar(tmp_path / "x.tar.gz", [("a", FILE, b"1" * 5000)])
    torn = tmp_path / "torn.tar.gz"
    torn.write_bytes(whole.read_bytes()[:60])
    for archive in (torn, tmp_path / "x.rar"):
        archive.touch()
        with pytest.raises(SourceError):
            extract_archive(archive, tmp_path / "out", strips_top=False)
    assert not (tmp_path / "out").exists()


names = st.lists(
    st.sampled_from(["a", "b", "..", ".", "", "c d", "l"]), min_size=1, max_size=4
).map("/".join)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(names, st.sampled_from([FILE, LINK, HARD]), names), min_size=1, max_size=5)
)
def test_whatever_a_tar_says_nothing_outside_changes(tmp_path_factory, members):
    root = tmp_path_factory.mktemp("tar")
    inner = root / "one" / "two"
    inner.mkdir(parents=True)
    archive = a_tar(
        root / "x.tar.gz",
        [(name, kind, b"x" if kind == FILE else target) for name, kind, target in members],
    )
    try:
        extract_archive(archive, inner / "out", strips_top=False)
    except SourceError:
        assert list(inner.iterdir()) == []
    outside = {path for path in root.rglob("*") if inner not in path.parents}
    assert outside == {root / "one", inner, archive}
    for path in inner.rglob("*"):
        with suppress(OSError, RuntimeError):  # a link to itself, or to nothing, leads nowhere
            assert path.resolve(strict=True).is_relative_to(inner)
