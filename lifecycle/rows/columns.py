"""What the types of a row's fields say about its columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Json = Mapping[str, Any]


@cache
def columns(row: type) -> dict[str, Any]:
    """Return the columns of a row by name, in their order, each with its type."""
    # Not ``dataclasses.fields``: their types are text. A subclass has the columns of its bases first.
    return get_type_hints(row)


def without_null(column: Any) -> tuple[Any, bool]:
    """Return a column's type without None, and whether it may be None. Raises TypeError for another union."""
    if column is Any:
        return column, True
    if get_origin(column) not in (Union, UnionType):
        return column, False
    kinds = [kind for kind in get_args(column) if kind is not NoneType]
    if len(kinds) != 1:
        raise TypeError(f"{column}: a column is of one type, or of one type and None")
    return kinds[0], True


def is_list(kind: Any) -> bool:
    """Say whether a type is ``tuple[X, ...]``: a list in JSON."""
    return get_origin(kind) is tuple


def is_object(kind: Any) -> bool:
    """Say whether a type is ``Mapping[str, X]``: an object of any names in JSON."""
    return get_origin(kind) is Mapping
