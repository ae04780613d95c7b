"""Wheels move between caches whole, or not at all, and nothing is believed."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from buildkit.cache import list_entries, look_up
from buildkit.errors import CacheError, RequestError
from buildkit.kit import Kit
from buildkit.paths import Paths
from buildkit.run import ProcessRunner
from buildkit.transfer import check_cache, export_entries, import_entries, select
from tests.cache.stored import stored
from tests.fakes import RecordingEvents


def a_kit(root: Path) -> Kit:
    return Kit(
        paths=Paths(root),
        environment=dict(os.environ),
        runner=ProcessRunner(),
        events=RecordingEvents(),
        recipe_folders=(),
    )


@pytest.fixture
def here(tmp_path):
    kit = a_kit(tmp_path / "here")
    for names in ((), ("fix",)):
        stored(kit.paths.root, tmp_path, *names)
    return kit


@pytest.fixture
def there(tmp_path):
    return a_kit(tmp_path / "there")


def exported(kit, destination: Path) -> Path:
    export_entries(select(kit.paths, None, None), destination, kit)
    return destination


def states(kit, source: Path) -> list[str]:
    return [item.state for item in import_entries(source, kit)]


def notes(kit) -> list[object]:
    return [entry.note for entry in list_entries(kit.paths)]


@pytest.mark.parametrize("name", ["wheels.tar", "wheels"])
def test_what_is_exported_can_be_imported_with_all_that_its_key_covers(here, there, tmp_path, name):
    source = exported(here, tmp_path / name)
    assert states(there, source) == ["imported", "imported"]
    assert notes(there) == notes(here)
    for entry in list_entries(here.paths):
        found = look_up(there.paths, "toy", entry.note.key)
        assert found.wheel.read_bytes() == entry.wheel.read_bytes()
    assert states(there, source) == ["already here", "already here"]


def test_equal_entries_give_equal_archives_and_a_directory_is_added_to(here, tmp_path):
    one, two = (exported(here, tmp_path / name).read_bytes() for name in ("1.tar", "2.tar"))
    assert one == two
    entries = select(here.paths, "toy", None)
    assert export_entries(entries[:1], tmp_path / "d", here) == (1, 0)
    assert export_entries(entries, tmp_path / "d", here) == (1, 1)


def test_one_wheel_is_chosen_by_the_start_of_its_key(here):
    key = list_entries(here.paths)[0].note.key
    assert [entry.note.key for entry in select(here.paths, None, key[:12])] == [key]
    with pytest.raises(RequestError, match="no wheel of nothing"):
        select(here.paths, "nothing", None)


def harm(folder: Path, how: str) -> None:
    note = folder / "entry.json"
    document = json.loads(note.read_text())
    wheel = folder / document["wheel"]
    match how:
        case "flipped bit":
            data = bytearray(wheel.read_bytes())
            data[len(data) // 2] ^= 1
            wheel.write_bytes(data)
        case "cut off":
            wheel.write_bytes(wheel.read_bytes()[:-9])
        case "no wheel":
            wheel.unlink()
        case "other field":
            document["fields"][0][1] = "other"
        case "other digest":
            document["sha256"] = "0" * 64
        case "leads out":
            document["wheel"] = "../../../toy-1.0-py3-none-any.whl"
        case "no JSON":
            document = None
        case "deep JSON":
            note.write_text("[" * 100_000)
            return
        case "other key":
            folder.rename(folder.with_name("0" * 64))
            return
    note.write_text("{" if document is None else json.dumps(document))


HARMS = [
    *("flipped bit", "cut off", "no wheel", "other field", "other digest", "leads out"),
    *("no JSON", "deep JSON", "other key"),
]


@pytest.mark.parametrize("how", HARMS)
def test_what_does_not_match_is_refused_and_the_rest_is_taken(here, there, tmp_path, how):
    source = exported(here, tmp_path / "wheels")
    harm(sorted(source.glob("toy/*"))[0], how)
    done = list(import_entries(source, there))
    assert sorted(item.state for item in done) == ["imported", "refused"]
    assert all(item.reason for item in done if item.state == "refused")
    assert len(list_entries(there.paths)) == 1
    assert not there.paths.damaged.exists()
    assert [path.name for path in there.paths.wheels.rglob(".*") if path.is_dir()] == []


def test_a_wheel_that_names_another_key_is_refused(here, there, tmp_path):
    source = exported(here, tmp_path / "wheels")
    one, two = sorted(source.glob("toy/*"))
    document, other = (json.loads((folder / "entry.json").read_text()) for folder in (one, two))
    shutil.copy(two / other["wheel"], one)
    document |= {"wheel": other["wheel"], "sha256": other["sha256"]}
    (one / "entry.json").write_text(json.dumps(document))
    reasons = [item.reason for item in import_entries(source, there) if item.reason]
    assert len(reasons) == 1
    assert "says that its key is" in reasons[0]


def test_an_archive_cannot_write_outside(here, there, tmp_path):
    archive = tmp_path / "bad.tar"
    key = list_entries(here.paths)[0].note.key
    with tarfile.open(archive, "w") as tar:
        for name in (f"../{key}/entry.json", f"a/b/{key}/entry.json", f"/toy/{key}/entry.json"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
        link = tarfile.TarInfo(f"toy/{key}/entry.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(CacheError, match="no entry"):
        states(there, archive)
    assert list_entries(there.paths) == ()


@pytest.mark.parametrize("bytes_left", [0, 100, 700, 2048, 3000, 4608, 6000])
def test_a_cut_archive_is_one_clear_error_or_a_refusal(here, there, tmp_path, bytes_left):
    archive = exported(here, tmp_path / "wheels.tar")
    archive.write_bytes(archive.read_bytes()[:bytes_left])
    told = []
    with suppress(CacheError):  # tarfile sees a cut within a file, and we one between two
        told = states(there, archive)
    assert not told or "refused" in told
    for entry in list_entries(there.paths):
        assert look_up(there.paths, "toy", entry.note.key) is not None


def test_an_export_that_cannot_be_written_leaves_nothing(here, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="cannot be written"):
        exported(here, tmp_path / "file" / "wheels.tar")
    with pytest.raises(RequestError, match="allowed a directory"):
        exported(here, tmp_path / "file")
    assert [path.name for path in tmp_path.glob("*.tar*")] == []


def test_a_damaged_entry_is_left_out_of_an_export(here, tmp_path):
    entry = list_entries(here.paths)[0]
    chosen = select(here.paths, None, None)
    entry.wheel.write_bytes(b"damaged")
    assert export_entries(chosen, tmp_path / "wheels", here) == (1, 0)
    assert here.events.warnings


@pytest.mark.parametrize("how", HARMS)
def test_verify_finds_what_is_damaged_and_sets_it_aside(here, how):
    folder = list_entries(here.paths)[0].folder
    harm(folder, how)
    issues = [item for item in check_cache(here) if item.issue]
    assert len(issues) == 1
    assert issues[0].moved.is_dir()
    assert [item.issue for item in check_cache(here)] == [""]


def test_verify_removes_damaged_downloads(here):
    digest = "ab" * 32
    file = here.paths.downloads / "ab" / digest / "x.tar.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"other bytes")
    issues = [item for item in check_cache(here) if item.issue]
    assert [item.name for item in issues] == ["download x.tar.gz"]
    assert not file.exists()
