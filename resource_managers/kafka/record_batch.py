"""Kafka's record batches (format 2) from Arrow columns, without a Python object per record.

A record is the concatenation of binary values, so Arrow joins the columns of all records at once; the data buffer of the joined
column is the records' part of the batch. Records of equal sizes, as most topics have them, are tables of bytes, a record a row,
copied together column by column.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indoubt.resource_managers.kafka.compression import Codec
from indoubt.resource_managers.record_parts import Sizes, joined_varints, sizes, varint_sizes

MOST_OVERHEAD_BYTES = 32
"""No record takes more beside its key, value and headers: six varints of at most 5 bytes, and its attributes."""
HEADER_BYTES = 61
MOST_RECORDS = 1 << 14
"""No batch has more: what precedes a record is kept for so many places."""
NO_HEADERS = pa.scalar(b"\0", pa.binary())
_EMPTY = pa.scalar(b"", pa.binary())
_TRANSACTIONAL = 0x10
_NO_LEADER_EPOCH, _MAGIC = -1, 2
_LENGTH_OFFSET = 12
"""The batch's length counts from here: behind base offset and itself."""

Octets = Any
"""Bytes, or what shows its bytes: a buffer of Arrow's, an array of them."""
Table = npt.NDArray[np.uint8]
_WIDTHS = (0, 1 << 6, 1 << 13, MOST_RECORDS)
"""Where the varint of a record's place takes a byte more."""


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
    own_sizes = [value_sizes] if key is None else [sizes(key), value_sizes]
    if headers is NO_HEADERS and (cached := _cached_starts(own_sizes, deltas)) is not None:
        parts = [cached[0], value, headers] if key is None else [cached[0], key, cached[1], value, headers]
        return pc.binary_join_element_wise(*parts, _EMPTY)
    body = 2 + varint_sizes(deltas) + varint_sizes(value_sizes) + np.maximum(value_sizes, 0)
    body += sizes(headers) if isinstance(headers, pa.Array) else len(headers.as_py())
    zero = np.zeros(1, np.int32)
    # The record's attributes and its timestamp delta are both 0, and so is their varint.
    if key is None:
        body += 1
        start = joined_varints([body, zero, zero, deltas, np.full(1, -1, np.int32), value_sizes])
        parts = [start, value, headers]
    else:
        key_sizes = own_sizes[0]
        body += varint_sizes(key_sizes) + np.maximum(key_sizes, 0)
        start = joined_varints([body, zero, zero, deltas, key_sizes])
        parts = [start, key, joined_varints([value_sizes]), value, headers]
    return pc.binary_join_element_wise(*parts, _EMPTY, null_handling="replace", null_replacement=b"")


def _cached_starts(columns: Sequence[Sizes], deltas: Sizes) -> tuple[pa.Array, pa.Scalar] | None:
    """Return what precedes key and value where all rows have the same sizes, as in most topics; None where they have not."""
    if any(len(column) == 0 or column[0] < 0 or (column != column[0]).any() for column in columns):
        return None
    starts, before_value = record_starts(*(int(column[0]) for column in columns))
    return starts.take(pa.array(deltas)), before_value


@functools.lru_cache(maxsize=64)
def record_starts(*lengths: int) -> tuple[pa.Array, pa.Scalar]:
    """Return what precedes key or value for each delta, and what is between both; ``lengths``: of key, if any, and value."""
    deltas = np.arange(MOST_RECORDS, dtype=np.int32)
    zero = np.zeros(1, np.int32)
    key_size, value_size = (zero + length for length in ((-1, *lengths) if len(lengths) == 1 else lengths))
    body = 3 + varint_sizes(deltas) + varint_sizes(key_size) + varint_sizes(value_size) + sum(lengths)
    start = [body, zero, zero, deltas, key_size]
    if len(lengths) == 1:
        return joined_varints([*start, value_size]), _EMPTY
    return joined_varints(start), joined_varints([value_size])[0]


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


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Keys, if there are any, and values: tables of a row each."""

    key: Table | None
    value: Table

    @classmethod
    def of(cls, key: pa.Array | None, value: pa.Array) -> Self | None:
        """Return binary columns as tables; None where a null is among them or sizes differ."""
        key_table = None if key is None else _table(key)
        value_table = _table(value)
        if value_table is None or (key is not None and key_table is None):
            return None
        return cls(key_table, value_table)

    def take(self, places: npt.NDArray[np.integer[Any]]) -> EqualRows:
        """Return these rows, in this order."""
        return EqualRows(None if self.key is None else self.key.take(places, axis=0), self.value.take(places, axis=0))

    def encode(self, start: int, end: int, place: int) -> Table:
        """Return the records of these rows; the first has this ``place`` in its batch."""
        columns = [self.value] if self.key is None else [self.key, self.value]
        starts, between = _tables(*(column.shape[1] for column in columns))
        parts = []
        for (low, high), table in zip(itertools.pairwise(_WIDTHS), starts, strict=True):
            first, last = max(low, place), min(high, place + end - start)
            if first < last:
                rows = slice(start + first - place, start + last - place)
                parts.append((table[first - low : last - low], rows))
        columns.insert(-1, between)
        behind = sum(column.shape[-1] for column in columns) + 1
        sizes = [len(table) * (table.itemsize + behind) for table, _ in parts]
        made: Table = np.empty(sum(sizes), np.uint8)
        at = 0
        for (table, rows), size in zip(parts, sizes, strict=True):
            records = made[at : at + size].reshape(len(table), table.itemsize + behind)
            _fill(records, table, [column if column.ndim == 1 else column[rows] for column in columns])
            at += size
        return made


def _fill(records: Table, start: npt.NDArray[np.void], columns: list[Table]) -> None:
    # As one value each, short starts are copied twice as fast as byte by byte.
    np.ndarray((len(records),), start.dtype, records.data, strides=(records.shape[1],))[:] = start
    at = start.itemsize
    for column in columns:
        if width := column.shape[-1]:
            records[:, at : at + width] = column
            at += width
    # No headers.
    records[:, at] = 0


def _table(column: pa.Array) -> Table | None:
    if column.null_count or len(column) == 0:
        return None
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    first, size = int(ends[0]), int(ends[1] - ends[0])
    if int(ends[-1]) - first != size * len(column) or (ends[1:] - ends[:-1] != size).any():
        return None
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return octets[first : first + size * len(column)].reshape(len(column), size)


@functools.lru_cache(maxsize=64)
def _tables(*lengths: int) -> tuple[list[npt.NDArray[np.void]], Table]:
    """Return what precedes key or value for each place in a batch, a table for each of _WIDTHS, and what is between both."""
    starts, between = record_starts(*lengths)
    _, offsets, data = starts.buffers()
    octets, ends = np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int32)
    tables = []
    for low, high in itertools.pairwise(_WIDTHS):
        table = octets[ends[low] : ends[high]]
        tables.append(table.view(f"V{len(table) // (high - low)}"))
    return tables, np.frombuffer(between.as_py(), np.uint8)
