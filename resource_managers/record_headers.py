"""A column of headers (a list of key and value for each row, as Spark's Kafka source has it) as Kafka's records have them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lifecycle.errors import SettingsError
from resource_managers.varints import joined_varints, sizes

_BYTES = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_EMPTY = pa.scalar(b"", pa.binary())


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
    parts = (joined_varints([sizes(key)]), key, joined_varints([sizes(value)]), value, _EMPTY)
    each = pc.binary_join_element_wise(*parts, null_handling="replace", null_replacement=b"")
    _, places, data = each.buffers()
    # The headers of a row are neighbours: together they are one value that spans theirs.
    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    of_rows = np.frombuffer(places, np.int32)[ends] if len(each) else np.zeros(len(ends), np.int32)
    whole = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(of_rows), data or pa.py_buffer(b"")])
    return pc.binary_join_element_wise(joined_varints([counts.astype(np.int32)]), whole, _EMPTY)
