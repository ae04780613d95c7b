"""In what two wheels differ, and why where that is known.

What enters: two wheels that were read. What leaves: one :class:`MemberDifference` per file, and the
reasons. A member of a ``.dist-info`` directory is compared with its like in the other wheel,
although the directories' names hold versions. Pure but for reading.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Any, Literal

from buildkit.wheels.libraries import LibraryDifference, module_free
from buildkit.wheels.record import parse_record
from buildkit.wheels.rewrite import PROVENANCE

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Mapping

__all__ = ["MemberDifference", "archive_fields", "pair_members", "reasons_for", "text_fields"]

Change = Literal["added", "removed", "changed"]

#: Largest text member whose fields are compared.
TEXT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDifference:
    """In what one file of two wheels differs."""

    name: str
    """With ``*`` for the version in the name of its directory."""
    change: Change
    fields: tuple[str, ...] = ()
    """Of texts with fields: one line for each that differs."""
    library: LibraryDifference | None = None


def pair_members(
    a: zipfile.ZipFile, b: zipfile.ZipFile
) -> dict[str, tuple[zipfile.ZipInfo | None, zipfile.ZipInfo | None]]:
    """Return the files of two wheels by common name."""
    one, other = _members(a), _members(b)
    return {name: (one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])}


def archive_fields(a: zipfile.ZipInfo, b: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return what the archives say differently of a file, its contents aside."""
    rows = (
        ("time", a.date_time, b.date_time),
        ("mode", oct(a.external_attr >> 16), oct(b.external_attr >> 16)),
        ("compression", a.compress_type, b.compress_type),
        ("compressed bytes", a.compress_size, b.compress_size),
    )
    same_contents = a.CRC == b.CRC and a.file_size == b.file_size
    return tuple(
        f"{what}: {_shown(left)} in A, {_shown(right)} in B"
        for what, left, right in rows
        if left != right and (same_contents or what != "compressed bytes")
    )


def text_fields(name: str, a: bytes, b: bytes) -> tuple[str, ...]:
    """Return one line per field of a metadata file that differs; none for other files."""
    base = name.rpartition("/")[2]
    if ".dist-info/" not in name or max(len(a), len(b)) > TEXT_BYTES:
        return ()
    try:
        left, right = _fields(base, a), _fields(base, b)
    except ValueError:
        return ("it cannot be parsed",)
    return tuple(_changed(left, right))


def reasons_for(differences: tuple[MemberDifference, ...]) -> tuple[str, ...]:
    """Return why two wheels differ, as far as their differences tell."""
    found: dict[str, None] = {}
    for difference in differences:
        found |= dict.fromkeys(_field_reasons(difference))
        if difference.library is not None:
            found |= dict.fromkeys(_library_reasons(difference.library))
    return tuple(found)


def _members(wheel: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found = {}
    for member in wheel.infolist():
        if not member.is_dir():
            found[_common(member.filename)] = member
    return found


def _common(name: str) -> str:
    """Return the name of a file without the version that its directory's name may hold."""
    first, slash, rest = name.partition("/")
    for end in (".dist-info", ".data"):
        if first.endswith(end):
            first = f"{first.partition('-')[0]}-*{end}"
    return f"{first}{slash}{rest}"


def _fields(base: str, data: bytes) -> dict[str, str]:
    text = data.decode()
    if base == "RECORD":
        return {
            _common(row.name): f"{row.digest} {row.size}"
            for row in parse_record(text)
            if row.digest
        }
    if base == PROVENANCE:
        return dict(_flat("", json.loads(text)))
    if base not in ("METADATA", "WHEEL"):
        return {}
    message = HeaderParser().parsestr(text)
    fields = {key: " | ".join(str(one) for one in message.get_all(key, [])) for key in message}
    return fields | {"(body)": str(message.get_payload())}


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested values by dotted name; a list of pairs counts as a table."""
    if isinstance(value, list) and value and all(_is_pair(item) for item in value):
        value = dict(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else key, inner)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)


def _is_pair(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)


def _changed(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield f"{name}: {_shown(a.get(name))} in A, {_shown(b.get(name))} in B"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = " ".join(str(value).split())
    return text if len(text) <= 90 else f"{text[:87]}..."


def _field_reasons(difference: MemberDifference) -> Iterator[str]:
    for field in difference.fields:
        if field.startswith("time: "):
            yield "timestamps: the archives date their files differently"
        if field.startswith("compressed bytes: "):
            yield "compression: two releases of zlib, or two levels"
    if difference.name.endswith(f".dist-info/{PROVENANCE}"):
        tools = [field for field in difference.fields if field.startswith("tools.")]
        if tools:
            yield "compilers: " + "; ".join(tools)
        inputs = [field for field in difference.fields if field.startswith("key_fields.")]
        if inputs:
            yield "inputs: " + "; ".join(field.removeprefix("key_fields.") for field in inputs)


def _library_reasons(library: LibraryDifference) -> Iterator[str]:
    texts = (*library.only_in_a, *library.only_in_b)
    if any("tmpxft" in text for text in texts):
        yield "temporary names: nvcc names objects after files with its process number (tmpxft)"
    if any(text.startswith("/") for text in texts):
        yield "build paths: directories of the build stand in a library"
    free = {module_free(text) for text in library.only_in_a}
    if any(module_free(text) in free and module_free(text) != text for text in library.only_in_b):
        yield "build paths: nvcc puts a digest of a source's absolute path into internal symbols"
    if any(section.startswith(".comment") for section in library.sections):
        yield "compilers: the .comment section, which names them, differs"
