"""Fetching from real indexes (directories here, the network where marked) and real repositories."""

from __future__ import annotations

import os

import pytest

from buildkit.digest import Digest, digest_file
from buildkit.errors import SourceError
from buildkit.kit import Supply
from buildkit.paths import Paths
from buildkit.run import ProcessRunner
from buildkit.sources.fetch import unpack_source
from buildkit.sources.git import Git
from buildkit.sources.pypi import find_files
from buildkit.sources.settings import read_index_settings
from buildkit.values import IndexSettings, LocalTree, PinnedArchive, PinnedCommit, Unpinned
from tests.builders import a_digest
from tests.fakes import RecordingEvents
from tests.programs import git


def a_supply(tmp_path, index=None, **changes):
    values = {
        "paths": Paths(tmp_path / "cache"),
        "settings": IndexSettings(index_url=f"file://{index}" if index else None),
        "runner": ProcessRunner(),
        "environment": {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        "events": RecordingEvents(),
        "is_offline": False,
    }
    return Supply(**(values | changes))


def toy(index, **changes):
    values = {
        "kind": "sdist",
        "name": "toy",
        "version": "1.0",
        "filename": "toy-1.0.tar.gz",
        "url": None,
        "sha256": digest_file(index / "toy" / "toy-1.0.tar.gz"),
    }
    return PinnedArchive(**(values | changes))


def test_an_sdist_is_fetched_once_and_then_offline(tmp_path, index):
    tree = unpack_source(toy(index), tmp_path / "out", a_supply(tmp_path, index))
    assert (tree.path / "deep" / "f").read_text() == "x"
    assert tree.stamp == toy(index).sha256
    offline = a_supply(tmp_path, index, is_offline=True)
    inner = unpack_source(toy(index, subdirectory="deep"), tmp_path / "out", offline)
    assert inner.path == tmp_path / "out" / "deep"
    assert offline.events.steps == []


def test_what_was_not_fetched_is_refused_offline(tmp_path, index):
    with pytest.raises(SourceError, match="not fetched before"):
        unpack_source(toy(index), tmp_path / "out", a_supply(tmp_path, index, is_offline=True))


def test_a_file_that_differs_from_its_pin_is_not_kept(tmp_path, index):
    fetcher = a_supply(tmp_path, index)
    with pytest.raises(SourceError, match="differs from its pin") as caught:
        unpack_source(toy(index, sha256=Digest("0" * 64)), tmp_path / "out", fetcher)
    assert toy(index).sha256 in str(caught.value)
    assert list((tmp_path / "cache" / "downloads").rglob("*.tar.gz")) == []
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_of_the_cache_is_fetched_again(tmp_path, index):
    fetcher = a_supply(tmp_path, index)
    unpack_source(toy(index), tmp_path / "out", fetcher)
    (kept,) = (tmp_path / "cache" / "downloads").rglob("*.tar.gz")
    kept.chmod(0o644)
    kept.write_bytes(b"damaged")
    tree = unpack_source(toy(index), tmp_path / "out", fetcher)
    assert (tree.path / "deep" / "f").read_text() == "x"


def test_what_the_index_lacks_is_told_with_what_it_has(tmp_path, index):
    with pytest.raises(SourceError, match=r"holds no toy-2\.tar\.gz.*toy-1\.0\.tar\.gz"):
        wrong = toy(index, filename="toy-2.tar.gz", sha256=a_digest())
        unpack_source(wrong, tmp_path / "out", a_supply(tmp_path, index))


def test_a_subdirectory_that_is_not_there_is_told(tmp_path, index):
    with pytest.raises(SourceError, match=r"no directory 'none'.*deep"):
        unpack_source(toy(index, subdirectory="none"), tmp_path / "out", a_supply(tmp_path, index))


def test_an_address_with_a_password_does_not_show_it(tmp_path):
    source = PinnedArchive(
        kind="archive",
        name="toy",
        version="1",
        filename="toy.tar.gz",
        url="https://user:secret@localhost:1/toy.tar.gz",
        sha256=a_digest(),
    )
    import buildkit.sources.pypi as pypi

    pauses, pypi.PAUSES_SECONDS = pypi.PAUSES_SECONDS, ()
    try:
        with pytest.raises(SourceError) as caught:
            unpack_source(source, tmp_path / "out", a_supply(tmp_path))
    finally:
        pypi.PAUSES_SECONDS = pauses
    assert "secret" not in str(caught.value)


def test_a_directory_is_copied_without_its_repository(tmp_path):
    source = tmp_path / "src"
    (source / ".git").mkdir(parents=True)
    (source / "a").write_text("1")
    tree = LocalTree(path=source, fingerprint=a_digest(), method="stat")
    result = unpack_source(tree, tmp_path / "out", a_supply(tmp_path))
    assert [entry.name for entry in result.path.iterdir()] == ["a"]


def test_an_unpinned_source_is_not_fetched(tmp_path):
    with pytest.raises(SourceError, match="has no pin"):
        unpack_source(Unpinned(description="x", reason="y"), tmp_path / "out", a_supply(tmp_path))


# --- git ------------------------------------------------------------------------------------------


def pinned(repository, **changes):
    values = {"url": str(repository), "commit": git(repository, "rev-parse", "HEAD")}
    return PinnedCommit(**(values | changes))


def test_a_commit_becomes_a_tree(tmp_path, repository):
    tree = unpack_source(pinned(repository), tmp_path / "out", a_supply(tmp_path))
    assert os.access(tree.path / "run", os.X_OK)
    assert (tree.path / "link").is_symlink()
    assert not (tree.path / ".git").exists()
    assert list((tree.path / "third_party").iterdir()) == []


def test_submodules_come_at_the_recorded_commit(tmp_path, repository):
    source = pinned(repository, has_submodules=True)
    (tmp_path / "sub" / "inner").write_text("later")
    git(tmp_path / "sub", "commit", "-qam", "later")
    tree = unpack_source(source, tmp_path / "out", a_supply(tmp_path))
    assert (tree.path / "third_party" / "inner").read_text() == "inner"


def test_a_commit_that_no_branch_holds_is_found_by_other_refs(tmp_path, repository):
    git(repository, "checkout", "-q", "--detach")
    (repository / "new").write_text("1")
    git(repository, "add", "new")
    git(repository, "commit", "-qm", "hidden")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "update-ref", "refs/pull/15/head", commit)
    git(repository, "checkout", "-q", "main")
    tree = unpack_source(pinned(repository, commit=commit), tmp_path / "out", a_supply(tmp_path))
    assert (tree.path / "new").exists()


