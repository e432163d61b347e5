"""History's tables of observations, one list of columns each: rows are written and read by it, and the schema is tested against it.

A new column takes its line here and in schema.sql, at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob
from indoubt.collector.records.observations import (
    BranchGone,
    BranchListed,
    BrokerRecord,
    CheckpointFile,
    DecisionSeen,
    EventSeen,
    FoldedRecord,
    IdExpired,
    Observed,
    OffsetsSeen,
    Quarantined,
)
from indoubt.lifecycle.decisions import CheckpointTakenOver, Decision, Outcome, RunStarted
from indoubt.lifecycle.rows.row_json import read_row

TEXT, LONG, INT, FLAG = pa.string(), pa.int64(), pa.int32(), pa.bool_()
POSITION = [pa.field("source", TEXT), pa.field("partition", INT), pa.field("offset", LONG)]
"""The columns that every table begins with: where the observation was read."""
_POSITION = ("position.source", "position.partition", "position.offset")
RAW = "raw"
_DECISION_TYPES: dict[type[FoldedRecord], str] = {
    RunStarted: "run_started",
    Decision: "decision",
    Outcome: "outcome",
    CheckpointTakenOver: "checkpoint_taken_over",
}
Change = Callable[[Any], Any]


class Column(NamedTuple):
    """A column: its name, its type, and what it holds of an observation."""

    name: str
    kind: pa.DataType
    field: str = ""
    """The observation's field, with fields of that field after dots; where empty ``name``. RAW: the record's own text."""
    write: Change | None = None
    """What makes the column's value of the field's; by default the member of an Enum becomes its value."""


class ObservationTable:
    """A table of one kind of observation, or of several; a field that one of them does not have is null in its rows.

    ``kinds``: the observations, each with the columns whose value says which of them a row is.
    """

    def __init__(self, name: str, kinds: Mapping[type, Mapping[str, Any]], *of: Column) -> None:
        self.name, self.kinds = name, kinds
        self.columns = [column._replace(field=column.field or column.name) for column in of]
        self.schema = pa.schema([*POSITION, *(pa.field(column.name, column.kind) for column in of)])

    def column_of(self, field: str) -> str:
        """Return the name of the column that holds a field."""
        return next(column.name for column in self.columns if column.field == field)

    def row(self, observed: Observed) -> tuple[Any, ...]:
        """Return an observation and its position as a row."""
        kind: type = type(observed.observation)
        get, changes = _reader(self, kind)
        values = [value.value if isinstance(value, Enum) else value for value in get(observed)]
        for index, change in changes:
            values[index] = change(values[index])
        return tuple(values)

    def observations(self, rows: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """Yield the observations of whole rows. Not for tables that hold the record's own text: that is decoded anew."""
        names, fields = [column.name for column in self.columns], [column.field for column in self.columns]
        for row in rows:
            values = row[len(POSITION) :]
            known = dict(zip(names, values, strict=True))
            kind = next(kind for kind, fixed in self.kinds.items() if fixed.items() <= known.items())
            yield read_row(kind, dict(zip(fields, values, strict=True)))


@cache
def _reader(table: ObservationTable, kind: type) -> tuple[Change, list[tuple[int, Change]]]:
    """Return what reads all columns of an observation at once, and what then changes some of them, by their places."""
    names, fixed = {field.name for field in fields(kind)}, table.kinds[kind]
    paths = list(_POSITION)
    changes: list[tuple[int, Change]] = []
    for place, column in enumerate(table.columns, len(_POSITION)):
        field = column.field.partition(".")[0]
        is_there = column.field == RAW or field in names
        paths.append(RAW if column.field == RAW or not is_there else f"observation.{column.field}")
        if not is_there:
            changes.append((place, partial(_instead, fixed.get(column.name))))
        elif column.write is not None:
            changes.append((place, column.write))
    return attrgetter(*paths), changes


def _instead(value: Any, _: Any) -> Any:
    return value


