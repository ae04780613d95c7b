"""The JSON Schema of recipe files, made from the model and the docstrings of its fields."""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import msgspec

from buildkit.recipe import model

__all__ = ["describe_fields", "render_schema"]


def render_schema() -> str:
    """Return the JSON Schema (draft 2020-12) of a recipe file."""
    schema: dict[str, Any] = msgspec.json.schema(model.Recipe)
    for name, definition in schema["$defs"].items():
        struct = getattr(model, name)
        described = describe_fields(struct)
        names = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
        for field, text in described.items():
            place = definition["properties"].get(names.get(field, field))
            if place is not None:
                # A reference may have no neighbours in older drafts; editors read this everywhere.
                place["description"] = text
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Recipe"}
    return json.dumps(document | schema, indent=2)


def describe_fields(struct: type) -> dict[str, str]:
    """Return the docstring under each field of a struct and of its bases, by Python name."""
    texts: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base.__module__ != model.__name__:
            continue
        body = ast.parse(inspect.getsource(base)).body[0]
        if not isinstance(body, ast.ClassDef):  # pragma: no cover - a class's source is a class
            continue
        for line, following in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                texts[line.target.id] = " ".join(str(following.value.value).split())
    return texts
