"""Records of Avro as Iceberg writes them, and Java's strings."""

from __future__ import annotations

import json
import struct
from typing import Any


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def record(schema: Any, values: bytes) -> bytes:
    return b"\xc2\x01" + utf(schema if isinstance(schema, str) else json.dumps(schema)) + values


def fields(*of: tuple[int, Any]) -> dict[str, Any]:
    """Return the schema of a record by the numbers and types of its fields."""
    named = [{"name": f"field {number}", "type": type_, "field-id": number} for number, type_ in of]
    return {"type": "record", "name": "manifest", "fields": named}
