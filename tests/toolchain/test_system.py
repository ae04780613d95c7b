"""What the system lacks: told with one command, or taken from the distribution's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from buildkit.borrowed import SystemChoice, SystemPackage
from buildkit.digest import digest_file
from buildkit.errors import ToolchainError
from buildkit.kit import Supply
from buildkit.paths import Paths
from buildkit.recipe.model import System, SystemFile
from buildkit.run import ProcessRunner
from buildkit.toolchain.compilers import probe_gcc
from buildkit.toolchain.system import choose_system, ensure_sysroot
from buildkit.values import IndexSettings
from tests.fakes import RecordingEvents

REAL = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")

SYSTEM = System(
    headers=(
        SystemFile(file="stdio.h"),
        SystemFile(file="no_such.h", debian="libno-dev", rpm="no-devel"),
    ),
    libraries=(
        SystemFile(file="libc.so.6"),
        SystemFile(file="libno_such.so", debian="libno-dev", rpm="no-libs"),
    ),
)


def a_supply(root: Path, **changes) -> Supply:
    values = {
        "paths": Paths(root / "cache"),
        "environment": REAL,
        "runner": ProcessRunner(),
        "events": RecordingEvents(),
        "settings": IndexSettings(),
        "is_offline": False,
    }
    return Supply(**(values | changes))


def real_gcc(root: Path):
    runner = ProcessRunner()
    return probe_gcc("", None, runner=runner, environment=REAL, memo=root / "memo").gcc


def choose(root: Path, release: str, system: System = SYSTEM, *, may_fetch: bool, **changes):
    file = root / "os-release"
    file.write_text(release)
    return choose_system(
        system,
        real_gcc(root),
        root / "include",
        a_supply(root, **changes),
        may_fetch=may_fetch,
        os_release=file,
    )


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=fedora", "dnf install no-devel no-libs`"),
        ("ID=debian", "apt-get install libno-dev`"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "zypper install no-devel no-libs`"),
        ("ID=alpine", "no_such.h (libno-dev on Debian)"),
    ],
)
def test_all_missing_files_are_told_with_one_command(tmp_path, release, command):
    choice = choose(tmp_path, release, may_fetch=False)
    assert choice.lacks == "Missing on this machine: no_such.h, libno_such.so."
    assert choice.notes == ("stdio.h, libc.so.6: of this machine",)
    with pytest.raises(ToolchainError) as caught:
        ensure_sysroot(choice, real_gcc(tmp_path), a_supply(tmp_path))
    assert command in caught.value.remedy


def test_what_the_machine_has_is_not_asked_for(tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "no_such.h").touch()
    system = System(headers=SYSTEM.headers)
    choice = choose(tmp_path, "ID=debian", system, may_fetch=True)
    assert (choice.packages, choice.lacks) == ((), "")


def test_without_network_or_tool_the_reason_stands_beside_the_command(tmp_path):
    offline = choose(tmp_path, "ID=debian", may_fetch=True, is_offline=True)
    assert offline.lacks.endswith("libno-dev: not fetched before, and this is --offline.")
    other = choose(tmp_path, "ID=opensuse-leap\nID_LIKE=suse", may_fetch=True)
    assert "cannot fetch packages of this system (opensuse-leap)" in other.lacks
    bare = choose(tmp_path, "ID=fedora", may_fetch=True, environment=REAL | {"PATH": "/none"})
    assert "needs dnf, rpmkeys, rpm2archive, tar" in bare.lacks
    assert "dnf install no-devel no-libs" in bare.remedy


# --- sysroots -------------------------------------------------------------------------------------


def a_deb(root: Path, files: dict[str, str | Path]) -> Path:
    """Make a package; a path is a link to it."""
    tree = root / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "DEBIAN").mkdir(parents=True)
    control = "Package: libno-dev\nVersion: 1.0\nArchitecture: all\nMaintainer: n <n@x.org>\n"
    (tree / "DEBIAN" / "control").write_text(f"{control}Description: x\n")
    for name, content in files.items():
        place = tree / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            place.symlink_to(content)
        elif content:
            place.write_text(content)
    file = root / "libno-dev_1.0_all.deb"
    subprocess.run(["dpkg-deb", "-b", tree, file], check=True, capture_output=True)
    return file


def a_choice(file: Path, supply: Supply, *files: str) -> SystemChoice:
    sha256 = digest_file(file)
    place = supply.paths.download(sha256, file.name)
    place.parent.mkdir(parents=True)
    shutil.copy(file, place)
    package = SystemPackage(
        name="libno-dev", version="1.0", architecture="all", sha256=sha256, filename=file.name
    )
    return SystemChoice(packages=(package,), files=files, remedy="Install it.")


def unpacked(root: Path, file: Path, *files: str):
    supply = a_supply(root)
    release = root / "os-release"
    release.write_text("ID=debian")
    choice = a_choice(file, supply, *files)
    return ensure_sysroot(choice, real_gcc(root), supply, os_release=release)


@needs_dpkg
def test_a_sysroot_holds_headers_libraries_and_pkgconfig_that_names_it(tmp_path):
    lib = "usr/lib/x86_64-linux-gnu"
    deb = a_deb(
        tmp_path,
        {
            "usr/include/no_such.h": "int x;",
            f"{lib}/libno_such.so.1": "not really",
            f"{lib}/libno_such.so": Path("/usr/lib/x86_64-linux-gnu/libno_such.so.1"),
            f"{lib}/libgone.so": Path("libgone.so.7"),
            f"{lib}/pkgconfig/no.pc": "prefix=/usr\nCflags: -I/usr/include/no -Da=/usrx\n",
            "etc/no.conf": "not wanted",
        },
    )
    sysroot = unpacked(tmp_path, deb, "no_such.h", "libno_such.so")
    assert sysroot.owners() == {"libno_such.so.1": "libno-dev"}
    library = sysroot.prefix / "lib/x86_64-linux-gnu/libno_such.so"
    assert library.resolve() == library.with_name("libno_such.so.1").resolve()
    assert not library.with_name("libgone.so").is_symlink()
    assert not (sysroot.root / "etc").exists()
    text = (library.parent / "pkgconfig/no.pc").read_text()
    assert text == f"prefix={sysroot.prefix}\nCflags: -I{sysroot.prefix}/include/no -Da=/usrx\n"


@needs_dpkg
def test_links_that_lead_out_of_a_package_are_refused_and_nothing_is_left(tmp_path):
    deb = a_deb(tmp_path, {"usr/include/x": Path("../../../../etc")})
    with pytest.raises(ToolchainError, match="leads out of it: usr/include/x") as caught:
        unpacked(tmp_path, deb)
    assert caught.value.remedy == "Install it."
    assert not any(path.is_dir() for path in (tmp_path / "cache" / "system").iterdir())


@needs_dpkg
def test_a_package_that_lacks_what_the_recipe_says_is_named(tmp_path):
    deb = a_deb(tmp_path, {"usr/include/other.h": "int x;"})
    with pytest.raises(ToolchainError, match=r"packages libno-dev do not bring no_such\.h"):
        unpacked(tmp_path, deb, "no_such.h")


@needs_dpkg
@pytest.mark.parametrize(("flag", "kept"), [("-fPIC", ".a"), ("-fno-pic", ".so")])
def test_the_static_form_alone_is_offered_where_the_linker_takes_it(tmp_path, flag, kept):
    source = tmp_path / "no.c"
    source.write_text("static int held; int *no_such(void) { return &held; }")
    compiled = tmp_path / "no.o"
    for command in (
        ["gcc", flag, "-c", source, "-o", compiled],
        ["ar", "rc", tmp_path / "libno_such.a", compiled],
    ):
        subprocess.run(command, check=True)
    lib = "usr/lib/x86_64-linux-gnu"
    files = {f"{lib}/libno_such.so": Path("libno_such.so.1"), f"{lib}/libno_such.so.1": "x"}
    a_deb(tmp_path, files)
    tree = tmp_path / "tree"
    shutil.copy(tmp_path / "libno_such.a", tree / lib)
    deb = tmp_path / "libno-dev_1.0_all.deb"
    subprocess.run(["dpkg-deb", "-b", tree, deb], check=True, capture_output=True)
    sysroot = unpacked(tmp_path, deb, "libno_such.so")
    (folder,) = (place for place in sysroot.libraries if "linux" in place.name)
    assert [path.suffix for path in sorted(folder.glob("libno_such.*")) if path.suffix != ".1"] == [
        kept
    ]
