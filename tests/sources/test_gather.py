"""A mirror is filled from files and repositories, and believed only when its digests are right."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from buildkit.digest import digest_file
from buildkit.errors import Location, RequestError, SourceError
from buildkit.mirrored import MANIFEST, open_mirror
from buildkit.paths import Paths
from buildkit.sources.fetch import unpack_source
from buildkit.sources.gather import Gatherer
from buildkit.tags import ranks
from buildkit.values import LockedPackage, PythonIdentity
from tests.sources.test_fetch import a_supply, pinned, toy

HERE = Location(file="test")


@pytest.fixture
def gathered(tmp_path):
    """Fill a mirror by a function, and return it as a build sees it."""

    def gather(supply, collect):
        root = tmp_path / "a mirror"
        items = collect(Gatherer(root, {}, supply))
        rows = [{"path": item.path, "sha256": item.sha256} for item in items]
        (root / MANIFEST).write_text(json.dumps({"schema": 1, "contents": [{"items": rows}]}))
        return open_mirror(root, HERE), items

    return gather


def elsewhere(tmp_path, mirror):
    """What a machine without network has: an empty cache and the mirror."""
    return a_supply(tmp_path, paths=Paths(tmp_path / "other"), is_offline=True, mirror=mirror)


def test_an_archive_of_the_mirror_serves_without_network(tmp_path, index, gathered):
    source = toy(index)
    mirror, (item,) = gathered(a_supply(tmp_path, index), lambda g: [g.archive("source", source)])
    assert item.is_new
    assert item.path.endswith(f"{source.sha256}/toy-1.0.tar.gz")
    tree = unpack_source(source, tmp_path / "out", elsewhere(tmp_path, mirror))
    assert (tree.path / "deep" / "f").read_text() == "x"
    again = Gatherer(mirror.root, mirror.digests, a_supply(tmp_path, index, is_offline=True))
    assert not again.archive("source", source).is_new


def test_a_file_that_was_changed_is_refused_with_its_digest(tmp_path, index, gathered):
    source = toy(index)
    mirror, (item,) = gathered(a_supply(tmp_path, index), lambda g: [g.archive("source", source)])
    file = mirror.root / item.path
    file.chmod(0o644)
    file.write_bytes(b"evil")
    online = replace(elsewhere(tmp_path, mirror), is_offline=False)
    with pytest.raises(SourceError, match=f"{digest_file(file)}, allowed {source.sha256}") as told:
        unpack_source(source, tmp_path / "out", online)
    assert told.value.where == Location(file=str(file))


def test_what_a_mirror_lacks_is_named(tmp_path, index, repository, gathered):
    mirror, _ = gathered(a_supply(tmp_path, index), lambda g: [g.archive("source", toy(index))])
    other = toy(index, filename="toy-2.0.tar.gz")
    with pytest.raises(SourceError, match=r"lacks toy-2\.0\.tar\.gz"):
        unpack_source(other, tmp_path / "out", elsewhere(tmp_path, mirror))
    with pytest.raises(SourceError, match=f"lacks commit {pinned(repository).commit}"):
        unpack_source(pinned(repository), tmp_path / "out", elsewhere(tmp_path, mirror))


def test_a_commit_and_its_submodules_come_as_packs(tmp_path, repository, gathered):
    source = pinned(repository, has_submodules=True)
    mirror, items = gathered(a_supply(tmp_path), lambda g: g.commit("source", source))
    assert len(items) == 2
    repository.rename(tmp_path / "gone")
    (tmp_path / "sub").rename(tmp_path / "gone too")
    tree = unpack_source(source, tmp_path / "out", elsewhere(tmp_path, mirror))
    assert (tree.path / "third_party" / "inner").read_text() == "inner"
    assert (tree.path / "link").is_symlink()


def test_a_pack_holds_one_commit_without_its_history(tmp_path, repository, gathered):
    from tests.programs import git

    (repository / "new").write_text("1")
    git(repository, "add", "new")
    git(repository, "commit", "-qm", "second")
    source = pinned(repository)
    mirror, items = gathered(a_supply(tmp_path), lambda g: g.commit("source", source))
    assert [item.path for item in items] == [f"git/{source.commit}.pack"]
    tree = unpack_source(source, tmp_path / "out", elsewhere(tmp_path, mirror))
    assert (tree.path / "new").exists()
    again = Gatherer(mirror.root, mirror.digests, a_supply(tmp_path, is_offline=True))
    assert not again.commit("source", source)[0].is_new


def test_a_pack_of_another_commit_is_refused_although_the_manifest_agrees(
    tmp_path, repository, gathered
):
    source = pinned(repository)
    mirror, _ = gathered(a_supply(tmp_path), lambda g: g.commit("source", source))
    forged = "1" * 40
    pack = mirror.root / "git" / f"{source.commit}.pack"
    pack.rename(pack.with_name(f"{forged}.pack"))
    lying = replace(mirror, digests={f"git/{forged}.pack": mirror.digests[f"git/{pack.name}"]})
    wanted = pinned(repository, commit=forged)
    with pytest.raises(SourceError, match=f"does not hold commit {forged}"):
        unpack_source(wanted, tmp_path / "out", elsewhere(tmp_path, lying))
    # The cache is as it was: the network may still serve the commit.
    tree = unpack_source(source, tmp_path / "out", a_supply(tmp_path, paths=Paths(tmp_path / "o")))
    assert (tree.path / "run").exists()


def test_a_damaged_or_unknown_pack_is_refused(tmp_path, repository, gathered):
    source = pinned(repository)
    mirror, _ = gathered(a_supply(tmp_path), lambda g: g.commit("source", source))
    pack = mirror.root / "git" / f"{source.commit}.pack"
    pack.write_bytes(pack.read_bytes()[:-1])
    with pytest.raises(SourceError, match="differs from its pin"):
        unpack_source(source, tmp_path / "out", elsewhere(tmp_path, mirror))
    with pytest.raises(SourceError, match="manifest does not name"):
        unpack_source(source, tmp_path / "out", elsewhere(tmp_path, replace(mirror, digests={})))


def test_a_wheel_that_the_lock_does_not_allow_is_not_taken(tmp_path):
    folder = tmp_path / "index" / "x"
    folder.mkdir(parents=True)
    wheels = [
        "x-1.0-py3-none-any.whl",
        "x-1.0-cp39-cp39-linux_x86_64.whl",
        "x-2.0-py3-none-any.whl",
    ]
    for name in wheels:
        (folder / name).write_text(name)
    links = "".join(f'<a href="{name}">{name}</a>' for name in wheels)
    (folder / "index.html").write_text(links)
    python = PythonIdentity(
        version="3.12.0", tag="cp312", platform="linux_x86_64", libc="", executable=tmp_path
    )
    known = ranks(python, "x86_64")
    digest = digest_file(folder / wheels[0])
    allowed = LockedPackage(name="x", version="1.0", digests=frozenset([digest]))
    gatherer = Gatherer(tmp_path / "mirror", {}, a_supply(tmp_path, tmp_path / "index"))
    assert gatherer.wheel("environment", allowed, known).sha256 == digest
    strict = replace(allowed, digests=frozenset(["0" * 64]))
    with pytest.raises(SourceError, match="differs from its lock"):
        gatherer.wheel("environment", strict, known)
    other = replace(allowed, version="3.0", digests=frozenset(["0" * 64]))
    with pytest.raises(SourceError, match=r"No wheel of x 3\.0"):
        gatherer.wheel("environment", other, known)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 9}', '{"schema": 1, "contents": 3}'])
def test_a_manifest_that_means_nothing_is_a_usage_error(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(RequestError, match="cannot be used"):
        open_mirror(tmp_path, HERE)
    with pytest.raises(RequestError, match="no mirror"):
        open_mirror(tmp_path / "none", HERE)
