"""What lies in an environment: each distribution, by the digests of its files.

What enters: the site-packages directories of an interpreter. What leaves: an :class:`Inventory`.
Every file is read; nothing is run but the interpreter itself, and nothing is changed. What
installers add of their own (byte code, programs in ``bin``, INSTALLER and the like) does not count,
so that pip and uv leave the same contents behind.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from buildkit.digest import Digest, digest_file, digest_value
from buildkit.installed import ORIGINALS
from buildkit.lock.contents import digest_of_rows, parse_record_digest
from buildkit.lock.model import Interpreter, Made, PatchedInPlace
from buildkit.toolchain.python import probe_python, site_packages
from buildkit.wheels.installed import STATE
from buildkit.wheels.rewrite import PROVENANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from buildkit.kit import Kit
    from buildkit.values import PythonIdentity

__all__ = ["Distribution", "Inventory", "identity_of", "read_inventory"]

#: What tools leave in site-packages that is no distribution and no code of anyone.
#: ``README.txt`` comes with CPython, the ``_virtualenv`` files with virtualenv and uv.
_HARMLESS = {"README.txt", "_virtualenv.py", "_virtualenv.pth", ".lock"}

#: What tells of a distribution; looked at by name.
_METADATA = {".dist-info", ".egg-info", ".egg-link"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A distribution in an environment."""

    name: str
    """Normalised."""
    version: str
    root: Path
    dist_info: Path
    contents: Digest
    """Of the files that its wheel brought, as they were before patches."""
    drift: tuple[str, ...] = ()
    """Files that are not what its RECORD says, each with how."""
    tags: tuple[str, ...] = ()
    refusal: str = ""
    """Why it cannot be locked: it comes from a working tree, a repository or the like."""
    wheel: Path | None = None
    """The local file that it was installed from, if it says so."""
    wheel_sha256: str = ""
    """Its digest, if the installer noted it."""
    made: Made | None = None
    patched: PatchedInPlace | None = None
    is_interrupted: bool = False
    """Whether the last change of its patches was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything in an environment."""

    python: Interpreter
    site_packages: tuple[Path, ...]
    sees_system: bool
    """Whether it also imports the packages of the interpreter that it was made from."""
    distributions: tuple[Distribution, ...]
    strays: tuple[str, ...]
    """Files and directories in site-packages that belong to no distribution."""


def read_inventory(spec: str | None, kit: Kit) -> Inventory:
    """Return what lies in an environment.

    :param spec: As for :func:`~buildkit.toolchain.python.probe_python`.
    :raises ToolchainError: if there is no such interpreter.
    """
    roots = site_packages(spec, runner=kit.runner, environment=kit.environment)
    python = probe_python(spec, runner=kit.runner, environment=kit.environment, memo=kit.paths.memo)
    found: dict[Path, Distribution] = {}
    strays: list[str] = []
    for root in dict.fromkeys(root.resolve() for root in roots):
        owned: set[str] = set()
        for folder in sorted(root.glob("*.dist-info")):
            reader = _Reader(root, folder)
            found[folder] = reader.read()
            owned |= reader.names
        for place in (*root.glob("*.egg-info"), *root.glob("*.egg-link")):
            found[place] = _egg(root, place)
        folders = {str(parent) for name in owned for parent in PurePosixPath(name).parents}
        strays += _strays(root, "", owned, folders)
    return Inventory(
        python=identity_of(python),
        site_packages=roots,
        sees_system=any(map(_sees_system, roots)),
        distributions=tuple(sorted(found.values(), key=lambda item: (item.name, item.version))),
        strays=tuple(sorted(strays)),
    )


def identity_of(python: PythonIdentity) -> Interpreter:
    """Return what a lock says of an interpreter."""
    return Interpreter(
        version=python.version, tag=python.tag, platform=python.platform, libc=python.libc
    )


