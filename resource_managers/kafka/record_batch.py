"""Kafka's record batches (format 2) from Arrow columns, without a Python object per record.

A record is the concatenation of binary values, so Arrow joins the columns of all records at once; the data buffer of the joined
column is the records' part of the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resource_managers.kafka.compression import Codec
from resource_managers.varints import Sizes, joined_varints, sizes, varint_sizes

MOST_OVERHEAD_BYTES = 32
"""No record takes more beside its key, value and headers: six varints of at most 5 bytes, and its attributes."""
HEADER_BYTES = 61
NO_HEADERS = pa.scalar(b"\0", pa.binary())
_EMPTY = pa.scalar(b"", pa.binary())
_TRANSACTIONAL = 0x10
_NO_LEADER_EPOCH, _MAGIC = -1, 2
_LENGTH_OFFSET = 12
"""The batch's length counts from here: behind base offset and itself."""

Octets = Any
"""Bytes, or what shows its bytes: a buffer of Arrow's, an array of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who writes a batch, as it stands in the batch; by its id and epoch, -1 and -1 without one, brokers know repeated ones."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool = True


def encode_records(
    key: pa.Array | None, value: pa.Array, deltas: Sizes, headers: pa.Array | pa.Scalar = NO_HEADERS
) -> pa.BinaryArray:
    """Return one encoded record per row; ``deltas`` are the rows' places in their batches. Columns are binary.

    ``headers``: what ``encode_headers`` made, one per row or one for all.
    """
    value_sizes = sizes(value)
    body = 2 + varint_sizes(deltas) + varint_sizes(value_sizes) + np.maximum(value_sizes, 0)
    body += sizes(headers) if isinstance(headers, pa.Array) else len(headers.as_py())
    zero = np.zeros(1, np.int32)
    # The record's attributes and its timestamp delta are both 0, and so is their varint.
    if key is None:
        body += 1
        start = joined_varints([body, zero, zero, deltas, np.full(1, -1, np.int32), value_sizes])
        parts = [start, value, headers]
    else:
        key_sizes = sizes(key)
        body += varint_sizes(key_sizes) + np.maximum(key_sizes, 0)
        start = joined_varints([body, zero, zero, deltas, key_sizes])
        parts = [start, key, joined_varints([value_sizes]), value, headers]
    return pc.binary_join_element_wise(*parts, _EMPTY, null_handling="replace", null_replacement=b"")


def frame_batch(
    sections: Sequence[Octets], count: int, *, producer: Producer, sequence: int, timestamp_ms: int, codec: Codec
) -> list[Octets]:
    """Return a batch of ``count`` encoded records, in pieces.

    ``sequence`` is the first record's number in its partition, -1 for a producer without an id.
    """
    records: Sequence[Octets] = sections
    if codec.name != "none":
        records = [codec.compress(pa.py_buffer(sections[0] if len(sections) == 1 else b"".join(sections)))]
    checked = struct.pack(
        ">hiqqqhii",
        codec.number | (_TRANSACTIONAL if producer.is_transactional else 0),
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer.producer_id,
        producer.producer_epoch,
        sequence,
        count,
    )
    crc = google_crc32c.value(checked)
    for part in records:
        crc = google_crc32c.extend(crc, part)
    length = HEADER_BYTES - _LENGTH_OFFSET + sum(map(len, records))
    return [struct.pack(">qiibI", 0, length, _NO_LEADER_EPOCH, _MAGIC, crc) + checked, *records]
