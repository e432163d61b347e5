"""A row as JSON, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args

from lifecycle.rows.columns import Json, columns, is_list, is_object, without_null

Row = TypeVar("Row")
Convert = Callable[[Any], Any]


def row_to_json(row: Any) -> dict[str, Any]:
    """Return a row as a JSON object: members of an Enum as their values, tuples as lists, rows inside it as objects."""
    values = fields_of(row)
    for name, write in _writers(row.__class__):
        if values[name] is not None:
            values[name] = write(values[name])
    return values


def fields_of(row: Any) -> dict[str, Any]:
    """Return a row's values by column, as they are."""
    names, values = _getter(row.__class__)
    return dict(zip(names, values(row), strict=True))


@cache
def _getter(row: type) -> tuple[tuple[str, ...], Convert]:
    names = tuple(columns(row))
    # Of a single name ``attrgetter`` returns no tuple.
    return names, attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)


@cache
def _writers(row: type) -> tuple[tuple[str, Convert], ...]:
    """Return what writes the columns that JSON has in another form."""
    return tuple((name, write) for name in columns(row) if (write := writer_of(columns(row)[name])) is not None)


def writer_of(column: Any) -> Convert | None:
    """Return what turns a column's value, not None, into JSON; None where it is JSON as it is."""
    kind, _ = without_null(column)
    if kind is Any or kind in _SCALARS:
        return None
    if is_list(kind):
        write_item = writer_of(get_args(kind)[0])
        return list if write_item is None else lambda value: [write_item(item) for item in value]
    if is_object(kind):
        return dict
    return attrgetter("value") if issubclass(kind, Enum) else row_to_json


def read_row(row: type[Row], value: Json) -> Row:
    """Return a row that was read from JSON.

    A field that may be None may be absent too: an older collector says less. Unknown fields are ignored: a newer one says more.
    Raises KeyError for another absent field, TypeError or ValueError, which name the column, for a wrong value.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no object")
    # Plainly a class: mypy takes no ``type[Row]`` for hashable.
    kind: type = row
    found = {}
    for name, accepted, read in _readers(kind):
        item = value.get(name) if NoneType in accepted else value[name]
        try:
            found[name] = item if type(item) in accepted else read(item)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
    return row(**found)


@cache
def _readers(row: type) -> tuple[tuple[str, frozenset[type], Convert], ...]:
    return tuple((name, *_reader(column)) for name, column in columns(row).items())


_SCALARS: dict[Any, frozenset[type]] = {
    str: frozenset({str}),
    int: frozenset({int}),
    float: frozenset({float, int}),
    bool: frozenset({bool}),
}


def _reader(column: Any) -> tuple[frozenset[type], Convert]:
    """Return the types that a column takes as they are, and what reads, or refuses, a value of another type."""
    kind, is_nullable = without_null(column)
    null = frozenset({NoneType}) if is_nullable else frozenset()
    if kind is Any:
        return null, lambda value: value
    if kind in _SCALARS:
        return _SCALARS[kind] | null, lambda value: _refuse(value, kind)
    if is_list(kind):
        read_item = _item_reader(get_args(kind)[0])
        return null, lambda value: tuple([read_item(item) for item in _checked(value, list)])
    if is_object(kind):
        read_item = _item_reader(get_args(kind)[1])
        return null, lambda value: {name: read_item(item) for name, item in _checked(value, dict).items()}
    return null, kind if issubclass(kind, Enum) else lambda value: read_row(kind, value)


def _item_reader(column: Any) -> Convert:
    accepted, read = _reader(column)
    return lambda value: value if type(value) in accepted else read(value)


def _checked(value: Any, kind: type) -> Any:
    return value if type(value) is kind else _refuse(value, kind)


def _refuse(value: Any, kind: type) -> Any:
    raise TypeError(f"{value!r} is no {kind.__name__}")
