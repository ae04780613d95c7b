"""Safe extraction: whatever an archive says, nothing is written outside its directory.

What enters: a tar or zip file that nobody vouches for but its digest. What leaves: a tree of
directories, regular files and links that stay inside. Refused: absolute names, ``..``, links that
lead out, devices, pipes, encrypted members, archives that unpack to more than is plausible.
Python's own ``data`` filter (PEP 706) checks the tar members once more.
"""

from __future__ import annotations

import posixpath
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING

from buildkit.errors import Location, SourceError
from buildkit.fs import staged_directory

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["extract_archive"]

#: Most members, and most bytes that they may unpack to. Source: our own choice, well above the
#: largest sdists of this field (flash-attn: 0.2 GB, some 4 000 members).
MAX_MEMBERS = 500_000
MAX_BYTES = 32 << 30

_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip", ".whl")


def extract_archive(archive: Path, destination: Path, *, strips_top: bool) -> None:
    """Extract an archive into a directory, which appears whole or not at all.

    :param destination: Must not exist.
    :param strips_top: Leave away the single directory in which sdists wrap everything.
    :raises SourceError: if the archive is damaged, of no known kind, or unsafe.
    """
    if not archive.name.endswith(_SUFFIXES):
        raise _unfit(archive, f"allowed are {', '.join(_SUFFIXES)}")
    try:
        with staged_directory(destination) as stage:
            if archive.name.endswith((".zip", ".whl")):
                _extract_zip(archive, stage)
            else:
                _extract_tar(archive, stage)
            if strips_top:
                _strip_top(stage)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise _unfit(archive, f"it is damaged or unsafe: {error}") from error
    except OSError as error:
        raise SourceError(
            f"{archive.name} cannot be unpacked: {error.strerror or error}.",
            where=Location(file=str(destination)),
            remedy="Free some space, or make the directory writable.",
        ) from error


def _extract_tar(archive: Path, stage: Path) -> None:
    with tarfile.open(archive) as tar:
        total = 0
        files: set[str] = set()
        for number, member in enumerate(tar):
            total += member.size
            _check_size(archive, number, total)
            _check_name(archive, member.name)
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise _unfit(archive, f"{member.name!r} is a device or a pipe")
            if member.issym() or member.islnk():
                base = posixpath.dirname(member.name) if member.issym() else ""
                _check_link(archive, member.name, base, member.linkname)
            plain = posixpath.normpath(member.name)
            if member.name.rsplit("/", 1)[-1] in (".", "") and not member.isdir():
                raise _unfit(archive, f"{member.name!r} is no name of a file")
            if member.islnk() and posixpath.normpath(member.linkname) not in files - {plain}:
                raise _unfit(archive, f"{member.name!r} links to what did not come before it")
            if member.islnk():
                _link(archive, stage, plain, posixpath.normpath(member.linkname))
                continue
            if member.isreg():
                files.add(plain)
            member.mode = _mode(member.mode, is_directory=member.isdir())
            tar.extract(member, stage, set_attrs=True, filter="data")


def _extract_zip(archive: Path, stage: Path) -> None:
    with zipfile.ZipFile(archive) as bundle:
        total = 0
        for number, member in enumerate(bundle.infolist()):
            total += member.file_size
            _check_size(archive, number, total)
            _check_name(archive, member.filename)
            if member.flag_bits & 1:
                raise _unfit(archive, f"{member.filename!r} is encrypted")
            kind = stat.S_IFMT(member.external_attr >> 16)
            place = stage / member.filename
            if kind == stat.S_IFLNK:
                target = bundle.read(member).decode(errors="replace")
                _check_link(archive, member.filename, posixpath.dirname(member.filename), target)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)
            elif kind in (0, stat.S_IFREG, stat.S_IFDIR):
                # A link made before must not lead this member out of the tree.
                if not place.parent.resolve().is_relative_to(stage.resolve()):
                    raise _unfit(archive, f"{member.filename!r} leads out of the archive")
                bundle.extract(member, stage)
                mode = member.external_attr >> 16
                place.chmod(_mode(mode, is_directory=member.is_dir()))
            else:
                raise _unfit(archive, f"{member.filename!r} is a device or a pipe")


def _link(archive: Path, stage: Path, name: str, target: str) -> None:
    """Make a hard link; tarfile's own way follows links in circles when names are odd."""
    place = stage / name
    place.parent.mkdir(parents=True, exist_ok=True)
    for path in (place.parent, (stage / target).parent):
        if not path.resolve().is_relative_to(stage.resolve()):
            raise _unfit(archive, f"{name!r} leads out of the archive")
    place.hardlink_to(stage / target)


def _mode(mode: int, *, is_directory: bool) -> int:
    """Return sane permissions: readable, and executable if the archive says so."""
    return 0o755 if is_directory or mode & 0o100 else 0o644


def _check_size(archive: Path, number: int, total_bytes: int) -> None:
    if number >= MAX_MEMBERS or total_bytes > MAX_BYTES:
        raise _unfit(archive, f"it unpacks to more than {MAX_MEMBERS} members or {MAX_BYTES} bytes")


def _check_name(archive: Path, name: str) -> None:
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/"):
        raise _unfit(archive, f"{name!r} leads out of the archive")


def _check_link(archive: Path, name: str, base: str, target: str) -> None:
    reached = posixpath.normpath(posixpath.join(base, target))
    if target.startswith("/") or reached == ".." or reached.startswith("../"):
        raise _unfit(archive, f"{name!r} links to {target!r}, which leads out of the archive")


def _strip_top(stage: Path) -> None:
    entries = list(stage.iterdir())
    if len(entries) != 1 or not entries[0].is_dir() or entries[0].is_symlink():
        return
    # The wrapping directory may hold an entry of its own name.
    wrapper = entries[0].rename(stage / ".buildkit-top")
    for entry in list(wrapper.iterdir()):
        entry.rename(stage / entry.name)
    wrapper.rmdir()


def _unfit(archive: Path, reason: str) -> SourceError:
    return SourceError(
        f"Archive {archive.name} cannot be used: {reason}.",
        remedy="Report it to its publisher; the kit unpacks only what stays in its directory.",
    )