def test_a_mirror_serves_offline(tmp_path, repository):
    unpack_source(pinned(repository), tmp_path / "out", a_supply(tmp_path))
    source = pinned(repository)
    repository.rename(tmp_path / "moved")
    unpack_source(source, tmp_path / "out", a_supply(tmp_path, is_offline=True))
    with pytest.raises(SourceError, match="not fetched before"):
        missing = PinnedCommit(url=source.url, commit="0" * 40)
        unpack_source(missing, tmp_path / "out", a_supply(tmp_path, is_offline=True))


def test_a_commit_or_ref_that_does_not_exist_is_told(tmp_path, repository):
    with pytest.raises(SourceError, match="cannot be fetched"):
        unpack_source(pinned(repository, commit="0" * 40), tmp_path / "out", a_supply(tmp_path))
    fetcher = a_supply(tmp_path)
    tool = Git(fetcher)
    assert tool.resolve(str(repository), "v1") == pinned(repository).commit
    assert tool.resolve(str(repository), "main") == pinned(repository).commit
    assert tool.resolve(str(repository), "") == pinned(repository).commit
    with pytest.raises(SourceError, match="no such tag or branch"):
        tool.resolve(str(repository), "v2")


def test_the_users_git_configuration_takes_no_part(tmp_path, repository):
    (tmp_path / ".gitconfig").write_text(
        f'[url "{tmp_path}/elsewhere"]\n  insteadOf = {repository}\n'
    )
    tree = unpack_source(pinned(repository), tmp_path / "out", a_supply(tmp_path))
    assert (tree.path / "run").exists()


def test_a_link_that_leads_out_of_a_repository_is_refused(tmp_path, repository):
    (repository / "evil").symlink_to("../../etc/passwd")
    git(repository, "add", "evil")
    git(repository, "commit", "-qm", "evil")
    with pytest.raises(SourceError, match="out of its tree"):
        unpack_source(pinned(repository), tmp_path / "out", a_supply(tmp_path))


@pytest.mark.network
def test_the_real_index_is_asked_through_pip_s_configuration(tmp_path):
    settings = read_index_settings(os.environ)
    files = find_files("causal-conv1d", settings)
    assert "causal_conv1d-1.7.0.tar.gz" in {file.filename for file in files}
    source = PinnedArchive(
        kind="sdist",
        name="causal-conv1d",
        version="1.7.0",
        filename="causal_conv1d-1.7.0.tar.gz",
        url=None,
        sha256=Digest("3202758494eaa7b597ce1c282dfa188889506bfcb92cad3c407d26736bfcd32b"),
    )
    tree = unpack_source(source, tmp_path / "out", a_supply(tmp_path, settings=settings))
    assert (tree.path / "setup.py").is_file()
