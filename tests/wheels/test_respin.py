"""A wheel with a few files changed: zipfile, unzip and pip are the reference."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import buildkit.wheels.splice as splice
from buildkit.errors import VerifyError
from buildkit.wheels import read_wheel
from buildkit.wheels.respin import Change, OpenWheel, respin_wheel
from tests.machine import needs_unzip
from tests.programs import pip
from tests.wheels.toy import (
    CONTENTS,
    INFO,
    METADATA,
    NAME,
    WHEEL,
    Unseekable,
    a_record,
    a_zip,
    complete,
)

NEW_INFO = "toy_x-1.0+patched.k1.dist-info"


def respin(data: bytes, changes=None, *, name=NAME, label="patched.k1") -> bytes:
    target = io.BytesIO()
    changes = {"toy_x/__init__.py": b"value = 2\n"} if changes is None else changes
    changes = {key: Change(data=text) for key, text in changes.items()}
    wheel = OpenWheel(io.BytesIO(data), name)
    respin_wheel(wheel, target, changes, label=label, provenance=b"{}\n")
    return target.getvalue()


def placed(folder: Path, data: bytes, name="toy_x-1.0+patched.k1-py3-none-any.whl") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def contents_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


FORMS = {
    "deflated": a_zip,
    "stored": lambda contents: a_zip(contents, method=zipfile.ZIP_STORED),
    "data descriptors": lambda contents: a_zip(contents, target=Unseekable()),
    "zip64": lambda contents: a_zip(contents, is_zip64=True),
    "zip64 data descriptors": lambda contents: a_zip(contents, target=Unseekable(), is_zip64=True),
    "behind a program": lambda contents: b"#!/bin/sh\nexit\n" + a_zip(contents),
    "with directories": lambda contents: a_zip({"toy_x/": b"", "empty/": b""} | contents),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_archive_gives_a_sound_wheel(tmp_path, form):
    data = FORMS[form](complete())
    result = respin(data)
    found = contents_of(result)
    for name, text in CONTENTS.items():
        new = name.replace("toy_x-1.0.", "toy_x-1.0+patched.k1.")
        if name != "toy_x/__init__.py" and not name.endswith("METADATA"):
            assert found.pop(new) == text
    assert found.pop("toy_x/__init__.py") == b"value = 2\n"
    metadata = METADATA.replace(b"Version: 1.0\n", b"Version: 1.0+patched.k1\n")
    assert found.pop(f"{NEW_INFO}/METADATA") == metadata
    assert found.keys() == {f"{NEW_INFO}/RECORD", f"{NEW_INFO}/buildkit.json"}
    whole = read_wheel(placed(tmp_path, result))
    assert whole.version == "1.0+patched.k1"
    assert whole.files[-1] == f"{NEW_INFO}/RECORD"
    assert respin(data) == result


@needs_unzip
@pytest.mark.parametrize("form", FORMS)
def test_another_program_reads_the_archive(tmp_path, form):
    path = placed(tmp_path, respin(FORMS[form](complete())))
    done = subprocess.run(["unzip", "-tq", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("limit32", "limit16"), [(10, 1 << 16), (500, 3), (1 << 32, 2), (1, 1)])
def test_zip64_records_are_written_where_they_are_needed(tmp_path, monkeypatch, limit32, limit16):
    data = a_zip(complete())
    plain = contents_of(respin(data))
    monkeypatch.setattr(splice, "LIMIT32", limit32)
    monkeypatch.setattr(splice, "LIMIT16", limit16)
    result = respin(data)
    assert contents_of(result) == plain
    read_wheel(placed(tmp_path, result))
    if shutil.which("unzip") is not None:
        subprocess.run(["unzip", "-tq", tmp_path / "*.whl"], check=True, capture_output=True)


def test_more_files_than_a_plain_archive_can_count(tmp_path):
    many = {f"toy_x/{number}": b"" for number in range(66_000)}
    result = respin(a_zip(complete(**many), method=zipfile.ZIP_STORED))
    assert len(contents_of(result)) == len(many) + len(CONTENTS) + 2


def test_what_does_not_change_is_copied_as_it_is_compressed():
    contents = complete()
    data = bytearray(a_zip(contents))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        old = {info.filename: info for info in archive.infolist()}
    result = respin(bytes(data))
    with zipfile.ZipFile(io.BytesIO(result)) as archive:
        new = {info.filename: info for info in archive.infolist()}
    for name in ("toy_x/big.txt", "toy_x/data.bin", "toy_x/empty"):
        for field in ("compress_type", "compress_size", "date_time", "external_attr", "CRC"):
            assert getattr(new[name], field) == getattr(old[name], field)
        assert raw(bytes(data), old[name]) == raw(result, new[name])
    assert new["toy_x/__init__.py"].compress_type == zipfile.ZIP_STORED
    assert new["toy_x/__init__.py"].date_time == (2024, 5, 6, 7, 8, 10)


def test_large_members_are_copied_by_the_kernel_to_the_same_bytes(tmp_path):
    data = a_zip(complete(**{"toy_x/large.bin": os.urandom(1 << 20), "toy_x/z.bin": b"z"}))
    (tmp_path / NAME).write_bytes(data)
    with (tmp_path / NAME).open("rb") as source, (tmp_path / "new").open("wb") as target:
        wheel = OpenWheel(source, NAME)
        changes = {"toy_x/__init__.py": Change(data=b"value = 2\n")}
        respin_wheel(wheel, target, changes, label="patched.k1", provenance=b"{}\n")
    assert (tmp_path / "new").read_bytes() == respin(data)


def raw(data: bytes, info: zipfile.ZipInfo) -> bytes:
    at = info.header_offset
    start = at + 30 + sum(struct.unpack_from("<2H", data, at + 26))
    return data[start : start + info.compress_size]


@given(
    st.dictionaries(
        st.text(st.characters(min_codepoint=33, exclude_categories=["Cs"]), min_size=1).filter(
            lambda name: not set(name) & set("/\\:") and name not in (".", "..")
        ),
        st.binary(max_size=3000),
        max_size=6,
    ),
    st.sampled_from(sorted(FORMS)),
)
def test_any_contents_come_through(files, form):
    files = {f"toy_x/more/{name}": data for name, data in files.items() if "\x7f" not in name}
    found = contents_of(respin(FORMS[form](complete(**files))))
    for name, data in files.items():
        assert found[name] == data


def test_files_come_and_go_and_keep_their_modes():
    target = io.BytesIO()
    wheel = OpenWheel(io.BytesIO(a_zip(complete())), NAME)
    changes = {
        "toy_x/empty": Change(data=None),
        "toy_x/new.py": Change(data=b"", is_program=True),
        "toy_x/big.txt": Change(data=b"small"),
    }
    respin_wheel(wheel, target, changes, label="patched.k1", provenance=b"{}")
    with zipfile.ZipFile(target) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert "toy_x/empty" not in modes
    assert modes["toy_x/new.py"] == 0o100755
    assert modes["toy_x/big.txt"] == 0o100644
    assert modes["toy_x-1.0+patched.k1.data/scripts/toy"] == 0o100755
    assert list(modes)[-4] == f"{NEW_INFO}/METADATA"


def test_a_package_in_the_data_directory_is_found():
    inner = "toy_x-1.0.data/purelib/toy_y/a.py"
    result = contents_of(respin(a_zip(complete(**{inner: b"1"})), {"toy_y/a.py": b"2"}))
    assert result["toy_x-1.0+patched.k1.data/purelib/toy_y/a.py"] == b"2"


def test_a_wheel_that_was_renamed_gets_the_tags_of_its_name(tmp_path):
    name = "toy_x-1.0-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    wheel = WHEEL.replace(b"py3-none-any", b"cp38-abi3-linux_x86_64")
    data = a_zip(complete(**{f"{INFO}/WHEEL": wheel}))
    path = placed(tmp_path, respin(data, name=name), name.replace("1.0", "1.0+patched.k1"))
    assert read_wheel(path).tags == (
        "cp38-abi3-manylinux2014_x86_64",
        "cp38-abi3-manylinux_2_17_x86_64",
    )


def test_a_metadata_of_another_system_keeps_every_other_byte():
    metadata = METADATA.replace(b"\n", b"\r\n")
    result = contents_of(respin(a_zip(complete(**{f"{INFO}/METADATA": metadata}))))
    expected = metadata.replace(b"Version: 1.0\r", b"Version: 1.0+patched.k1\r")
    assert result[f"{NEW_INFO}/METADATA"] == expected


def test_a_signature_goes_since_what_it_signed_is_gone():
    contents = complete() | {f"{INFO}/RECORD.jws": b"{}", f"{INFO}/RECORD.p7s": b"0"}
    data = a_zip(contents)
    wheel = OpenWheel(io.BytesIO(data), NAME)
    assert wheel.signatures == (f"{INFO}/RECORD.jws", f"{INFO}/RECORD.p7s")
    assert not any("RECORD." in name for name in contents_of(respin(data)))


def test_pip_installs_the_result_and_finds_it_right(tmp_path):
    path = placed(tmp_path, respin(a_zip(complete())))
    site = tmp_path / "site"
    pip("install", "--no-index", "--target", site, path)
    assert (site / "toy_x" / "__init__.py").read_bytes() == b"value = 2\n"
    assert os.access(site / "bin" / "toy", os.X_OK)
    assert (site / NEW_INFO / "buildkit.json").is_file()


# --- refused --------------------------------------------------------------------------------------

BAD_CONTENTS = {
    "no METADATA": (complete(**{f"{INFO}/METADATA": None}), "no METADATA"),
    "no RECORD": (dict(CONTENTS), "no RECORD"),
    "not in RECORD": (complete() | {"toy_x/more.py": b""}, "more.py is not in RECORD"),
    "not there": (
        {name: data for name, data in complete().items() if name != "toy_x/empty"},
        "lists toy_x/empty, which is not there",
    ),
    "another size": (complete() | {"toy_x/big.txt": b"?"}, "has 1 bytes, RECORD says 70000"),
    "listed twice": (
        complete() | {f"{INFO}/RECORD": a_record(CONTENTS) + b"toy_x/empty,,\n"},
        "lists toy_x/empty 2 times",
    ),
    "no digest": (
        complete() | {f"{INFO}/RECORD": b"".join(f"{n},,\n".encode() for n in ("a",))},
        "RECORD lists a, which is not there",
    ),
    "no table": (complete() | {f"{INFO}/RECORD": b"a,b\n"}, "line 1 of its RECORD"),
    "no text": (complete() | {f"{INFO}/RECORD": b"\xff\xfe"}, "RECORD cannot be read"),
    "two of them": (complete(**{"other-1.dist-info/METADATA": b""}), "one .dist-info directory"),
    "two versions": (
        complete(**{f"{INFO}/METADATA": b"Name: toy-x\nVersion: 1.0\nVersion: 2.0\n"}),
        "Version must stand there once",
    ),
    "other version": (
        complete(**{f"{INFO}/METADATA": b"Name: toy-x\nVersion: 2.0\n"}),
        "2.0 in METADATA",
    ),
    "other name": (complete(**{f"{INFO}/METADATA": b"Name: y\nVersion: 1.0\n"}), "y in METADATA"),
    "wheel 2": (complete(**{f"{INFO}/WHEEL": b"Wheel-Version: 2.0\n"}), "format is 2.0"),
    "outside": (complete(**{"../x": b""}), "leads out of it"),
    "absolute": (complete(**{"/x": b""}), "leads out of it"),
    "backslash": (complete(**{"a\\b": b""}), "leads out of it"),
    "drive": (complete(**{"C:/x": b""}), "leads out of it"),
    "line feed": (complete(**{"a\nb": b""}), "control characters"),
}


@pytest.mark.parametrize("trap", BAD_CONTENTS)
def test_a_wheel_that_is_not_sound_is_refused(trap):
    contents, told = BAD_CONTENTS[trap]
    with pytest.raises(VerifyError, match="not sound") as caught:
        respin(a_zip(contents))
    assert told in caught.value.what


def test_a_file_that_is_read_must_be_what_record_says():
    contents = complete() | {"toy_x/__init__.py": b"value = 3\n"}
    wheel = OpenWheel(io.BytesIO(a_zip(contents)), NAME)
    with pytest.raises(VerifyError, match="is not what RECORD says"):
        wheel.read("toy_x/__init__.py")
    weak = complete()
    weak[f"{INFO}/RECORD"] = weak[f"{INFO}/RECORD"].replace(
        b"__init__.py,sha256", b"__init__.py,md5"
    )
    with pytest.raises(VerifyError, match="RECORD has md5"):
        OpenWheel(io.BytesIO(a_zip(weak)), NAME).read("toy_x/__init__.py")


def test_two_members_of_one_name_are_refused():
    place = io.BytesIO(a_zip(complete()))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(place, "a") as archive:
        archive.writestr("toy_x/__init__.py", b"evil = 1\n")
    with pytest.raises(VerifyError, match=r"holds 'toy_x/__init__\.py' twice"):
        respin(place.getvalue())


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("at", "new", "told"),
    [
        (30, b"evil", "another name in its own header"),
        (0, b"XX", "does not lie where"),
        (6, b"\x01\x00", "is encrypted"),
        (8, b"\x63\x00", "compressed by method 99"),
        (28, b"\xff\xff", "overlaps what follows"),
    ],
)
def test_a_member_with_two_faces_is_refused(at, new, told):
    with pytest.raises(VerifyError) as caught:
        respin(changed(a_zip(complete()), at, new))
    assert told in caught.value.what


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 no more", "cannot be read"),
        (a_zip(complete())[:-30], "cannot be read"),
        (a_zip(complete(), method=zipfile.ZIP_BZIP2), "compressed by method 12"),
    ],
)
def test_what_is_no_archive_is_refused(data, told):
    with pytest.raises(VerifyError, match=told):
        respin(data)


def test_a_member_that_is_larger_than_it_says_is_not_unpacked():
    data = a_zip(complete())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (info,) = (item for item in archive.infolist() if item.filename.endswith("METADATA"))
        row = data.index(b"PK\x01\x02", archive.start_dir)
    while data[row + 46 : row + 46 + len(info.filename)].decode("latin-1") != info.filename:
        row = data.index(b"PK\x01\x02", row + 1)
    lying = changed(data, row + 24, struct.pack("<I", 5))
    with pytest.raises(VerifyError, match=r"RECORD says|checksum"):
        respin(lying)


@given(st.data())
def test_a_damaged_archive_is_refused_or_read_but_no_other_error_comes(data):
    whole = bytearray(a_zip(complete()))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    with suppress(VerifyError):
        respin(bytes(whole))
