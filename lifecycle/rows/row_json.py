"""A row as JSON, and back: pydantic reads both from the types of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

Row = TypeVar("Row")
Json = Mapping[str, Any]


def row_to_json(row: Any) -> Any:
    """Return a row as a JSON object, or several as a list: members of an Enum as their values, rows inside it as objects."""
    return to_jsonable_python(row)


def fields_of(row: Any) -> dict[str, Any]:
    """Return a row's values by column, as they are."""
    return {field.name: getattr(row, field.name) for field in fields(row)}


def read_row(row: type[Row], value: Any) -> Row:
    """Return a row that was read from JSON; unknown fields are ignored: a newer collector says more.

    Raises ValueError, which names the columns, for a missing field and for a wrong value.
    """
    try:
        return adapter_of(row).validate_python(value)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ValueError(": ".join(map(str, (*wrong["loc"], wrong["msg"])))) from None


def adapter_of(kind: type[Row]) -> TypeAdapter[Row]:
    """Return what reads values of a type, made once: that takes milliseconds."""
    # Plainly a class: mypy takes no ``type[Row]`` for hashable.
    plain: type = kind
    return _adapter(plain)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
