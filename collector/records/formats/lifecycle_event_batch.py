"""Decodes many lifecycle events at once with Arrow's JSON reader; what is out of the ordinary is left to ``events.decode``.

Ordinary: about a checkpoint, or of a transaction of a resource manager with producers, with every field that such events always
have. Where a single event of a batch cannot be read in columns because of its types, the batch is halved until the odd one stands
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from indoubt.collector.records.formats.arrow_columns import Flags, Integers, filled
from indoubt.lifecycle.events import SPEC_VERSION, TYPE_PREFIX, YEAR_10000_MS, EventType
from indoubt.lifecycle.identity import HANDLE_FIELDS
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER

_OPENING, _CLOSING = b"{}"
SMALLEST = 16
"""Fewer events than this are not halved any more but decoded one by one."""
_TEXT, _INT = pa.string(), pa.int64()
_NO_TEXT = pa.array([], _TEXT)
_HANDLE = pa.struct([(name, _TEXT if kind is str else _INT) for name, kind in HANDLE_FIELDS.items()])
_DATA = pa.struct(
    [(name, _TEXT) for name in ("pipeline", "checkpoint_id", "transaction", "reason")]
    + [(name, _INT) for name in ("attempt", "batch", "slot", "producer_id", "producer_epoch", "rows", "duration_ms")]
    + [("handle", _HANDLE)]
)
COLUMNS = pa.schema(
    [(name, _TEXT) for name in ("specversion", "id", "source", "type", "subject", "time")] + [("data", _DATA)]
)
_PARSE = pa.json.ParseOptions(explicit_schema=COLUMNS, unexpected_field_behavior="ignore")
TYPES = tuple(type_ for type_ in EventType if not type_.value.startswith("pipeline."))
"""The types of events that are read in columns: first those of transactions, then those of checkpoints."""
TRANSACTION_TYPES = sum(type_.value.startswith("transaction.") for type_ in TYPES)
_TYPES = pa.array([TYPE_PREFIX + type_.value for type_ in TYPES])
_TYPE_VALUES = pa.array([type_.value for type_ in TYPES])
_UNKNOWN = -1
_TOGETHER = 256 << 20
"""More bytes than this are not read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventColumns:
    """Events, row by row in the order given."""

    raw: pa.Array
    """As they were reported, text."""
    type_code: Integers
    """Places in TYPES."""
    at_ms: pa.Array
    data: pa.StructArray
    """Their data; a field that an event does not have is null."""

    @property
    def type(self) -> pa.Array:
        """Return the values of EventType."""
        return _TYPE_VALUES.take(pa.array(self.type_code))

    def __len__(self) -> int:
        return len(self.raw)


def decode(values: Sequence[bytes | None]) -> tuple[EventColumns, Integers]:
    """Return the ordinary events in columns, and the number of each of them among ``values``.

    The others are to be decoded one by one.
    """
    if values and _all_there(values) and (joined := _joined(values)) is not None:
        parts = _decode(values, joined, np.arange(len(values)))
    else:
        numbered = [(n, value) for n, value in enumerate(values) if value is not None and _looks_like_an_object(value)]
        chosen = [value for _, value in numbered]
        parts = _decode(chosen, b"\n".join(chosen), np.array([n for n, _ in numbered], np.int64))
    if len(parts) == 1:
        return parts[0]
    columns = EventColumns(
        raw=pa.concat_arrays([_NO_TEXT, *(part.raw for part, _ in parts)]),
        type_code=np.concatenate([np.array([], np.int64), *(part.type_code for part, _ in parts)]),
        at_ms=pa.concat_arrays([pa.array([], _INT), *(part.at_ms for part, _ in parts)]),
        data=pa.concat_arrays([pa.array([], _DATA), *(part.data for part, _ in parts)]),
    )
    return columns, np.concatenate([np.array([], np.int64), *(chosen for _, chosen in parts)])


def _all_there(values: Sequence[bytes | None]) -> TypeGuard[Sequence[bytes]]:
    return None not in values


def _joined(values: Sequence[bytes]) -> bytes | None:
    """Return all values, one behind the other, when each of them looks like an object.

    Then each is one indeed where the reader finds as many objects: no text goes on behind the end of a line, and behind a closing
    brace nothing goes on with an opening one.
    """
    joined = b"\n".join(values)
    octets, lengths = np.frombuffer(joined, np.uint8), np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(lengths + 1) - 1
    is_object = lengths.all() and (octets[ends - lengths] == _OPENING).all() and (octets[ends - 1] == _CLOSING).all()
    return joined if is_object else None


