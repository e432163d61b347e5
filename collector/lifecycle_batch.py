"""Decodes many lifecycle events at once with Arrow's JSON reader; what is out of the ordinary is left to ``events.decode``.

Ordinary: told of a transaction of a resource manager with producers, with every field that such events always have. Where a
single event of a batch cannot be read in columns because of its types, the batch is halved until the odd one stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from collector.transaction_state_batch import Flags, Integers
from lifecycle.events import SPEC_VERSION, TYPE_PREFIX, YEAR_10000_MS, EventType
from lifecycle.identity import HANDLE_FIELDS
from lifecycle.json_record import WHOLE_NUMBER_MOST

_ODD_SIGNS = (b"null", b'"settings"')
"""A null is not told apart from a missing field in columns, and settings are checked wherever they stand."""
SMALLEST = 16
"""Fewer events than this are not halved any more but decoded one by one."""
_TEXT, _INT = pa.string(), pa.int64()
_NO_TEXT = pa.array([], _TEXT)
_HANDLE = pa.struct([(name, _TEXT if kind is str else _INT) for name, kind in HANDLE_FIELDS.items()])
_DATA = pa.struct(
    [(name, _TEXT) for name in ("pipeline", "life", "transaction", "reason")]
    + [(name, _INT) for name in ("attempt", "batch", "slot", "producer_id", "producer_epoch")]
    + [("handle", _HANDLE)]
)
COLUMNS = pa.schema(
    [(name, _TEXT) for name in ("specversion", "id", "source", "type", "subject", "time")] + [("data", _DATA)]
)
_PARSE = pa.json.ParseOptions(explicit_schema=COLUMNS, unexpected_field_behavior="ignore")
_COLUMN_TYPES = pa.array([TYPE_PREFIX + type_.value for type_ in EventType if type_.value.startswith("transaction.")])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventColumns:
    """Events, row by row in the order given."""

    raw: pa.Array
    """As they were told, text."""
    type: pa.Array
    """The values of EventType."""
    at_ms: pa.Array
    data: pa.StructArray
    """Their data; a field that an event does not have is null."""

    def __len__(self) -> int:
        return len(self.raw)


def decode(values: Sequence[bytes | None]) -> tuple[EventColumns, Integers]:
    """Return the ordinary events in columns, and the number of each of them among ``values``.

    The others are to be decoded one by one.
    """
    numbers = np.array(
        [n for n, value in enumerate(values) if value and value[:1] == b"{" and value[-1:] == b"}"], np.int64
    )
    chosen = [values[n] for n in numbers.tolist()]
    joined = b"\n".join(chosen)
    if joined.count(b"\n") >= max(1, len(chosen)) or any(sign in joined for sign in _ODD_SIGNS):
        numbers = np.array([n for n in numbers.tolist() if _looks_whole(values[n])], np.int64)
        chosen = [values[n] for n in numbers.tolist()]
    parts = _decode(chosen, numbers)
    if len(parts) == 1:
        return parts[0]
    columns = EventColumns(
        raw=pa.concat_arrays([_NO_TEXT, *(part.raw for part, _ in parts)]),
        type=pa.concat_arrays([_NO_TEXT, *(part.type for part, _ in parts)]),
        at_ms=pa.concat_arrays([pa.array([], _INT), *(part.at_ms for part, _ in parts)]),
        data=pa.concat_arrays([pa.array([], _DATA), *(part.data for part, _ in parts)]),
    )
    return columns, np.concatenate([np.array([], np.int64), *(chosen for _, chosen in parts)])


def _looks_whole(value: bytes) -> bool:
    """Say whether an object stands on one line and has no sign of something odd."""
    return b"\n" not in value and not any(sign in value for sign in _ODD_SIGNS)


def _decode(values: list[bytes], numbers: Integers) -> list[tuple[EventColumns, Integers]]:
    if len(values) < SMALLEST:
        return []
    found = _columns(values)
    if found is None:
        middle = len(values) // 2
        return [*_decode(values[:middle], numbers[:middle]), *_decode(values[middle:], numbers[middle:])]
    columns, ordinary = found
    return [(columns, numbers[ordinary])] if len(columns) else []


def _columns(values: list[bytes]) -> tuple[EventColumns, Flags] | None:
    """Return the ordinary ones among events in columns; None when one of them cannot be read with these types."""
    joined = b"\n".join(values)
    reading = pa.json.ReadOptions(use_threads=False, block_size=max(1 << 20, 2 * max(map(len, values))))
    try:
        table = pa.json.read_json(pa.BufferReader(joined), read_options=reading, parse_options=_PARSE)
        if table.num_rows != len(values):
            return None
        raw = pa.array(values, pa.binary()).cast(_TEXT)
        at_ms = table["time"].combine_chunks().cast(pa.timestamp("ms", "UTC")).cast(_INT)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    events = {name: _one(table[name]) for name in table.column_names}
    data = events["data"]
    moments = at_ms.to_numpy(zero_copy_only=False)
    ordinary = _ordinary(events, data) & (moments >= 0) & (moments < YEAR_10000_MS)
    chosen = pa.array(ordinary)
    type_ = pc.utf8_slice_codeunits(events["type"].filter(chosen), len(TYPE_PREFIX))
    columns = EventColumns(raw=raw.filter(chosen), type=type_, at_ms=at_ms.filter(chosen), data=data.filter(chosen))
    return columns, ordinary


def _ordinary(events: dict[str, Any], data: pa.StructArray) -> Flags:
    """Return which events have every field of their type: a missing one is an error, or means something of its own."""
    fine = _flags(pc.equal(events["specversion"], SPEC_VERSION))
    fine &= _flags(pc.is_in(events["type"], value_set=_COLUMN_TYPES))
    for name in ("id", "source", "time"):
        fine &= _flags(pc.greater(pc.binary_length(events[name]), 0))
    fine &= _flags(pc.is_valid(data))
    for name in ("pipeline", "transaction"):
        fine &= _flags(pc.greater(pc.binary_length(data.field(name)), 0))
    for name in ("life", "batch", "attempt", "slot", "producer_id", "producer_epoch"):
        fine &= _flags(pc.is_valid(data.field(name)))
    handle = data.field("handle")
    for parent in (data, handle):
        for field in parent.type:
            if field.type == _INT:
                number = pc.fill_null(parent.field(field.name), 0).to_numpy(zero_copy_only=False)
                fine &= (number <= WHOLE_NUMBER_MOST) & (number >= -WHOLE_NUMBER_MOST)
    has_handle = _flags(pc.is_valid(handle))
    for name in HANDLE_FIELDS:
        fine &= ~has_handle | _flags(pc.is_valid(handle.field(name)))
    return fine


def _flags(flags: pa.Array) -> Flags:
    found: Flags = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
