"""Which published wheel is taken, and that it stays the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildkit.digest import digest_file
from buildkit.errors import SourceError
from buildkit.sources.published import Published, choose_wheel, resolve_wheel
from buildkit.values import PythonIdentity
from tests.sources.test_fetch import a_supply


def python(version: str = "3.11.7", tag: str = "cp311") -> PythonIdentity:
    return PythonIdentity(
        version=version,
        tag=tag,
        platform="linux_x86_64",
        libc="glibc-2.36",
        executable=Path("python"),
    )


def files(*names: str, **changes) -> list[Published]:
    values = {"sha256": "0" * 64, "requires_python": "", "is_yanked": False} | changes
    return [Published(filename=name, **values) for name in names]


X86 = "x-1-cp311-cp311-manylinux_2_28_x86_64.whl"
ARM = "x-1-cp38-abi3-manylinux_2_31_aarch64.whl"
STABLE = "x-1-cp38-abi3-manylinux2014_x86_64.whl"
PURE = "x-1-py3-none-any.whl"


@pytest.mark.parametrize(
    ("names", "interpreter", "machine", "expected"),
    [
        ([PURE, STABLE, X86, ARM], python(), "x86_64", X86),
        ([PURE, STABLE, X86, ARM], python("3.12.1", "cp312"), "x86_64", STABLE),
        ([PURE, STABLE, X86, ARM], python("3.13.1", "cp313t"), "x86_64", PURE),
        ([PURE, STABLE, X86, ARM], python(), "aarch64", ARM),
        ([STABLE, X86], python(), "riscv64", None),
        (["x-1-cp37-cp37m-win_amd64.whl", "broken.whl"], python(), "x86_64", None),
        (["x-1-1-py3-none-any.whl", "x-1-2-py3-none-any.whl", PURE], python(), None, "x-1-2-py3"),
    ],
)
def test_the_wheel_that_an_installer_would_take(names, interpreter, machine, expected):
    for order in (names, names[::-1]):
        found = choose_wheel(files(*order), interpreter, machine)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert found.filename.startswith(expected)


def test_what_the_interpreter_is_too_new_for_is_passed_over():
    assert choose_wheel(files(PURE, requires_python="<3.11"), python(), None) is None
    assert choose_wheel(files(PURE, requires_python="nonsense"), python(), None) is not None


def test_a_withdrawn_wheel_is_the_last_choice():
    known = [*files(X86, is_yanked=True), *files(PURE)]
    assert choose_wheel(known, python(), "x86_64") == known[1]
    assert choose_wheel(known[:1], python(), "x86_64") == known[0]


@pytest.fixture
def index(tmp_path):
    project = tmp_path / "index" / "x"
    project.mkdir(parents=True)
    (project / PURE).write_bytes(b"a wheel")
    list_with_hash(tmp_path / "index")
    return tmp_path / "index"


def list_with_hash(index: Path, attributes: str = "") -> None:
    digest = digest_file(index / "x" / PURE)
    link = f'<a href="{PURE}#sha256={digest}" {attributes}>{PURE}</a>'
    (index / "x" / "index.html").write_text(link)


def test_the_choice_is_kept_and_serves_without_the_index(tmp_path, index):
    first = resolve_wheel("x", "1", python(), None, a_supply(tmp_path, index))
    assert first.sha256 == digest_file(index / "x" / PURE)
    (index / "x" / "index.html").unlink()
    offline = a_supply(tmp_path, index, is_offline=True)
    again = resolve_wheel("x", "1", python(), None, offline)
    assert (again.filename, again.sha256) == (first.filename, first.sha256)
    with pytest.raises(SourceError, match="was looked up before"):
        resolve_wheel("x", "2", python(), None, offline)


def test_an_index_without_digests_is_told_and_the_file_is_pinned_all_the_same(tmp_path, index):
    (index / "x" / "index.html").write_text(f'<a href="{PURE}">{PURE}</a>')
    supply = a_supply(tmp_path, index)
    found = resolve_wheel("x", "1", python(), None, supply)
    assert found.sha256 == digest_file(index / "x" / PURE)
    assert "names no SHA-256" in supply.events.warnings[0]
    offline = a_supply(tmp_path, index, is_offline=True)
    assert resolve_wheel("x", "1", python(), None, offline).sha256 == found.sha256


def test_a_withdrawn_release_is_told(tmp_path, index):
    list_with_hash(index, 'data-yanked="broken"')
    supply = a_supply(tmp_path, index)
    resolve_wheel("x", "1", python(), None, supply)
    assert "withdrawn" in supply.events.warnings[0]


def test_what_is_not_there_is_told_with_what_is(tmp_path, index):
    list_with_hash(index, 'data-requires-python="&lt;3"')
    with pytest.raises(SourceError, match=r"No wheel of x 1 is for Python 3\.11\.7.*py3-none-any"):
        resolve_wheel("x", "1", python(), None, a_supply(tmp_path, index))
    with pytest.raises(SourceError, match=r"no wheel of x 2; of x it holds 1\."):
        resolve_wheel("x", "2", python(), None, a_supply(tmp_path, index))
    with pytest.raises(SourceError, match="it holds no wheel"):
        resolve_wheel("nothing", "2", python(), None, a_supply(tmp_path, index))
