"""The JSON Schema of a row."""

from __future__ import annotations

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