@dataclass(slots=True)
class _Reader:
    """Reads one distribution."""

    root: Path
    folder: Path
    names: set[str] = field(default_factory=set)
    """Every name in its RECORD."""
    drift: list[str] = field(default_factory=list)

    def read(self) -> Distribution:
        """Return the distribution; whatever is wrong with it stands in its drift."""
        from packaging.utils import canonicalize_name

        name, version = self._identity()
        origin = self._json("direct_url.json")
        state = self._json(STATE)
        if not state and (self.folder / STATE).exists():
            self.drift.append(f"{self.folder.name}/{STATE}: broken")
        files = _table(state.get("files"))
        is_complete = state.get("complete") is True
        rows = self._rows(skipped=set() if is_complete else set(files))
        rows = self._unpatched(rows, files)
        wheel = _local_wheel(origin)
        return Distribution(
            name=str(canonicalize_name(name)),
            version=_normalised(version),
            root=self.root,
            dist_info=self.folder,
            contents=digest_of_rows(rows, self.folder.name),
            drift=tuple(dict.fromkeys(self.drift)),
            tags=self._tags(),
            refusal=_refusal(origin),
            wheel=wheel,
            wheel_sha256=_noted_digest(origin) if wheel is not None else "",
            made=_made(self._json(PROVENANCE)),
            patched=_patched(state) if is_complete else None,
            is_interrupted=bool(state) and not is_complete,
        )

    def _identity(self) -> tuple[str, str]:
        """Return name and version by its METADATA, or by its directory if that is missing."""
        text = self._text("METADATA")
        message = HeaderParser().parsestr(text)
        if message["Name"] and message["Version"]:
            return str(message["Name"]), str(message["Version"])
        self.drift.append(f"{self.folder.name}/METADATA: {'edited' if text else 'missing'}")
        name, _, version = self.folder.name.removesuffix(".dist-info").rpartition("-")
        return name or self.folder.name, version

    def _rows(self, skipped: set[str]) -> dict[str, str]:
        """Return the digest of each file of RECORD as it lies there.

        :param skipped: Files that may be of either kind, since a change of theirs was killed.
        """
        rows = {}
        try:
            record = list(csv.reader(io.StringIO(self._text("RECORD"))))
        except csv.Error:
            record = []
        if not record:
            self.drift.append(f"{self.folder.name}/RECORD: missing or broken")
        for row in record:
            if len(row) < 2:
                continue
            name, noted = row[0], row[1]
            self.names.add(name)
            # Byte code is everyone's to write anew, also where a wheel brings some.
            if not noted or name in skipped or name.endswith(".pyc"):
                continue
            now = self._digest(name)
            expected = parse_record_digest(noted)
            if expected is not None and now != expected:
                self.drift.append(f"{name}: {'edited' if now else 'missing'}")
            rows[name] = now
        return rows

    def _unpatched(self, rows: dict[str, str], files: dict[str, Any]) -> dict[str, str]:
        """Put the originals in the place of patched files."""
        kept = f"{self.folder.name}/{ORIGINALS}/"
        whole = {name: digest for name, digest in rows.items() if not name.startswith(kept)}
        for name, row in files.items():
            whole.pop(name, None)
            before = row.get("before") if isinstance(row, dict) else ""
            if before is None:
                continue
            original = self._digest(f"{kept}{before}") if re.fullmatch(r"\d+", str(before)) else ""
            if not original:
                self.drift.append(f"{name}: its original is missing")
            whole[name] = original
        return whole

    def _tags(self) -> tuple[str, ...]:
        found = HeaderParser().parsestr(self._text("WHEEL")).get_all("Tag", [])
        return tuple(sorted(str(tag).strip() for tag in found))

    def _digest(self, name: str) -> str:
        try:
            return digest_file(self.root / name)
        except OSError:
            return ""

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def _json(self, name: str) -> dict[str, Any]:
        text = self._text(name)
        if not text:
            return {}
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        return _table(document)


def _egg(root: Path, place: Path) -> Distribution:
    from packaging.utils import canonicalize_name

    name, _, rest = place.stem.partition("-")
    return Distribution(
        name=str(canonicalize_name(name)),
        version=_normalised(rest.partition("-")[0]),
        root=root,
        dist_info=place,
        contents=digest_value([]),
        refusal="it was installed without a wheel (egg-info or egg-link)",
    )


def _strays(root: Path, folder: str, owned: set[str], folders: set[str]) -> Iterator[str]:
    """Yield what belongs to nobody; byte code alone does not count.

    :param folder: Where to look, below ``root``.
    :param owned: Every file of a RECORD.
    :param folders: Every directory with such a file.
    """
    for place in sorted((root / folder).iterdir()):
        name = f"{folder}/{place.name}" if folder else place.name
        if name in owned or place.suffix == ".pyc" or place.name == "__pycache__":
            continue
        if not folder and (place.name in _HARMLESS or place.suffix in _METADATA):
            continue
        if not place.is_dir() or place.is_symlink():
            yield name
        elif name in folders:
            yield from _strays(root, name, owned, folders)
        elif any(file.is_file() and file.suffix != ".pyc" for file in place.rglob("*")):
            yield name


def _sees_system(root: Path) -> bool:
    for parent in root.parents[:4]:
        file = parent / "pyvenv.cfg"
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace").lower()
            return re.search(r"include-system-site-packages\s*=\s*true", text) is not None
    return False


def _refusal(origin: dict[str, Any]) -> str:
    """Return why an origin cannot be locked. Source: PyPA, "Recording the Direct URL Origin"."""
    if "dir_info" in origin:
        is_editable = _table(origin["dir_info"]).get("editable")
        return "it is an editable install" if is_editable else "it was built from a directory"
    if "vcs_info" in origin:
        return f"it was built from a {_table(origin['vcs_info']).get('vcs', 'VCS')} repository"
    if origin and not urlsplit(str(origin.get("url"))).path.endswith(".whl"):
        return "it was built from an archive at an address"
    return ""


def _local_wheel(origin: dict[str, Any]) -> Path | None:
    address = urlsplit(str(origin.get("url", "")))
    is_local = address.scheme == "file" and address.path.endswith(".whl")
    return Path(unquote(address.path)) if is_local else None


def _noted_digest(origin: dict[str, Any]) -> str:
    archive = _table(origin.get("archive_info"))
    noted = str(_table(archive.get("hashes")).get("sha256", ""))
    return noted if re.fullmatch(r"[0-9a-f]{64}", noted) else ""


def _made(document: dict[str, Any]) -> Made | None:
    """Return what provenance tells, whichever kind of make wrote it."""
    key = _word(document.get("key"))
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        return None
    recipe = _word(document.get("recipe"))
    fields = document.get("key_fields")
    pairs: Sequence[Any] = fields if isinstance(fields, list) else ()
    return Made(
        key=key,
        recipe=recipe if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", recipe) else "",
        version=_word(document.get("version")),
        target=_word(document.get("target")),
        fields={
            str(pair[0]): str(pair[1])
            for pair in pairs
            if isinstance(pair, list) and len(pair) == 2
        },
    )


def _patched(state: dict[str, Any]) -> PatchedInPlace | None:
    patches = _table(state.get("patches"))
    files = _table(state.get("files"))
    return PatchedInPlace(
        patches={str(name): str(digest) for name, digest in patches.items()},
        files={name: _word(_table(row).get("sha256")) for name, row in files.items()},
    )


def _normalised(version: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""
