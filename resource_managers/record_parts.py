"""Parts of Kafka's records for whole columns: numbers as zigzag varints, and headers.

A column of headers is a list of key and value for each row, as Spark's Kafka source has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indoubt.lifecycle.errors import SettingsError

_BYTES = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
Sizes = npt.NDArray[np.int32]


def are_headers(kind: pa.DataType) -> bool:
    """Say whether a column of this type can be headers: lists of structs of ``key`` and ``value``, string or binary."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {
        kind.value_type.field(place).name: kind.value_type.field(place).type
        for place in range(kind.value_type.num_fields)
    }
    return fields.keys() == {"key", "value"} and all(any(is_(type_) for is_ in _BYTES) for type_ in fields.values())


def encode_headers(column: pa.Array) -> pa.BinaryArray:
    """Return for each row the number of its headers and these; null has none. Raises SettingsError for one without a key."""
    column = column.cast(_TYPE)
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    headers = column.flatten()
    key, value = headers.field("key"), headers.field("value")
    if key.null_count or headers.null_count:
        raise SettingsError("column 'headers' has a header without a key: Kafka takes none")
    parts = (joined_varints([sizes(key)]), key, joined_varints([sizes(value)]), value, b"")
    each = pc.binary_join_element_wise(*parts, null_handling="replace", null_replacement=b"")
    _, places, data = each.buffers()
    # The headers of a row are neighbours: together they are one value that spans theirs.
    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    of_rows = np.frombuffer(places, np.int32)[ends] if len(each) else np.zeros(len(ends), np.int32)
    whole = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(of_rows), data or pa.py_buffer(b"")])
    return pc.binary_join_element_wise(joined_varints([counts.astype(np.int32)]), whole, b"")


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
