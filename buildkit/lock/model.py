"""What a lock says, as types: PEP 751's ``pylock`` with what it lacks under ``tool.buildkit``.

What enters: nothing; :mod:`buildkit.lock.file` decodes TOML into these. What leaves: frozen structs
that refuse unknown keys. Other installers read the same file and leave the tool's tables alone.
Source: PyPA, "pylock.toml Specification", version 1.0.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from buildkit.values import KeyField

__all__ = [
    "Header",
    "Interpreter",
    "Lock",
    "LockedPackage",
    "LockedWheel",
    "Made",
    "PatchedInPlace",
]

Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Name = Annotated[str, msgspec.Meta(pattern="^([A-Za-z0-9][A-Za-z0-9._-]*)?$")]


class _Strict(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="kebab",
    omit_defaults=True,
):
    """Base of everything in a lock: immutable, by keyword, no unknown keys."""


class Interpreter(_Strict, frozen=True, kw_only=True):
    """The Python that an environment is for."""

    version: Text
    """Full version, such as ``"3.11.7"``."""
    tag: Text
    """PEP 425 Python tag, such as ``"cp311"``."""
    platform: Text
    """Such as ``"linux_x86_64"``."""
    libc: str
    """Such as ``"glibc-2.36"``."""


class Hashes(_Strict, frozen=True, kw_only=True):
    """Digests of a file; one is enough."""

    sha256: Sha256


class LockedWheel(_Strict, frozen=True, kw_only=True):
    """The one file that a distribution is installed from."""

    name: Text
    hashes: Hashes
    url: str | None = None
    """Where it lay, for other installers; ``sync`` asks the user's own index."""
    path: str | None = None
    """File name beside the lock, of a wheel that no index has."""
    size: int | None = None


class Made(_Strict, frozen=True, kw_only=True):
    """How a wheel of this kit was made."""

    key: Sha256
    recipe: Name = ""
    version: str = ""
    target: str = ""
    fields: dict[str, str] = {}
    """Everything that the key covers; empty if the wheel does not tell."""

    @property
    def key_fields(self) -> tuple[KeyField, ...]:
        """The fields as a plan has them."""
        return tuple(KeyField(name=name, value=value) for name, value in self.fields.items())


class PatchedInPlace(_Strict, frozen=True, kw_only=True):
    """What ``buildkit patch apply --installed`` did to a distribution."""

    patches: dict[str, Sha256]
    """Digest of each patch, in the order of application."""
    files: dict[str, str]
    """SHA-256 of each patched file; empty for one that a patch removes."""


class PackageNotes(_Strict, frozen=True, kw_only=True):
    """What a ``pylock`` cannot say of a package."""

    contents: Sha256
    """Digest of the names and digests of all files that the wheel brings to site-packages."""
    digest: Sha256
    """Of this package's own table, so that a change by hand is found."""
    made: Made | None = None
    patched: PatchedInPlace | None = None


class PackageTool(_Strict, frozen=True, kw_only=True):
    """The tool's table of a package."""

    buildkit: PackageNotes


class LockedPackage(_Strict, frozen=True, kw_only=True):
    """A distribution, by the wheel that it comes from."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    version: Text
    wheels: Annotated[tuple[LockedWheel, ...], msgspec.Meta(min_length=1, max_length=1)]
    tool: PackageTool

    @property
    def wheel(self) -> LockedWheel:
        """Its only wheel."""
        return self.wheels[0]

    @property
    def notes(self) -> PackageNotes:
        """What the kit notes of it."""
        return self.tool.buildkit


class Header(_Strict, frozen=True, kw_only=True):
    """What a ``pylock`` cannot say of an environment."""

    schema: int
    kit: str
    """Version of the kit that wrote it."""
    python: Interpreter
    digest: Sha256
    """Of everything else, by way of the digests of the packages."""


class LockTool(_Strict, frozen=True, kw_only=True):
    """The tool's table of a lock."""

    buildkit: Header


class Lock(_Strict, frozen=True, kw_only=True):
    """An environment, exactly."""

    lock_version: str
    environments: tuple[str, ...]
    requires_python: str
    created_by: str
    packages: tuple[LockedPackage, ...]
    tool: LockTool

    @property
    def python(self) -> Interpreter:
        """The interpreter that it is for."""
        return self.tool.buildkit.python
