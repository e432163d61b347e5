"""Observations made again of what history's queries return, and as history's rows and Arrow tables (observation_tables.py)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from indoubt.collector.history import transaction_sql
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
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction, Init
from indoubt.collector.records.formats import lifecycle_event_batch
from indoubt.collector.records.formats.arrow_columns import Integers
from indoubt.collector.records.formats.lifecycle_event_batch import EventColumns
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import DecisionSeen, EventSeen, Observed, OperatorOrder
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle import decisions
from indoubt.lifecycle import events as lifecycle_json
from indoubt.lifecycle.decisions import Part, Snapshot
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.orders import Action

Rows = Callable[..., list[tuple[Any, ...]]]
"""``Store.rows``."""
log = logging.getLogger(__name__)
SHOWN_CHARACTERS = 200
_NO_COLUMN_TAKES_IT = (pa.ArrowException, ValueError, OverflowError, TypeError)
"""A number too large for its column, half of a surrogate pair in a text: UnicodeEncodeError is a ValueError."""
_STATUS_NAMES = pa.array([status.name for status in BrokerStatus])


def transactions(rows: Iterable[Sequence[Any]]) -> Iterator[BrokerTransaction]:
    """Yield the transactions of rows of TRANSACTIONS_OF_CURRENT_STATE."""
    for id_, producer_id, start_ms, partitions, source, *rest in rows:
        identity = BrokerIdentity(id_, producer_id, start_ms)
        yield BrokerTransaction(identity, frozenset(partitions or ()), source, *rest)


def transactions_of(rows: Rows, identities: Sequence[BrokerIdentity]) -> list[BrokerTransaction]:
    """Return those of these transactions that history has, in no order. Raises StoreFailed."""
    if not identities:
        return []
    ids, producer_ids, starts = (list(column) for column in zip(*identities, strict=True))
    values = (ids, producer_ids, starts, min(starts), max(starts))
    return list(transactions(rows(transaction_sql.TRANSACTIONS_OF_IDENTITIES, *values, since_ms=min(starts))))


def identities_of(rows: Rows, handles: Iterable[tuple[str, int | None, int | None]]) -> list[BrokerIdentity]:
    """Return what history has under these handles in Kafka (id, producer id, epoch), in no order. Raises StoreFailed."""
    columns = [list(column) for column in zip(*handles, strict=True)]
    return [BrokerIdentity(*row) for row in rows(transaction_sql.IDENTITIES_OF_HANDLES, *columns)] if columns else []


def inits(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Init]]:
    """Yield (transactional id, init) of (id, update time, producer id, epoch) rows."""
    for id_, at_ms, producer_id, epoch in rows:
        yield id_, Init(at_ms=at_ms, producer_id=producer_id, producer_epoch=epoch)


def events_in_columns(values: Sequence[bytes]) -> tuple[EventColumns, Iterator[EventSeen]]:
    """Return lifecycle events as they were reported: the ordinary ones in columns, and the observations of the others."""
    columns, numbers = lifecycle_event_batch.decode(values)
    odd = sorted(set(range(len(values))) - set(numbers.tolist()))
    return columns, lifecycle_events((0, number, values[number].decode()) for number in odd)


def lifecycle_events(rows: Iterable[Sequence[Any]]) -> Iterator[EventSeen]:
    """Yield the observations of (partition, offset, event) rows.

    Those are left out that were taken among many, in columns, and are refused alone.
    """
    for partition, offset, text in rows:
        try:
            yield EventSeen(event=lifecycle_json.decode(text.encode()))
        except MalformedRecord as error:
            log.warning("lifecycle event %d of partition %d in history is left out: %s", offset, partition, error)


def decision_records(rows: Iterable[Sequence[Any]]) -> tuple[list[DecisionSeen], str]:
    """Return the observations of (partition, offset, record, counts) rows, and which of them a newer collector wrote first.

    Without that one what was decided is not known. Other rows that cannot be read are left out.
    """
    found: list[DecisionSeen] = []
    newer = ""
    for partition, offset, text, counts in rows:
        try:
            record = decisions.decode(text.encode())
            if isinstance(record, Snapshot | Part):
                raise MalformedRecord(f"a {type(record).__name__.lower()} is not kept in history")
            found.append(DecisionSeen(offset=offset, record=record, counts=counts))
        except UnknownVersion as error:
            newer = (
                newer
                or f"history holds of the decision log, at offset {offset}, what a newer collector wrote ({error})"
            )
        except MalformedRecord as error:
            log.warning("decision record %d of partition %d in history is left out: %s", offset, partition, error)
    return found, newer


def operator_orders(rows: Iterable[Sequence[Any]]) -> Iterator[OperatorOrder]:
    """Yield one observation per transaction that ended as ordered, of (audit, at_ms, who, action, detail) rows."""
    for audit, at_ms, who, action, detail in rows:
        for key in _ended_as_ordered(action, detail):
            yield OperatorOrder(key=key, action=action, who=who, at_ms=at_ms, audit=audit)


def _ended_as_ordered(action: str, detail: str) -> list[str]:
    try:
        ordered = Action(action)
        return [step["key"] for step in json.loads(detail) if StepOutcome(step["outcome"]).fulfils(ordered)]
    except (ValueError, TypeError, KeyError):
        return []  # a row about something else than an order, or of one that failed before its first step


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
