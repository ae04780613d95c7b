"""Safe extraction: whatever an archive says, nothing is written outside its directory.

What enters: a tar or zip file that nobody vouches for but its digest. What leaves: a tree of
directories, regular files and links that stay inside. Refused: absolute names, ``..``, links that
lead out, devices, pipes, encrypted members, archives that unpack to more than is plausible.
Python's own filter (PEP 706) would do for tar files, but Debian 12's Python 3.11.2 is older.
"""

from __future__ import annotations

import posixpath
import shutil
import stat
import tarfile
import zipfile
from typing import IO, TYPE_CHECKING

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
            writer = _Writer(archive, stage)
            if archive.name.endswith((".zip", ".whl")):
                _extract_zip(archive, writer)
            else:
                _extract_tar(archive, writer)
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


class _Writer:
    """Writes members below one directory, and nothing anywhere else.

    Nothing is left to the archive modules: what they do with odd names and links differs from
    Python to Python.
    """

    def __init__(self, archive: Path, stage: Path) -> None:
        self._archive = archive
        self._stage = stage
        self._has_links = False
        self._files: set[str] = set()
        self._members = 0
        self._bytes = 0

    def count(self, size_bytes: int) -> None:
        """Note a member; refuse an archive that unpacks to more than is plausible."""
        self._members += 1
        self._bytes += size_bytes
        if self._members > MAX_MEMBERS or self._bytes > MAX_BYTES:
            raise self.unfit(f"it unpacks to more than {MAX_MEMBERS} members or {MAX_BYTES} bytes")

    def directory(self, name: str) -> None:
        self._place(name, is_directory=True).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, stream: IO[bytes], mode: int) -> None:
        place = self._place(name)
        if place.is_symlink() or place.exists():
            place.unlink()
        with place.open("wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        # Readable, and executable if the archive says so; no more than that.
        place.chmod(0o755 if mode & 0o100 else 0o644)
        self._files.add(posixpath.normpath(name))

    def symlink(self, name: str, target: str) -> None:
        self._check_target(name, target, posixpath.dirname(name))
        self._place(name).symlink_to(target)
        self._has_links = True

    def hardlink(self, name: str, target: str) -> None:
        self._check_target(name, target, "")
        plain = posixpath.normpath(target)
        if plain not in self._files:
            raise self.unfit(f"{name!r} links to what did not come before it")
        source = self._place(target)
        self._place(name).hardlink_to(source)

    def unfit(self, reason: str) -> SourceError:
        return _unfit(self._archive, reason)

    def _place(self, name: str, *, is_directory: bool = False) -> Path:
        """Return where a member goes, after making the directories above it."""
        parts = name.rstrip("/").split("/") if is_directory else name.split("/")
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts:
            raise self.unfit(f"{name!r} leads out of the archive")
        if parts[-1] in (".", "") and not is_directory:
            raise self.unfit(f"{name!r} is no name of a file")
        place = self._stage / name
        place.parent.mkdir(parents=True, exist_ok=True)
        # A link made before must not lead this member out of the tree.
        if self._has_links and not place.parent.resolve().is_relative_to(self._stage.resolve()):
            raise self.unfit(f"{name!r} leads out of the archive")
        return place

    def _check_target(self, name: str, target: str, base: str) -> None:
        reached = posixpath.normpath(posixpath.join(base, target))
        if target.startswith("/") or reached == ".." or reached.startswith("../"):
            raise self.unfit(f"{name!r} links to {target!r}, which leads out of the archive")


def _extract_tar(archive: Path, writer: _Writer) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            writer.count(member.size)
            if member.isdir():
                writer.directory(member.name)
            elif member.issym():
                writer.symlink(member.name, member.linkname)
            elif member.islnk():
                writer.hardlink(member.name, member.linkname)
            elif member.isreg() and (stream := tar.extractfile(member)) is not None:
                writer.file(member.name, stream, member.mode)
            else:
                raise writer.unfit(f"{member.name!r} is a device or a pipe")


def _extract_zip(archive: Path, writer: _Writer) -> None:
    with zipfile.ZipFile(archive) as bundle:
        for member in bundle.infolist():
            writer.count(member.file_size)
            if member.flag_bits & 1:
                raise writer.unfit(f"{member.filename!r} is encrypted")
            mode = member.external_attr >> 16
            kind = stat.S_IFMT(mode)
            if member.is_dir():
                writer.directory(member.filename)
            elif kind == stat.S_IFLNK:
                writer.symlink(member.filename, bundle.read(member).decode(errors="replace"))
            elif kind in (0, stat.S_IFREG):
                with bundle.open(member) as stream:
                    writer.file(member.filename, stream, mode)
            else:
                raise writer.unfit(f"{member.filename!r} is a device or a pipe")


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
