"""What observers hand over: facts as they were seen, each with the position in its source where it was read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.lifecycle.decisions import CheckpointTakenOver, Decision, Outcome, RunStarted
from indoubt.lifecycle.events import LifecycleEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where an observation stands in its source: the next one read from there has a higher offset."""

    source: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """One state of one transactional id as the coordinator has it. Times are epoch ms by the broker's clock."""

    transaction: str
    producer_id: int
    producer_epoch: int
    status: BrokerStatus
    start_ms: int | None
    """None outside a transaction (Empty, Dead)."""
    update_ms: int
    timeout_ms: int | None
    partitions: tuple[str, ...]
    client_transaction_version: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdExpired:
    """The coordinator forgot a transactional id (a tombstone in its log)."""

    transaction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeen:
    """A lifecycle event was reported."""

    event: LifecycleEvent


FoldedRecord = RunStarted | Decision | Outcome | CheckpointTakenOver
"""What of the decision log is folded: parts are put together before, and a snapshot only repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSeen:
    """A record of the decision log, with its offset there; ``counts``: whether it does, None until it is folded."""

    offset: int
    record: FoldedRecord
    counts: bool | None = None


class CheckpointFileKind(Enum):
    """The two logs of a Spark checkpoint directory."""

    OFFSETS = "offsets"
    """The batch is planned; it will run until its commit file is there."""
    COMMITS = "commits"
    """The batch is completed: it will not be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """One file of a Spark checkpoint directory. ``at_ms``: planned time from the offset log, else the file's own time."""

    pipeline: str
    number: int
    kind: CheckpointFileKind
    at_ms: int
    modified_ns: int


class BranchProof(Enum):
    """What the markers of a database said of a branch of ours that is not listed (any more)."""

    COMMITTED = "committed"
    """Its marker row is there: the branch was committed."""
    TOMBSTONE = "tombstone"
    """A tombstone stands in its marker's place: it was rolled back, and nothing can commit under that name."""
    NO_MARKER = "no marker"
    NOT_READ = "not read"
    """The markers could not be read."""
    MISSING = "missing"
    """A file of a FileSink is there under no name any more. One that bears its own name is COMMITTED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchListed:
    """A database lists a prepared branch, ours or foreign. ``instance`` is the name that the database was given.

    ``server``: which server it was (resource_managers/database/servers.py); empty where that is not known.
    """

    instance: str
    resource_manager: str
    transaction: str
    at_ms: int
    prepared_ms: int | None = None
    owner: str = ""
    database: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchGone:
    """A database lists a branch no more, or its marker tells its end; ``proof`` is None for a foreign one."""

    instance: str
    resource_manager: str
    transaction: str
    at_ms: int
    proof: BranchProof | None
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSeen:
    """Where the records of one transaction are in one partition: from ``first`` up to and without ``next_offset``.

    Where ``first_is_exact``, its leader reported the first; else both ends are those of a stretch of time that holds its records
    and others', None where nothing was found. ``how`` says it in words, ``at_ms`` when it was looked for.
    """

    transaction: str
    producer_id: int
    start_ms: int
    partition: str
    first: int | None
    first_is_exact: bool
    next_offset: int | None
    how: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOrder:
    """An order that this collector carried out, for one transaction's key."""

    key: str
    action: str
    who: str
    at_ms: int
    audit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A record that could not be understood and is quarantined."""

    error: str
    value: str
    at_ms: int


Observation = (
    BrokerRecord
    | IdExpired
    | EventSeen
    | DecisionSeen
    | CheckpointFile
    | FlinkCheckpoint
    | FlinkJob
    | OffsetsSeen
    | BranchListed
    | BranchGone
    | OperatorOrder
    | Quarantined
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An observation and its position; ``raw`` is the record's own text where history keeps that."""

    position: Position
    observation: Observation
    raw: str = ""
