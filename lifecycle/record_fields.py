"""Reads the plain fields of records that others wrote: each by its name, and refused where it is of another type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from functools import cache
from typing import Any, TypeVar

from indoubt.lifecycle.errors import MalformedRecord

Record = TypeVar("Record")
_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "not text"),
    "int": (int, "not a whole number"),
    "tuple[str, ...]": (list, "not a list"),
}


def read_fields(kind: type[Record], fields: Mapping[str, Any], what: str, **others: Any) -> Record:
    """Return a record whose texts, numbers and lists of texts stand under their own names; ``others``: what does not.

    Raises MalformedRecord that names the field.
    """
    own: dict[str, Any] = {}
    plain: type = kind
    for name, type_, wanted in _typed(plain):
        if name in others:
            continue
        if name not in fields:
            raise MalformedRecord(f"{what} has no {name!r}")
        value = fields[name]
        if not isinstance(value, type_) or isinstance(value, bool):
            raise MalformedRecord(f"{what} field {name!r} is {value!r}, {wanted}")
        if isinstance(value, list):
            if not all(isinstance(text, str) for text in value):
                raise MalformedRecord(f"{what} field {name!r} holds what is not text")
            value = tuple(value)
        own[name] = value
    return kind(**own, **others)


@cache
def _typed(kind: type) -> list[tuple[str, type, str]]:
    """Return each field's name and its type in JSON, with what is said of another one."""
    return [(field.name, *_TYPES.get(str(field.type), (type(None), ""))) for field in fields_of(kind)]
