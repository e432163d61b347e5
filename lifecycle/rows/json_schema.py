"""The JSON Schema of a row, and of a request's body."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, get_args

from lifecycle.rows.columns import columns, is_list, is_object, without_null

Schema = dict[str, Any]
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


@cache
def schema_of(row: type) -> Schema:
    """Return the schema of a row: its columns, all of them required, and no others."""
    properties = {name: _column(column) for name, column in columns(row).items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@cache
def body_schema_of(body: type) -> Schema:
    """Return the schema of a request's body: no other fields, and those without a default are required.

    The ``metadata`` of a field adds to what its type says. A default that the field's own limits allow is shown.
    """
    types = columns(body)
    properties: dict[str, Schema] = {}
    required = []
    # In the order of the types, as of the columns of a row: not that of ``fields``, which begins with the bases.
    for name, entry in sorted(
        ((entry.name, entry) for entry in fields(body)), key=lambda named: list(types).index(named[0])
    ):
        kind = types[name]
        schema = body_schema_of(kind) if is_dataclass(kind) and isinstance(kind, type) else _column(kind)
        properties[name] = {**schema, **entry.metadata}
        if entry.default is MISSING and entry.default_factory is MISSING:
            required.append(name)
        elif entry.default is not MISSING and not entry.metadata.keys() - {"description"}:
            properties[name]["default"] = entry.default
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _column(column: Any) -> Schema:
    kind, is_nullable = without_null(column)
    if kind is Any:
        return {}
    schema = _kind(kind)
    if is_nullable:
        schema = {**schema, "type": [schema["type"], "null"]}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema


def _kind(kind: Any) -> Schema:
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if is_list(kind):
        return {"type": "array", "items": _column(get_args(kind)[0])}
    if is_object(kind):
        return {"type": "object", "additionalProperties": _column(get_args(kind)[1])}
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return schema_of(kind)