TRANSACTION_RECORDS = ObservationTable(
    "transaction_records",
    {BrokerRecord: {}, IdExpired: {"status": "EXPIRED", "partitions": []}},
    Column("transaction_id", TEXT, "transaction"),
    Column("producer_id", LONG),
    Column("producer_epoch", INT),
    Column("status", TEXT, "status.name"),
    Column("start_ms", LONG),
    Column("update_ms", LONG),
    Column("timeout_ms", INT),
    Column("partitions", pa.list_(TEXT)),
    Column("client_version", INT, "client_transaction_version"),
)
LIFECYCLE_EVENTS = ObservationTable(
    "lifecycle_events",
    {EventSeen: {}},
    Column("type", TEXT, "event.type.value"),
    Column("at_ms", LONG, "event.at_ms"),
    Column("pipeline", TEXT, "event.data", lambda data: str(data.get("pipeline", ""))),
    Column("event", TEXT, RAW),
)
DECISION_RECORDS = ObservationTable(
    "decision_records",
    {DecisionSeen: {}},
    Column("type", TEXT, "record.__class__", _DECISION_TYPES.__getitem__),
    Column("at_ms", LONG, "record.at_ms"),
    Column("prefix", TEXT, "record.prefix"),
    Column("record", TEXT, RAW),
    Column("counts", FLAG),
)
PREPARED_BRANCHES = ObservationTable(
    "prepared_branches",
    {BranchListed: {"what": "listed"}, BranchGone: {"what": "gone"}},
    Column("instance", TEXT),
    Column("resource_manager", TEXT),
    Column("transaction_id", TEXT, "transaction"),
    Column("what", TEXT),
    Column("at_ms", LONG),
    Column("proof", TEXT),
    Column("prepared_ms", LONG),
    Column("owner", TEXT),
    Column("database", TEXT),
    Column("server", TEXT),
)
QUARANTINED = ObservationTable(
    "quarantined",
    {Quarantined: {}},
    Column("at_ms", LONG),
    Column("error", TEXT),
    Column("value", TEXT),
)
CHECKPOINT_FILES = ObservationTable(
    "checkpoint_files",
    {CheckpointFile: {}},
    Column("pipeline", TEXT),
    Column("kind", TEXT),
    Column("number", LONG),
    Column("at_ms", LONG),
    Column("modified_ns", LONG),
)
FLINK_CHECKPOINTS = ObservationTable(
    "flink_checkpoints",
    {FlinkCheckpoint: {}},
    Column("cluster", TEXT),
    Column("job", TEXT),
    Column("job_name", TEXT),
    Column("number", LONG),
    Column("status", TEXT),
    Column("kind", TEXT),
    Column("triggered_ms", LONG),
    Column("ended_ms", LONG),
    Column("state_bytes", LONG),
    Column("reason", TEXT),
    Column("path", TEXT),
)
FLINK_JOBS = ObservationTable(
    "flink_jobs",
    {FlinkJob: {}},
    Column("cluster", TEXT),
    Column("job", TEXT),
    Column("name", TEXT),
    Column("state", TEXT),
    Column("started_ms", LONG),
    Column("changed_ms", LONG),
    Column("ended_ms", LONG),
    Column("restarts", LONG),
    Column("restored_number", LONG),
    Column("restored_ms", LONG),
    Column("restored_path", TEXT),
    Column("seen_ms", LONG),
)
TRANSACTION_OFFSETS = ObservationTable(
    "transaction_offsets",
    {OffsetsSeen: {}},
    Column("transaction_id", TEXT, "transaction"),
    Column("producer_id", LONG),
    Column("start_ms", LONG),
    Column("topic_partition", TEXT, "partition"),
    Column("first_offset", LONG, "first"),
    Column("first_is_exact", FLAG),
    Column("next_offset", LONG),
    Column("how", TEXT),
    Column("at_ms", LONG),
)
TABLES = {
    table.name: table
    for table in (
        TRANSACTION_RECORDS,
        LIFECYCLE_EVENTS,
        DECISION_RECORDS,
        CHECKPOINT_FILES,
        FLINK_CHECKPOINTS,
        FLINK_JOBS,
        PREPARED_BRANCHES,
        TRANSACTION_OFFSETS,
        QUARANTINED,
    )
}
TABLE_OF: dict[type, ObservationTable] = {kind: table for table in TABLES.values() for kind in table.kinds}
