"""Avro: a record that Iceberg writes with its schema before it (AvroEncoderUtil of iceberg-core), and the blocks of a file.

Iceberg gives the fields of a schema numbers that stay when it renames a field: a record is read by these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

_MAGIC = b"\xc2\x01"
_FILE_MAGIC, _CODEC, _SYNC_BYTES = b"Obj\1", b"avro.codec", 16
BLOCK_LIMIT = 2**24
"""Bytes of a file's block at most, decompressed."""
_VARINT_BYTES = 10
_DEPTH = 16
"""How deep values lie in one another at most; a manifest's bounds of partitions lie in 5."""
_SCHEMA_DEPTH = 4 * _DEPTH
_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
AvroRecord = dict[int | str, Any]
"""By the field's number, or its name where it has none. Numbers, texts, bytes, lists and records; None: null."""


def read_avro_record(encoded: BigEndianReader) -> AvroRecord:
    """Return the one record that follows, with nothing behind it. Raises MalformedRecord."""
    # Values may take no bytes: what a schema asks for is bounded by what is there.
    budget = encoded.left
    at = encoded.at
    if encoded.raw(2, "the magic number") != _MAGIC:
        raise encoded.error("this is no record of Iceberg", at)
    at = encoded.at
    try:
        schema = json.loads(encoded.utf("a schema"))
    except (ValueError, RecursionError) as error:
        raise encoded.error(f"a schema is no JSON: {error}", at) from None
    found = _Values(encoded, budget, schema).read(schema)
    encoded.ends("a record of Iceberg")
    if not isinstance(found, dict):
        raise encoded.error("a schema is of no record", at)
    return found


def read_blocks(data: bytes, source: str) -> bytes:
    """Return all blocks of a file, decompressed. Raises UnknownVersion for a codec but zstandard, MalformedRecord."""
    reader = BigEndianReader(data, source)
    if reader.raw(4, "the magic number") != _FILE_MAGIC:
        raise reader.error("this is no file of Avro's", 0)
    codec = b"null"
    while count := _varint(reader, "how many properties follow"):
        if count < 0:
            _varint(reader, "the size of properties")
        for _ in range(abs(count)):
            name, value = _bytes(reader, "a property's name"), _bytes(reader, "a property")
            codec = value if name == _CODEC else codec
    if codec not in (b"null", b"zstandard"):
        raise UnknownVersion(
            f"{source} is compressed by {codec.decode(errors='replace')}, which this program does not read"
        )
    reader.skip(_SYNC_BYTES, "the mark between blocks")
    found = []
    while reader.left:
        _varint(reader, "how many records a block has")
        block = _bytes(reader, "a block")
        found.append(block if codec == b"null" else _decompressed(block, source))
        reader.skip(_SYNC_BYTES, "the mark between blocks")
    return b"".join(found)


class _Values:
    """Reads values one after another as their schemas say."""

    def __init__(self, encoded: BigEndianReader, budget: int, schema: Any) -> None:
        self._encoded, self._left, self._depth = encoded, budget, 0
        self._named: dict[str, Any] = dict(_named_in(schema))
        self._readers: dict[str, Callable[[Any], Any]] = {
            "int": lambda _: self._number("a number"),
            "long": lambda _: self._number("a number"),
            "string": lambda _: encoded.text(self._number("the size of a text")),
            "bytes": lambda _: encoded.raw(self._number("the size of bytes"), "bytes"),
            "fixed": lambda schema: encoded.raw(self._size_of(schema), "bytes"),
            "record": self._record,
            "array": self._array,
        }

    def read(self, schema: Any) -> Any:
        """Return the next value. Raises MalformedRecord."""
        self._left -= 1
        if self._left < 0 or self._depth > _DEPTH:
            raise self._encoded.error("a schema asks for more values than there can be", self._encoded.at)
        self._depth += 1
        try:
            return self._value(schema)
        finally:
            self._depth -= 1

    def _value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            branch = self._number("which type a value has")
            if not 0 <= branch < len(schema):
                raise self._encoded.error(f"a value has type {branch} of {len(schema)}", self._encoded.at)
            return self.read(schema[branch])
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if isinstance(kind, str) and kind in self._readers:
            return self._readers[kind](schema)
        if isinstance(kind, str) and kind in _FIXED:
            # No caller asks for these: they are passed over, but for null.
            return self._encoded.raw(_FIXED[kind], "bytes") if _FIXED[kind] else None
        if isinstance(kind, str) and (named := self._named.get(kind.rpartition(".")[2])) is not None and kind == schema:
            return self.read(named)
        if isinstance(kind, (dict, list)):
            return self.read(kind)
        raise self._encoded.error(f"a schema has the type {str(kind)[:80]}, which is not known", self._encoded.at)

    def _record(self, schema: Any) -> AvroRecord:
        fields = schema.get("fields") if isinstance(schema, dict) else None
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise self._encoded.error("a schema's record has no fields", self._encoded.at)
        return {_key(field): self.read(field.get("type")) for field in fields}

    def _array(self, schema: Any) -> list[Any]:
        items = schema.get("items") if isinstance(schema, dict) else None
        found: list[Any] = []
        while count := self._number("how many values follow"):
            if count < 0:
                count = -count
                self._number("the size of values")
            for _ in range(count):
                found.append(self.read(items))
        return found

    def _number(self, field: str) -> int:
        return _varint(self._encoded, field)

    def _size_of(self, schema: Any) -> int:
        size = schema.get("size") if isinstance(schema, dict) else None
        if not isinstance(size, int):
            raise self._encoded.error("a schema has bytes without a size", self._encoded.at)
        return size


def _varint(encoded: BigEndianReader, field: str) -> int:
    """Return a number as Avro writes it: 7 bits a byte, the lowest first, and the sign in the lowest bit."""
    value, at = 0, encoded.at
    for place in range(_VARINT_BYTES):
        byte = encoded.int8(field)
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if byte >= 0x80 or value >= 2**64:
        raise encoded.error(f"{field} has more than 64 bits", at)
    return (value >> 1) ^ -(value & 1)


def _named_in(schema: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the types that have a name, by its last part: a schema says each in full once, and then by its name."""
    if depth > _SCHEMA_DEPTH:
        return
    if isinstance(schema, dict):
        if schema.get("type") in ("record", "fixed") and isinstance(name := schema.get("name"), str):
            yield name.rpartition(".")[2], schema
        fields = schema.get("fields")
        below = [schema.get("type"), schema.get("items"), *(fields if isinstance(fields, list) else [])]
    else:
        below = schema if isinstance(schema, list) else []
    for each in below:
        if isinstance(each, (dict, list)):
            yield from _named_in(each, depth + 1)


def _key(field: dict[str, Any]) -> int | str:
    number = field.get("field-id")
    return number if isinstance(number, int) else str(field.get("name"))


def _bytes(reader: BigEndianReader, field: str) -> bytes:
    return reader.raw(_varint(reader, f"the size of {field}"), field)


def _decompressed(block: bytes, source: str) -> bytes:
    # Imported here: who reads records needs none of it.
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
            found: bytes = stream.read(BLOCK_LIMIT + 1)
    except (OSError, pa.ArrowException) as error:
        raise MalformedRecord(f"{source}: a block cannot be decompressed: {error}") from None
    if len(found) > BLOCK_LIMIT:
        raise MalformedRecord(f"{source}: a block has more than {BLOCK_LIMIT} bytes")
    return found
