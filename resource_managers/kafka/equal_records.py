"""Records of equal sizes, as most topics have them: tables of bytes, a record a row, copied together column by column."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resource_managers.kafka.record_batch import MOST_RECORDS, record_starts

Table = npt.NDArray[np.uint8]
_WIDTHS = (0, 1 << 6, 1 << 13, MOST_RECORDS)
"""Where the varint of a record's place takes a byte more."""


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
