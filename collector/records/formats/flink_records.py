"""What Flink tells of one job and of one checkpoint, as it was reported last."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from indoubt.collector.records.formats.pending_files import PendingFile
from indoubt.resource_managers.mysql.xa_xid import XaXid


class FlinkStatus(Enum):
    """How a checkpoint stands (CheckpointStatsStatus)."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class FlinkKind(Enum):
    """What kind of checkpoint it is (SnapshotType, CheckpointStatistics.RestAPICheckpointType)."""

    CHECKPOINT = "CHECKPOINT"
    UNALIGNED_CHECKPOINT = "UNALIGNED_CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    """Taken while the job goes on: what is prepared is committed by the next checkpoint, not by it (FLIP-203)."""
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"
    """Taken at the job's end; the job commits what it lists, and is finished then."""

    @property
    def is_savepoint(self) -> bool:
        """True for both kinds of savepoint."""
        return self in (FlinkKind.SAVEPOINT, FlinkKind.SYNC_SAVEPOINT)

    @property
    def commits(self) -> bool:
        """True when its completion commits what was prepared."""
        return self is not FlinkKind.SAVEPOINT


FINISHED = "FINISHED"
"""The state of a job whose work is done, or that was stopped with a savepoint."""
ENDED = frozenset({FINISHED, "CANCELED", "FAILED"})
"""Job states that nothing follows (JobStatus.isGloballyTerminalState)."""
GONE = "GONE"
"""Our word for a job that ran and that its Flink does not know any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCheckpoint:
    """One checkpoint or savepoint as Flink reported it last. Times: epoch ms, the JobManager's clock; ``ended_ms`` None: runs."""

    cluster: str
    job: str
    job_name: str
    number: int
    status: FlinkStatus
    kind: FlinkKind
    triggered_ms: int
    ended_ms: int | None = None
    state_bytes: int | None = None
    reason: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkJob:
    """One job as Flink reported it last, at ``seen_ms`` by our clock; the other times are Flink's.

    ``restarts`` None: not reported. ``restored_*``: what its newest attempt started from. ``ended_ms`` of a job that is
    GONE: when that was noticed.
    """

    cluster: str
    job: str
    name: str
    state: str
    started_ms: int
    changed_ms: int
    seen_ms: int = 0
    ended_ms: int | None = None
    restarts: int | None = None
    restored_number: int | None = None
    restored_ms: int | None = None
    restored_path: str = ""

    @property
    def is_over(self) -> bool:
        """True when it will not run again under this id."""
        return self.state in ENDED or self.state == GONE


class Committable(NamedTuple):
    """A prepared Kafka transaction as a checkpoint lists it (KafkaCommittable): to be committed once the checkpoint counts."""

    transaction: str
    producer_id: int
    producer_epoch: int


class ListedFile(NamedTuple):
    """A file as a checkpoint lists it, by its name once it is visible: no writer of a FileSink makes a name twice.

    Or a commit to an Iceberg table (IcebergCommit.target).
    """

    target: str


Listed = Committable | XaXid | ListedFile
"""What a checkpoint lists: a transaction in Kafka, a branch by its xid (collector/records/xids.py: as_listed), or a file."""


class SinkCommits(NamedTuple):
    """How many commits a checkpoint announces of one sink. ``kind``: what it writes to (SinkKind's words)."""

    sink: str
    kind: str
    commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCommittables:
    """What the file ``_metadata`` in directory ``path`` says of transactions. Times are epoch ms.

    ``job``: the directory's job id, empty where the path does not say. ``written_ms``: the file's own time; ``read_ms``: when it
    was read, by our clock. ``error``: why all or a part could not be read; the lists are then incomplete.
    """

    cluster: str
    job: str
    number: int
    path: str
    kind: FlinkKind | None
    written_ms: int
    read_ms: int
    committables: frozenset[Listed] = frozenset()
    prefixes: frozenset[str] = frozenset()
    """The transactional id prefixes of the job's sinks."""
    pooled: frozenset[str] = frozenset()
    """Those of sinks that use their ids again (TransactionNamingStrategy.POOLING)."""
    files: tuple[PendingFile, ...] = ()
    """What makes the files visible that ``committables`` names."""
    buckets: frozenset[str] = frozenset()
    """The directories that the job's FileSinks write to."""
    in_progress: frozenset[str] | None = frozenset()
    """Temporary names and ids of uploads that their writers go on with after a restore; None: one was not understood."""
    sinks: tuple[SinkCommits, ...] = ()
    """The commits of every sink whose committer's state has the known form, also where ``error`` is set."""
    error: str = ""
    is_gone: bool = False
    """It is not there any more: no job can be restored from it, and no order finds what it listed."""


class UnreadCheckpoint(NamedTuple):
    """A checkpoint whose ``_metadata`` could not be read, or not be understood, at the last look, and why.

    ``changed_ms``: when the file was written, else when its directory changed, by the store's clock (epoch ms); None: not known.
    """

    path: str
    job: str
    number: int
    why: str
    changed_ms: int | None = None
