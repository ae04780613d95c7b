"""An index in a directory: installers are the reference."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buildkit.digest import digest_bytes, digest_file
from buildkit.errors import JobError, RequestError, VerifyError
from buildkit.events import SILENT
from buildkit.wheelhouse import folder_wheels, write_index
from tests.wheelhouse.clients import INSTALLERS
from tests.wheels.toy import a_wheel, rewritten


@pytest.fixture
def wheels(tmp_path):
    """A directory with one wheel with a local version."""
    wheel = rewritten(tmp_path)
    folder = tmp_path / "my wheels"
    folder.mkdir()
    return Path(shutil.move(wheel, folder)).parent


def index(folder: Path, destination: Path) -> Path:
    write_index(folder_wheels([folder]), destination, SILENT)
    return destination


def page(root: Path) -> dict:
    return json.loads((root / "simple" / "toy-x" / "index.json").read_text())


@pytest.mark.parametrize("name", INSTALLERS)
@pytest.mark.parametrize("how", ["path", "links"])
def test_installers_take_wheels_from_the_directory(wheels, tmp_path, name, how):
    root = index(wheels, tmp_path / "house with blanks")
    switch = {
        "path": ["--index-url", f"{(root / 'simple').as_uri()}/"],
        "links": ["--no-index", "--find-links", str(root / "links.html")],
    }[how]
    done = INSTALLERS[name](tmp_path / "target", *switch, "toy-x")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "target" / "toy_x" / "__init__.py").is_file()


@pytest.mark.parametrize("name", INSTALLERS)
def test_installers_take_wheels_from_a_static_server(wheels, tmp_path, name):
    root = index(wheels, tmp_path / "house")
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port = server.stdout.readline().split(" port ")[1].split()[0]
        url = f"http://127.0.0.1:{port}/simple/"
        done = INSTALLERS[name](tmp_path / "target", "--index-url", url, "toy-x")
        assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        _, log = server.communicate()
    assert (tmp_path / "target" / "toy_x" / "__init__.py").is_file()
    # uv reads METADATA only when it resolves, and here it is told not to.
    assert name == "uv" or ".whl.metadata HTTP" in log


def test_a_wheel_that_changed_is_refused_by_pip(wheels, tmp_path):
    root = index(wheels, tmp_path / "house")
    (wheel,) = root.glob("wheels/*/*.whl")
    shutil.copy(rewritten(tmp_path / "other", provenance=b"{}"), wheel)
    url = f"{(root / 'simple').as_uri()}/"
    done = INSTALLERS["pip"](tmp_path / "target", "--index-url", url, "toy-x")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_pages_name_digests_of_wheels_and_metadata(wheels, tmp_path):
    root = index(wheels, tmp_path / "house")
    (file,) = page(root)["files"]
    place = (root / "simple" / "toy-x" / file["url"].replace("%2B", "+")).resolve()
    assert digest_file(place) == file["hashes"]["sha256"]
    metadata = Path(f"{place}.metadata").read_bytes()
    assert digest_bytes(metadata) == file["core-metadata"]["sha256"]
    assert b"Version: 1.0+cu130.sm120.k12345678" in metadata
    assert file["size"] == place.stat().st_size
    html = (root / "simple" / "toy-x" / "index.html").read_text()
    assert f"#sha256={file['hashes']['sha256']}" in html
    assert f'data-core-metadata="sha256={file["core-metadata"]["sha256"]}"' in html
    assert "%2B" in html
    assert "buildkit-" not in html
    assert json.loads((root / "simple" / "index.json").read_text())["projects"] == [
        {"name": "toy-x"}
    ]


def test_names_are_escaped(tmp_path):
    metadata = b'Metadata-Version: 2.1\nName: toy-x\nVersion: 1.0\nRequires-Python: >=3.9,<4 "&\n'
    a_wheel(tmp_path / "in", **{"toy_x-1.0.dist-info__METADATA": metadata})
    html = (index(tmp_path / "in", tmp_path / "out") / "simple/toy-x/index.html").read_text()
    assert 'data-requires-python="&gt;=3.9,&lt;4 &quot;&amp;"' in html


def test_written_again_it_is_brought_up_to_date(wheels, tmp_path):
    root = index(wheels, tmp_path / "house")
    times = {file: file.stat().st_mtime_ns for file in root.rglob("*") if file.is_file()}
    index(wheels, root)
    changed = [file for file, time in times.items() if file.stat().st_mtime_ns != time]
    assert [file.name for file in changed if file.name != ".buildkit-index"] == []
    next(wheels.glob("*.whl")).unlink()
    a_wheel(wheels)
    index(wheels, root)
    assert [file["filename"] for file in page(root)["files"]] == ["toy_x-1.0-py3-none-any.whl"]
    assert len(list(root.glob("wheels/*/*.whl"))) == 1
    assert len(list(root.glob("wheels/*"))) == 1


def test_wheels_that_lie_in_the_directory_stay_where_they_are(wheels, tmp_path):
    index(wheels, wheels)
    assert [path.name for path in wheels.glob("wheels")] == []
    done = INSTALLERS["pip"](
        tmp_path / "target", "--index-url", f"{(wheels / 'simple').as_uri()}/", "toy-x"
    )
    assert done.returncode == 0, done.stderr
    next(wheels.glob("*.whl")).unlink()
    a_wheel(wheels)
    index(wheels, wheels)
    assert len(list(wheels.glob("*.metadata"))) == 1


def test_all_that_is_unfit_is_named_and_nothing_is_written(wheels, tmp_path):
    (wheels / "broken-1.0-py3-none-any.whl").write_bytes(b"no zip")
    (wheels / "noname.whl").write_bytes(b"")
    shutil.copy(a_wheel(tmp_path), wheels / "toy_x-2.0-py3-none-any.whl")
    with pytest.raises(VerifyError) as caught:
        index(wheels, tmp_path / "house")
    for name in ("broken-1.0", "noname", "toy_x-2.0"):
        assert name in str(caught.value)
    assert not (tmp_path / "house").exists()


def test_two_wheels_of_one_name_are_refused(tmp_path):
    a_wheel(tmp_path / "one")
    a_wheel(tmp_path / "two", toy_x____init__=b"value = 2\n")
    with pytest.raises(JobError, match="Two different wheels"):
        folder_wheels([tmp_path / "one", tmp_path / "two"])
    assert len(folder_wheels([tmp_path / "one", tmp_path / "one"])) == 1


@pytest.mark.parametrize("what", ["file", "foreign", "simple is a file"])
def test_what_is_not_ours_is_not_touched(wheels, tmp_path, what):
    house = tmp_path / "house"
    match what:
        case "file":
            house.write_text("mine")
        case "foreign":
            (house / "simple" / "mine").mkdir(parents=True)
        case _:
            house.mkdir()
            (house / "simple").write_text("mine")
    with pytest.raises(RequestError, match="Give another directory"):
        index(wheels, house)
    assert not list(tmp_path.glob("house/*/toy-x"))


def test_a_directory_without_wheels_is_a_clear_error(tmp_path):
    with pytest.raises(RequestError, match="no wheel"):
        folder_wheels([tmp_path])
    with pytest.raises(RequestError, match="allowed a directory"):
        folder_wheels([tmp_path / "none"])


READER = """
import json, sys
from pathlib import Path
root = Path(sys.argv[1])
seen = 0
while not (root / "stop").exists():
    for page in sorted((root / "simple").glob("*/index.json")):
        try:
            document = json.loads(page.read_bytes())
        except FileNotFoundError:
            continue
        assert document["files"], "half a page"
        seen += 1
print(seen)
"""


@pytest.mark.slow
def test_pages_are_whole_while_two_write_and_one_reads(wheels, tmp_path):
    root = index(wheels, tmp_path / "house")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, root], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    a_wheel(tmp_path / "other")
    code = (
        "import sys; from pathlib import Path; from tests.wheelhouse.test_write import index\n"
        "for _ in range(20): index(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, folder, root], cwd=Path(__file__).parents[2])
        for folder in (wheels, tmp_path / "other")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    (root / "stop").touch()
    out, told = reader.communicate(timeout=60)
    assert reader.returncode == 0, told
    assert int(out) > 0
