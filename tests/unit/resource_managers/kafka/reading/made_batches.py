"""Answers of a broker as tests make them: record batches one behind the other, and what is read of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np
import pyarrow as pa

from indoubt.resource_managers.kafka.compression import CODECS
from indoubt.resource_managers.kafka.reading.fetched_batches import batches_of, committed
from indoubt.resource_managers.kafka.reading.record_columns import columns_of
from indoubt.resource_managers.kafka.record_batch import HEADER_BYTES, NO_HEADERS, Producer, encode_records, frame_batch

Row = tuple[bytes | None, bytes | None]

TRANSACTIONAL, CONTROL = 0x10, 0x20
BEYOND = 2**62
"""Behind all offsets."""
_CHECKSUM_AT, _CHECKED_FROM = 17, 21


def batch(
    rows: Sequence[Row], base: int = 0, codec: str = "none", headers: pa.Array | pa.Scalar = NO_HEADERS, **more: int
) -> bytes:
    """Return a batch of rows as our own producer makes it, at an offset; ``more``: as ``framed``."""
    keys, values = zip(*rows, strict=True)
    deltas = np.arange(len(rows), dtype=np.int32)
    encoded = encode_records(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), deltas, headers)
    return framed(
        encoded.buffers()[2].to_pybytes()[: pa.compute.sum(pa.compute.binary_length(encoded)).as_py()],
        len(rows),
        base,
        codec,
        **more,
    )


def framed(
    records: bytes,
    count: int,
    base: int = 0,
    codec: str = "none",
    *,
    producer_id: int = 1,
    attributes: int = TRANSACTIONAL,
    last: int | None = None,
    compressed: bytes | None = None,
) -> bytes:
    """Return a batch with these bytes as its records, and a checksum that is right.

    ``last``: offset of its last record, where that is not known from their number. ``compressed``: what stands there instead
    of the records, as another client compressed them.
    """
    producer = Producer(producer_id=producer_id, producer_epoch=0)
    made = bytearray().join(
        frame_batch(
            [records], count, producer=producer, sequence=0, timestamp_ms=1_700_000_000_000, codec=CODECS[codec]
        )
    )
    if compressed is not None:
        made[HEADER_BYTES:] = compressed
        struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(
        ">hi", made, _CHECKED_FROM, attributes | CODECS[codec].number, last - base if last is not None else count - 1
    )
    struct.pack_into(">I", made, _CHECKSUM_AT, google_crc32c.value(bytes(made[_CHECKED_FROM:])))
    return bytes(made)


def marker(base: int, producer_id: int, *, commit: bool) -> bytes:
    """Return the control batch that ends a transaction."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 7)
    own = record(key, value)
    return framed(own, 1, base, producer_id=producer_id, attributes=TRANSACTIONAL | CONTROL)


def record(key: bytes | None, value: bytes | None, delta: int = 0, time_ms: int = 0, size: int | None = None) -> bytes:
    """Return one record as Kafka's documentation has it; ``size``: what it says of its value's, if not the truth."""
    said = size if size is not None else len(value) if value is not None else -1
    body = b"\0" + varint(time_ms) + varint(delta)
    body += varint(-1 if key is None else len(key)) + (key or b"") + varint(said) + (value or b"") + varint(0)
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Return a signed number in 7 bits a byte."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    made = bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def read(answer: bytes, start: int = 0, end: int = BEYOND, aborted: Sequence[tuple[int, int]] = ()) -> list[Row]:
    """Return the rows that a read_committed reader of these offsets gets of an answer."""
    view = memoryview(answer)
    found: list[Row] = []
    for columns in columns_of(committed(view, batches_of(view), aborted), start, end):
        columns.validate(full=True)
        assert columns.schema.names == ["key", "value"]
        found += zip(columns["key"].to_pylist(), columns["value"].to_pylist(), strict=True)
    return found
