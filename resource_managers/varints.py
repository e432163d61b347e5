"""Numbers as zigzag varints, as Kafka's records have them, for whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Sizes = npt.NDArray[np.int32]


def sizes(column: pa.Array) -> Sizes:
    """Return the size of each value in bytes, -1 for null."""
    found: Sizes = pc.binary_length(column).cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return found


def running_total(column: Sizes, more: int = 0) -> npt.NDArray[np.int64]:
    """Return the sum of each size and those before it, with so many ``more`` for each of them."""
    if len(column) and int(column.min()) == int(column.max()):
        # Equal sizes, the most common ones, need no sum.
        return np.arange(1, len(column) + 1, dtype=np.int64) * (int(column[0]) + more)
    found: npt.NDArray[np.int64] = np.cumsum(column + more, dtype=np.int64)
    return found


def _zigzag(numbers: Sizes) -> npt.NDArray[np.uint32]:
    return ((numbers << 1) ^ (numbers >> 31)).view(np.uint32)


def varint_sizes(numbers: Sizes) -> Sizes:
    """Return how many bytes each number's varint has."""
    left = _zigzag(numbers)
    found = np.ones(len(left), np.int32)
    most = int(left.max(initial=0))
    for bits in range(7, 35, 7):
        if most >> bits == 0:
            break
        found += left >= np.uint32(1 << bits)
    return found


def joined_varints(fields: Sequence[Sizes]) -> pa.BinaryArray:
    """Return for each row its varints, one after another; a field of one number is the same in every row."""
    rows = max(len(field) for field in fields)
    columns: list[npt.NDArray[np.uint8]] = []
    needed: list[npt.NDArray[np.bool_] | None] = []
    for field in fields:
        left = _zigzag(field)
        is_needed = None
        while True:
            more = left >> np.uint32(7)
            goes_on = more > 0
            columns.append(((left & np.uint32(0x7F)) | (goes_on.astype(np.uint32) << np.uint32(7))).astype(np.uint8))
            needed.append(is_needed)
            if not goes_on.any():
                break
            left, is_needed = more, None if goes_on.all() else goes_on
    table = np.empty((rows, len(columns)), np.uint8)
    for place, column in enumerate(columns):
        table[:, place] = column
    if all(mask is None for mask in needed):
        data, ends = table.reshape(-1), np.arange(0, (rows + 1) * len(columns), len(columns), dtype=np.int32)
    else:
        used = np.ones(table.shape, np.bool_)
        lengths = np.zeros(rows, np.int32)
        for place, mask in enumerate(needed):
            if mask is not None:
                used[:, place] = mask
            lengths += 1 if mask is None else mask
        data = table[used]
        ends = np.zeros(rows + 1, np.int32)
        np.cumsum(lengths, out=ends[1:])
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data)])
