"""Observations as history's rows and Arrow tables, by the columns of observation_tables.py. The way back: row_decoding.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from indoubt.collector.history.observation_tables import (
    LIFECYCLE_EVENTS,
    POSITION,
    QUARANTINED,
    TABLE_OF,
    TABLES,
    TRANSACTION_RECORDS,
    ObservationTable,
)
from indoubt.collector.records.broker_record_batch import BrokerRecords
from indoubt.collector.records.formats.arrow_columns import Integers
from indoubt.collector.records.formats.lifecycle_event_batch import EventColumns
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observed, OperatorOrder
from indoubt.collector.runtime.clock import now_ms

SHOWN_CHARACTERS = 200
_NO_COLUMN_TAKES_IT = (pa.ArrowException, ValueError, OverflowError, TypeError)
"""A number too large for its column, half of a surrogate pair in a text: UnicodeEncodeError is a ValueError."""
_STATUS_NAMES = pa.array([status.name for status in BrokerStatus])


def row(observed: Observed) -> tuple[str, tuple[Any, ...]]:
    """Return the table and the row of an observation, columns in the table's order."""
    if isinstance(observed.observation, OperatorOrder):
        raise TypeError("an operator's order stands in the audit table, which is written by itself")
    table = TABLE_OF[type(observed.observation)]
    return table.name, table.row(observed)


def records_table(records: BrokerRecords) -> pa.Table:
    """Return states of the coordinator's log as an Arrow table of transaction_records."""
    states = records.states
    sets = pa.array([list(partitions) for partitions in states.partition_sets], pa.list_(pa.string()))
    made = {
        "transaction": states.transaction,
        "status.name": _STATUS_NAMES.take(pa.array(states.status)),
        "start_ms": pa.array(states.start_ms, mask=states.start_ms < 0),
        "partitions": sets.take(pa.array(states.partition_set)),
    }
    numbers = {c.field: getattr(states, c.field) for c in TRANSACTION_RECORDS.columns if c.field not in made}
    return _in_columns(TRANSACTION_RECORDS, records.source, records.partition, records.offset, {**made, **numbers})


def events_table(source: str, partition: Integers, offset: Integers, events: EventColumns) -> pa.Table:
    """Return lifecycle events in columns, and their positions, as an Arrow table of lifecycle_events."""
    pipeline = events.data.field("pipeline")
    found = {"event.type.value": events.type, "event.at_ms": events.at_ms, "event.data": pipeline, "raw": events.raw}
    return _in_columns(LIFECYCLE_EVENTS, source, partition, offset, found)


def _in_columns(
    table: ObservationTable, source: str, partition: Integers, offset: Integers, values: Mapping[str, Any]
) -> pa.Table:
    """Return rows of a table; ``values``: the columns by their fields."""
    named = pa.DictionaryArray.from_arrays(np.zeros(len(offset), np.int8), [source]).cast(pa.string())
    found = [partition, offset, *(values[column.field] for column in table.columns)]
    kinds = table.schema.types[1:]
    cast = [
        each if isinstance(each, pa.Array) else pa.array(each).cast(kind)
        for each, kind in zip(found, kinds, strict=True)
    ]
    return pa.table([named, *cast], schema=table.schema)


def tables_of(observed: Iterable[Observed]) -> dict[str, pa.Table]:
    """Return observations as Arrow tables by the name of their history table; one that no column takes is quarantined."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for observation in observed:
        name, values = row(observation)
        rows.setdefault(name, []).append(values)
    found: dict[str, pa.Table] = {}
    for name, several in list(rows.items()):
        try:
            found[name] = arrow_table(name, several)
        except _NO_COLUMN_TAKES_IT:
            fits, aside = _sorted_out(name, several)
            rows.setdefault(QUARANTINED.name, []).extend(aside)
            if fits:
                found[name] = arrow_table(name, fits)
    if QUARANTINED.name in rows:
        found[QUARANTINED.name] = arrow_table(QUARANTINED.name, rows[QUARANTINED.name])
    return found


def _sorted_out(name: str, rows: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows that the named table takes, and rows of quarantined that stand for the others."""
    fits, aside = [], []
    for values in rows:
        try:
            arrow_table(name, [values])
            fits.append(values)
        except _NO_COLUMN_TAKES_IT as error:
            shown = repr(values[len(POSITION) :])[:SHOWN_CHARACTERS].encode("ascii", "backslashreplace").decode()
            aside.append(
                (
                    *values[: len(POSITION)],
                    now_ms(),
                    f"{name} has no place for it: {error!r}"[:SHOWN_CHARACTERS],
                    shown,
                )
            )
    return fits, aside


def arrow_table(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows as an Arrow table of the named history table."""
    schema = TABLES[name].schema
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
