"""Package managers by their command lines, and the locks that hold what they brought."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from buildkit.digest import digest_bytes
from buildkit.errors import ToolchainError
from buildkit.run import Completed
from buildkit.toolchain.apt import Apt
from buildkit.toolchain.distribution import parse_distribution
from buildkit.toolchain.packages import parse_lock, render_lock, take_packages
from buildkit.toolchain.rpm import Dnf
from tests.fakes import ScriptedRunner, says
from tests.toolchain.test_system import REAL, a_deb, a_supply, needs_dpkg

DEBIAN = parse_distribution("ID=debian\nVERSION_ID=12")

DEV = """\
Package: libno-dev
Version: 1:2.0-1
Architecture: amd64
Depends: libno1 (= 1:2.0-1), libc6-dev, python3, libother-dev | libanother-dev
Filename: pool/main/n/no/libno-dev_2.0-1_amd64.deb
SHA256: {sha256}
"""


class Downloads(ScriptedRunner):
    """Answers, and leaves the files that a download is to bring."""

    files: dict[str, bytes]

    def capture(self, argv, *, env, cwd=None, timeout_seconds=None) -> Completed:
        done = super().capture(argv, env=env, cwd=cwd, timeout_seconds=timeout_seconds)
        if "download" in argv and done.status == 0:
            for name, data in self.files.items():
                (Path(cwd) / name).write_bytes(data)
        return done


def an_apt(root: Path, data: bytes, files: dict[str, bytes], **answers) -> tuple[Apt, Downloads]:
    show = DEV.format(sha256=digest_bytes(data))
    runner = Downloads(
        {
            **answers,
            "libno1 libother-dev": says(""),
            "show": says(show),
            "update": says(status=100, stderr="E: one archive is down"),
            "download": says(),
        }
    )
    runner.files = files
    return Apt(runner, REAL, root / "lists"), runner


def test_apt_has_lists_of_its_own_and_never_takes_what_is_not_signed(tmp_path):
    apt, runner = an_apt(tmp_path, b"deb", {"libno-dev_1%3a2.0-1_amd64.deb": b"deb"})
    (tmp_path / "d").mkdir()
    ((package, file),) = apt.take(["libno-dev"], tmp_path / "d")
    assert (package.version, package.filename) == ("1:2.0-1", "libno-dev_2.0-1_amd64.deb")
    assert file.read_bytes() == b"deb"
    for line in runner.commands:
        assert f"Dir::State::Lists={tmp_path}/lists/lists" in line
        assert "APT::Get::AllowUnauthenticated=false" in line
        assert "Acquire::AllowInsecureRepositories=false" in line
    assert runner.commands[-1].endswith("-q download libno-dev=1:2.0-1")
    # The C library and programs are the machine's; of alternatives the first is taken.
    assert runner.commands[-2].endswith("show --no-all-versions libno1 libother-dev")


def test_a_package_that_differs_from_the_signed_lists_is_refused(tmp_path):
    apt, _ = an_apt(tmp_path, b"deb", {"libno-dev_2.0-1_amd64.deb": b"evil"})
    with pytest.raises(ToolchainError, match=r"differs from apt's signed lists: found sha256"):
        apt.take(["libno-dev"], tmp_path)


def test_a_package_that_no_list_holds_is_told_with_what_apt_said(tmp_path):
    apt, _ = an_apt(tmp_path, b"", {}, **{"--no-all-versions libgone": says("")})
    with pytest.raises(ToolchainError, match="lists hold no libgone: E: one archive is down"):
        apt.take(["libgone"], tmp_path)


def a_dnf(**answers) -> Downloads:
    runner = Downloads(
        answers
        | {
            "--requires": says("numactl-libs 2.0-1 x86_64\nglibc 2.34-1 x86_64\n"),
            "repoquery": says("numactl-devel 2.0-1 x86_64\n\n"),
            "download": says(),
        }
        | ({} if answers else {"checksig": says("numactl: digests signatures OK\n")})
    )
    names = ("numactl-devel-2.0-1.x86_64.rpm", "numactl-libs-2.0-1.x86_64.rpm")
    runner.files = {name: name.encode() for name in names}
    return runner


def test_dnf_takes_packages_with_those_that_they_need_and_asks_for_signatures(tmp_path):
    runner = a_dnf()
    taken = Dnf(runner, REAL).take(["/usr/include/numa.h"], tmp_path)
    assert [package.name for package, _ in taken] == ["numactl-devel", "numactl-libs"]
    assert taken[0][0].sha256 == digest_bytes(b"numactl-devel-2.0-1.x86_64.rpm")
    assert [line.split()[0] for line in runner.commands[-2:]] == ["rpmkeys", "rpmkeys"]


def test_a_package_without_a_signature_is_refused(tmp_path):
    runner = a_dnf(checksig=says("numactl: digests OK\n"))
    with pytest.raises(ToolchainError, match="not signed by a key of this system: digests OK"):
        Dnf(runner, REAL).take(["numactl-devel"], tmp_path)
    with pytest.raises(ToolchainError, match="dnf knows no other-devel"):
        Dnf(a_dnf(), REAL).take(["other-devel"], tmp_path)


@needs_dpkg
def test_what_a_lock_names_is_taken_without_asking_again(tmp_path):
    """The tools are there, and the archive answers once."""
    deb = a_deb(tmp_path, {"usr/include/no_such.h": "int x;"}).read_bytes()
    _, runner = an_apt(tmp_path, deb, {"libno-dev_2.0-1_amd64.deb": deb})
    supply = a_supply(tmp_path, runner=runner)
    if shutil.which("apt-get") is None:
        pytest.skip("needs apt-get")
    first = take_packages(["libno-dev"], DEBIAN, supply, lambda _: False)
    asked = len(runner.commands)
    offline = a_supply(tmp_path, runner=runner, is_offline=True)
    assert take_packages(["libno-dev"], DEBIAN, offline, lambda _: False) == first
    assert len(runner.commands) == asked
    # A damaged file is fetched again.
    supply.paths.download(first[0].sha256, first[0].filename).write_bytes(b"torn")
    with pytest.raises(ToolchainError, match="not fetched before"):
        take_packages(["libno-dev"], DEBIAN, offline, lambda _: False)
    assert take_packages(["libno-dev"], DEBIAN, supply, lambda _: False) == first


def test_a_lock_reads_as_it_was_written_and_nonsense_is_no_lock(tmp_path):
    apt, _ = an_apt(tmp_path, b"deb", {"libno-dev_2.0-1_amd64.deb": b"deb"})
    packages = tuple(package for package, _ in apt.take(["libno-dev"], tmp_path))
    text = render_lock(["libno-dev"], DEBIAN, packages)
    assert parse_lock(text) == packages
    assert parse_lock(text.replace("libno-dev_2.0-1_amd64.deb", "../../evil")) == ()
    assert parse_lock(f"{text}garbage\n") == ()


@needs_dpkg
def test_members_that_lead_out_of_the_tree_are_refused(tmp_path):
    """The archive inside the package names a parent directory, as no dpkg-deb writes it."""
    deb = a_deb(tmp_path, {"usr/include/x": "x"})
    subprocess.run(["ar", "x", deb], cwd=tmp_path, check=True)
    (tmp_path / "up").mkdir()
    (tmp_path / "evil").write_text("evil")
    for old in tmp_path.glob("data.tar*"):
        old.unlink()
    subprocess.run(["tar", "-cPzf", "../data.tar.gz", "../evil"], cwd=tmp_path / "up", check=True)
    (control,) = tmp_path.glob("control.tar*")
    subprocess.run(
        ["ar", "rc", "evil.deb", "debian-binary", control.name, "data.tar.gz"],
        cwd=tmp_path,
        check=True,
    )
    (tmp_path / "evil").unlink()
    target = tmp_path / "into" / "tree"
    target.mkdir(parents=True)
    apt = Apt(a_supply(tmp_path).runner, REAL, tmp_path / "lists")
    with pytest.raises(ToolchainError, match="dpkg-deb cannot unpack"):
        apt.unpack(tmp_path / "evil.deb", target)
    assert not list((tmp_path / "into").rglob("evil"))
