"""The reference page of the recipe format, made from the model's docstrings."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from buildkit.recipe import model
from buildkit.recipe.schema import describe_fields

__all__ = ["render_reference"]

#: The tables of a recipe file in the order of the page, with the struct that describes each.
_TABLES: tuple[tuple[str, type], ...] = (
    ("top level", model.Recipe),
    ("[[versions]]", model.Version),
    ('source, kind = "pypi"', model.PypiSource),
    ('source, kind = "git"', model.GitSource),
    ('source, kind = "archive"', model.ArchiveSource),
    ('source, kind = "local"', model.LocalSource),
    ('source, kind = "bundled"', model.BundledSource),
    ("[build]", model.Build),
    ("[toolchain]", model.Toolchain),
    ("[arch.NAME]", model.ArchSettings),
    ("[flags]", model.Flags),
    ("[[flags.replace]]", model.FlagReplacement),
    ("[system]", model.System),
    ("[[system.headers]], [[system.libraries]]", model.SystemFile),
    ("[memory]", model.Memory),
    ("[verify]", model.Verify),
)


def render_reference() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Recipe reference",
        "",
        "Made from the docstrings in `buildkit/recipe/model.py` by `nox -s gen`; every key of a",
        "recipe file, with its default.",
    ]
    for title, struct in _TABLES:
        lines += ["", f"## {title}", "", str(struct.__doc__).strip(), ""]
        lines += ["| key | default | what it says |", "|---|---|---|"]
        texts = describe_fields(struct)
        for field in msgspec.structs.fields(struct):
            default = _default(field)
            text = texts.get(field.name, "").replace("``", "`").replace("|", "\\|")
            lines.append(f"| `{field.encode_name}` | {default} | {text} |")
    return "\n".join([*lines, ""])


def _default(field: Any) -> str:
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    return f"`{json.dumps(msgspec.to_builtins(value))}`"
