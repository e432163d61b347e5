"""JSON objects that others wrote: read whole, or refused before anything is made of them.

What passes can be kept, shown and sent on: UTF-8 text, whole numbers that every JSON reader takes the same way (RFC 7493), finite
numbers, and no deeper nesting than any record of ours has.
"""

from __future__ import annotations

import json
import math
from typing import Any

from indoubt.lifecycle.errors import MalformedRecord

MAX_DEPTH = 32
MAX_WHOLE_NUMBER = 2**53


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
