"""JSON objects that others wrote: read whole, or refused before anything is made of them.

What passes can be kept, shown and sent on: UTF-8 text, whole numbers that every JSON reader takes the same way (RFC 7493), finite
numbers, and no deeper nesting than any record of ours has.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from functools import cache
from typing import Any, TypeVar

from indoubt.lifecycle.errors import MalformedRecord

MAX_DEPTH = 32
MAX_WHOLE_NUMBER = 2**53
Record = TypeVar("Record")
_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "not text"),
    "int": (int, "not a whole number"),
    "tuple[str, ...]": (list, "not a list"),
}


def read_object(value: bytes | None, what: str) -> dict[str, Any]:
    """Return the object of a record; ``what`` names its kind in errors. Raises MalformedRecord."""
    try:
        # Bytes as they are would also pass as UTF-16 or UTF-32, and history keeps UTF-8.
        fields = json.loads((value or b"").decode())
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"{what} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise MalformedRecord(f"{what} is not a JSON object")
    _check(fields, what, MAX_DEPTH)
    return fields


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


def _check(value: Any, what: str, depth: int) -> None:
    match value:
        case str():
            if not value.isascii():
                _check_text(value, what)
        case bool() | None:
            pass
        case int():
            if abs(value) > MAX_WHOLE_NUMBER:
                raise MalformedRecord(f"{what} holds the number {value}, which is beyond 2**53")
        case float():
            if not math.isfinite(value):
                raise MalformedRecord(f"{what} holds {value}, which is not a number")
        case _:
            if depth == 0:
                raise MalformedRecord(f"{what} is nested deeper than {MAX_DEPTH}")
            inner = [*value, *value.values()] if isinstance(value, dict) else value
            for element in inner:
                _check(element, what, depth - 1)


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedRecord(f"{what} holds half of a surrogate pair, which is no text") from None