def _looks_like_an_object(value: bytes) -> bool:
    return value[:1] == b"{" and value[-1:] == b"}"


def _decode(values: Sequence[bytes], joined: bytes, numbers: Integers) -> list[tuple[EventColumns, Integers]]:
    if len(values) < SMALLEST:
        return []
    found = _columns(values, joined)
    if found is None:
        middle = len(values) // 2
        halves = ((values[:middle], numbers[:middle]), (values[middle:], numbers[middle:]))
        return [part for half, places in halves for part in _decode(half, b"\n".join(half), places)]
    columns, ordinary = found
    return [(columns, numbers[ordinary])] if len(columns) else []


def _columns(values: Sequence[bytes], joined: bytes) -> tuple[EventColumns, Flags] | None:
    """Return the ordinary ones among events in columns; None when that cannot be done for all at once."""
    if len(joined) > _TOGETHER and len(values) > 1:
        return None
    # One block: between blocks the reader would look for the ends of lines, and its columns would have to be put together.
    reading = pa.json.ReadOptions(use_threads=False, block_size=len(joined) + 1)
    try:
        table = pa.json.read_json(pa.BufferReader(joined), read_options=reading, parse_options=_PARSE)
        if table.num_rows != len(values):
            return None
        raw = pa.array(values, pa.binary()).cast(_TEXT)
        events = {name: _one(table[name]) for name in table.column_names}
        at_ms = events["time"].cast(pa.timestamp("ms", "UTC")).cast(_INT)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    type_code = filled(pc.index_in(events["type"], value_set=_TYPES), _UNKNOWN).astype(np.int64)
    moments = filled(at_ms, -1)
    ordinary = _ordinary(events, type_code) & (moments >= 0) & (moments < YEAR_10000_MS)
    data = events["data"]
    if not ordinary.all():
        chosen = pa.array(ordinary)
        raw, type_code, at_ms, data = (
            raw.filter(chosen),
            type_code[ordinary],
            at_ms.filter(chosen),
            data.filter(chosen),
        )
    return EventColumns(raw=raw, type_code=type_code, at_ms=at_ms, data=data), ordinary


def _ordinary(events: dict[str, Any], type_code: Integers) -> Flags:
    """Return which events have every field of their type: a missing one is an error, or means something of its own."""
    data, handle = events["data"], events["data"].field("handle")
    of_transaction = type_code < TRANSACTION_TYPES
    fine: Flags = (type_code != _UNKNOWN) & _flags(pc.equal(events["specversion"], SPEC_VERSION)) & _present(data)
    for name in ("id", "source", "time"):
        fine &= _has_text(events[name])
    fine &= _has_text(data.field("pipeline")) & _present(data.field("batch"))
    fine &= ~of_transaction | _has_text(data.field("transaction"))
    for name in ("checkpoint_id", "attempt", "slot", "producer_id", "producer_epoch"):
        fine &= ~of_transaction | _present(data.field(name))
    for parent in (data, handle):
        for field in parent.type:
            if field.type == _INT:
                fine &= _is_taken(parent.field(field.name))
    has_handle = _present(handle)
    if has_handle.any():
        for name in HANDLE_FIELDS:
            fine &= ~has_handle | _present(handle.field(name))
        for name in ("transaction", "producer_id", "producer_epoch"):
            # An event whose handle is another transaction's tells of that one.
            fine &= ~has_handle | _flags(pc.equal(handle.field(name), data.field(name)))
    return fine


def _present(column: pa.Array) -> Flags:
    if column.null_count == 0:
        return np.ones(len(column), bool)
    found: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _has_text(column: pa.Array) -> Flags:
    return _flags(pc.greater(pc.binary_length(column), 0))


def _is_taken(numbers: pa.Array) -> Flags:
    """Return which numbers every JSON reader takes the same way; a missing one is no number."""
    bounds = pc.min_max(numbers).as_py()
    if (bounds["min"] or 0) >= -MAX_WHOLE_NUMBER and (bounds["max"] or 0) <= MAX_WHOLE_NUMBER:
        return np.ones(len(numbers), bool)
    found = filled(numbers, 0)
    fine: Flags = (found <= MAX_WHOLE_NUMBER) & (found >= -MAX_WHOLE_NUMBER)
    return fine


def _flags(flags: pa.Array) -> Flags:
    found: Flags = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
