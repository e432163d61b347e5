"""How observations stand in history: which table, which columns. The way back: history_observations.py."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from collector.history.observation_tables import OBSERVATION_TABLES, POSITION
from collector.records.broker_record_batch import BrokerRecords, history_columns
from collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob
from collector.records.formats.lifecycle_event_batch import EventColumns
from collector.records.formats.transaction_state_batch import Integers
from collector.records.observations import (
    BranchGone,
    BranchListed,
    BrokerRecord,
    CheckpointFile,
    DecisionSeen,
    EventSeen,
    FoldedRecord,
    IdExpired,
    Malformed,
    Observed,
    OffsetsSeen,
    OperatorOrder,
)
from collector.runtime.clock import now_ms
from lifecycle.decisions import CheckpointTakenOver, Decision, Outcome, RunStarted

EXPIRED = "EXPIRED"
SHOWN_CHARACTERS = 200
_NO_COLUMN_TAKES_IT = (pa.ArrowException, ValueError, OverflowError, TypeError)
"""A number too large for its column, half of a surrogate pair in a text: UnicodeEncodeError is a ValueError."""
log = logging.getLogger(__name__)
LISTED, GONE = "listed", "gone"
_DECISION_TYPES: dict[type[FoldedRecord], str] = {
    RunStarted: "run_started",
    Decision: "decision",
    Outcome: "outcome",
    CheckpointTakenOver: "checkpoint_taken_over",
}


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*POSITION, *(pa.field(name, kind) for name, kind in columns)])


TABLES: dict[str, pa.Schema] = {
    "transaction_records": _schema(
        ("transaction_id", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("status", pa.string()),
        ("start_ms", pa.int64()),
        ("update_ms", pa.int64()),
        ("timeout_ms", pa.int32()),
        ("partitions", pa.list_(pa.string())),
        ("client_version", pa.int32()),
    ),
    "lifecycle_events": _schema(
        ("type", pa.string()), ("at_ms", pa.int64()), ("pipeline", pa.string()), ("event", pa.string())
    ),
    "decision_records": _schema(
        ("type", pa.string()),
        ("at_ms", pa.int64()),
        ("prefix", pa.string()),
        ("record", pa.string()),
        ("counts", pa.bool_()),
    ),
    "prepared_branches": _schema(
        ("instance", pa.string()),
        ("resource_manager", pa.string()),
        ("transaction_id", pa.string()),
        ("what", pa.string()),
        ("at_ms", pa.int64()),
        ("proof", pa.string()),
        ("prepared_ms", pa.int64()),
        ("owner", pa.string()),
        ("database", pa.string()),
    ),
    "quarantined": _schema(("at_ms", pa.int64()), ("error", pa.string()), ("value", pa.string())),
    **{table.name: table.schema() for table in OBSERVATION_TABLES.values()},
}


def row(observed: Observed) -> tuple[str, tuple[Any, ...]]:
    """Return the table and the row of an observation, columns in the order of TABLES."""
    position = (observed.position.source, observed.position.partition, observed.position.offset)
    match observed.observation:
        case BrokerRecord() as r:
            ends = (
                r.status.name,
                r.start_ms,
                r.update_ms,
                r.timeout_ms,
                list(r.partitions),
                r.client_transaction_version,
            )
            return "transaction_records", (*position, r.transaction, r.producer_id, r.producer_epoch, *ends)
        case IdExpired() as e:
            return "transaction_records", (*position, e.transaction, None, None, EXPIRED, None, None, None, [], None)
        case EventSeen(event=event):
            pipeline = str(event.data.get("pipeline", ""))
            return "lifecycle_events", (*position, event.type.value, event.at_ms, pipeline, observed.raw)
        case DecisionSeen(record=record, counts=counts):
            kind = _DECISION_TYPES[type(record)]
            return "decision_records", (*position, kind, record.at_ms, record.prefix, observed.raw, counts)
        case CheckpointFile() | FlinkCheckpoint() | FlinkJob() | OffsetsSeen() as seen:
            table = OBSERVATION_TABLES[type(seen)]
            return table.name, (*position, *table.values(seen))
        case BranchListed() as b:
            named = (*position, b.instance, b.resource_manager, b.transaction)
            return "prepared_branches", (*named, LISTED, b.at_ms, None, b.prepared_ms, b.owner, b.database)
        case BranchGone() as b:
            named = (*position, b.instance, b.resource_manager, b.transaction)
            proof = b.proof.value if b.proof is not None else None
            return "prepared_branches", (*named, GONE, b.at_ms, proof, None, None, None)
        case Malformed() as m:
            return "quarantined", (*position, m.at_ms, m.error, m.value)
        case OperatorOrder():
            raise TypeError("an operator's order stands in the audit table, which is written by itself")


def records_table(records: BrokerRecords) -> pa.Table:
    """Return states of the coordinator's log as an Arrow table of transaction_records."""
    schema = TABLES["transaction_records"]
    return pa.table(history_columns(records), schema=schema)


def events_table(source: str, partition: Integers, offset: Integers, events: EventColumns) -> pa.Table:
    """Return lifecycle events in columns, and their places, as an Arrow table of lifecycle_events."""
    schema = TABLES["lifecycle_events"]
    named = pa.DictionaryArray.from_arrays(np.zeros(len(events), np.int8), [source]).cast(pa.string())
    positions = [named, pa.array(partition.astype(np.int32)), pa.array(offset)]
    return pa.table([*positions, events.type, events.at_ms, events.data.field("pipeline"), events.raw], schema=schema)


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
            rows.setdefault("quarantined", []).extend(aside)
            if fits:
                found[name] = arrow_table(name, fits)
    if "quarantined" in rows:
        found["quarantined"] = arrow_table("quarantined", rows["quarantined"])
    return found


def _sorted_out(name: str, rows: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows that the named table takes, and rows of quarantined that stand for the others."""
    fits, aside = [], []
    for values in rows:
        try:
            arrow_table(name, [values])
            fits.append(values)
        except _NO_COLUMN_TAKES_IT as error:
            shown = repr(values[3:])[:SHOWN_CHARACTERS].encode("ascii", "backslashreplace").decode()
            aside.append(
                (
                    *values[:3],
                    now_ms(),
                    f"{name} has no place for it: {error!r}"[:SHOWN_CHARACTERS],
                    shown,
                )
            )
    return fits, aside


def arrow_table(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows as an Arrow table of the named history table."""
    schema = TABLES[name]
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
