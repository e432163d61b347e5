"""The blocks of a file of Avro (object container files of its specification): its records as bytes, without their schema."""

from __future__ import annotations

import pyarrow as pa

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.iceberg_avro import avro_number
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

_MAGIC, _CODEC, _SYNC_BYTES = b"Obj\1", b"avro.codec", 16
BLOCK_LIMIT = 2**24
"""Bytes of a block at most, decompressed."""


def read_blocks(data: bytes, source: str) -> bytes:
    """Return all blocks of a file, decompressed. Raises UnknownVersion for a codec but zstandard, MalformedRecord."""
    reader = BigEndianReader(data, source)
    if reader.data[reader.skip(4, "the magic number") : reader.at] != _MAGIC:
        raise reader.error("this is no file of Avro's", 0)
    codec = b"null"
    while count := avro_number(reader, "how many properties follow"):
        if count < 0:
            avro_number(reader, "the size of properties")
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
        avro_number(reader, "how many records a block has")
        block = _bytes(reader, "a block")
        found.append(block if codec == b"null" else _decompressed(block, source))
        reader.skip(_SYNC_BYTES, "the mark between blocks")
    return b"".join(found)


def _bytes(reader: BigEndianReader, field: str) -> bytes:
    at = reader.skip(avro_number(reader, f"the size of {field}"), field)
    return reader.data[at : reader.at]


def _decompressed(block: bytes, source: str) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
            found: bytes = stream.read(BLOCK_LIMIT + 1)
    except (OSError, pa.ArrowException) as error:
        raise MalformedRecord(f"{source}: a block cannot be decompressed: {error}") from None
    if len(found) > BLOCK_LIMIT:
        raise MalformedRecord(f"{source}: a block has more than {BLOCK_LIMIT} bytes")
    return found
