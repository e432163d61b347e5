"""Tables of history whose columns are the fields of an observation: one list each, by which a row is written and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob
from collector.records.observations import CheckpointFile, OffsetsSeen
from lifecycle.rows.columns import columns, without_null
from lifecycle.rows.row_json import read_row, row_to_json

POSITION = [pa.field("source", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
"""The columns that every table begins with: where the observation was read."""
_KINDS = {int: pa.int64(), bool: pa.bool_()}
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTable(Generic[Seen]):
    """A table of one kind of observation. ``fields`` stand in the order of its columns; ``renamed``: field to column."""

    name: str
    observation: type[Seen]
    fields: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def schema(self) -> pa.Schema:
        """Return the columns with their Arrow types."""
        observation: type = self.observation
        kinds = columns(observation)
        found = ((name, _KINDS.get(without_null(kinds[name])[0], pa.string())) for name in self.fields)
        return pa.schema([*POSITION, *(pa.field(self.renamed.get(name, name), kind) for name, kind in found)])

    def values(self, observation: Seen) -> tuple[Any, ...]:
        """Return the values of an observation, without its place."""
        known = row_to_json(observation)
        return tuple(known[name] for name in self.fields)

    def observations(self, rows: Iterable[Sequence[Any]]) -> Iterator[Seen]:
        """Yield the observations of rows."""
        for row in rows:
            yield read_row(self.observation, dict(zip(self.fields, row[len(POSITION) :], strict=True)))


CHECKPOINT_FILES = ObservationTable(
    name="checkpoint_files",
    observation=CheckpointFile,
    fields=("pipeline", "kind", "number", "at_ms", "modified_ns", "watermark_ms"),
)
FLINK_CHECKPOINTS = ObservationTable(
    name="flink_checkpoints",
    observation=FlinkCheckpoint,
    fields=(
        "cluster",
        "job",
        "job_name",
        "number",
        "status",
        "kind",
        "triggered_ms",
        "ended_ms",
        "state_bytes",
        "reason",
        "path",
    ),
)
FLINK_JOBS = ObservationTable(
    name="flink_jobs",
    observation=FlinkJob,
    fields=(
        "cluster",
        "job",
        "name",
        "state",
        "started_ms",
        "changed_ms",
        "ended_ms",
        "restarts",
        "restored_number",
        "restored_ms",
        "restored_path",
        "seen_ms",
    ),
)
TRANSACTION_OFFSETS = ObservationTable(
    name="transaction_offsets",
    observation=OffsetsSeen,
    fields=(
        "transaction",
        "producer_id",
        "start_ms",
        "partition",
        "first",
        "first_is_exact",
        "next_offset",
        "how",
        "at_ms",
    ),
    renamed={"transaction": "transaction_id", "partition": "topic_partition", "first": "first_offset"},
)
OBSERVATION_TABLES: dict[type, ObservationTable[Any]] = {
    table.observation: table for table in (CHECKPOINT_FILES, FLINK_CHECKPOINTS, FLINK_JOBS, TRANSACTION_OFFSETS)
}
