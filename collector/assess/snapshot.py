"""What alert rules evaluate: one frozen snapshot. All times epoch ms, durations ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from collector.records.facts import CheckpointFacts
from collector.records.formats.flink_records import UnreadCheckpoint
from collector.records.log_settings import LogSettings
from collector.records.standing_orders import NO_STANDING_ORDERS, StandingReport
from collector.runtime.clock_offsets import ClockOffset
from collector.sources.source import ObserverStatus
from collector.verdicts.data_loss import Loss
from collector.verdicts.judging import Judged
from collector.verdicts.verdict_case import PipelineHistory
from lifecycle.verdicts import AbortCause


class Source(Enum):
    """Where evidence comes from; while one cannot be seen, what rests on it is not taken for gone."""

    TRANSACTIONS = "transactions"
    DECISIONS = "decisions"
    CHECKPOINTS = "checkpoints"
    PARTITIONS = "partitions"
    DATABASES = "databases"
    OBSERVERS = "observers"
    """The observers themselves: just started, they cannot say yet whether they are down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortSeen:
    """A transaction of one application (a pipeline's prefix, or a foreign transactional id) was aborted."""

    application: str
    transaction: str
    at_ms: int
    cause: AbortCause


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHistory:
    """How one pipeline's checkpoints stand: the newest, the last completion, and how many attempts failed since.

    ``p99_ms``: of the completed ones; ``gap_ms``: what usually lies between two, 0 where the pipeline reports its interval itself.
    """

    pipeline: str
    newest: CheckpointFacts
    completed_ms: int | None
    failures: int
    p99_ms: int = 0
    gap_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """Read_committed consumer ``groups`` wait on ``partition`` behind an open transaction; ``hidden`` records they may not see."""

    partition: str
    since_ms: int
    groups: tuple[str, ...]
    hidden: int | None = None
    transaction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A producer holds ``partition`` open and its coordinator knows of no such transaction (KIP-664).

    ``application`` is empty where its transactional id is not known. ``may_commit`` and ``may_abort`` say which marker an
    order may write.
    """

    partition: str
    producer_id: int
    producer_epoch: int
    since_ms: int
    application: str = ""
    may_commit: bool = False
    may_abort: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IdLeak:
    """An application takes ever new transactional ids; ``ids`` of them are known to the broker."""

    application: str
    ids: int
    fact: str
    since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCheckpoints:
    """Checkpoints of Flink in one directory whose ``_metadata`` cannot be read, by path.

    ``observer``: that reads them; ``pipeline``: their job's name, empty where it is not known or they are several jobs'.
    """

    observer: str
    directory: str
    pipeline: str
    unread: tuple[UnreadCheckpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSidedBatch:
    """A batch that is finished in some of its resource managers and not in others."""

    pipeline: str
    batch: int
    done_in: tuple[str, ...]
    missing_in: tuple[str, ...]
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSnapshot:
    """Everything that rules may read.

    ``unavailable_sources`` cannot be read now; ``unobserved_pipelines``: the checkpoints of these cannot be read now.
    """

    now_ms: int
    transactions: tuple[Judged, ...] = ()
    pipelines: Mapping[str, PipelineHistory] = field(default_factory=dict)
    aborts: tuple[AbortSeen, ...] = ()
    losses: tuple[Loss, ...] = ()
    """What others' transactions lost, of late: of ours the verdict says so."""
    checkpoints: tuple[CheckpointHistory, ...] = ()
    observers: tuple[ObserverStatus, ...] = ()
    blocked: tuple[BlockedPartition, ...] = ()
    hanging: tuple[HangingTransaction, ...] = ()
    id_leaks: tuple[IdLeak, ...] = ()
    one_sided: tuple[OneSidedBatch, ...] = ()
    unread_checkpoints: tuple[UnreadCheckpoints, ...] = ()
    log_settings: LogSettings | None = None
    clocks: tuple[ClockOffset, ...] = ()
    unavailable_sources: frozenset[Source] = frozenset()
    unobserved_pipelines: frozenset[str] = frozenset()
    standing: StandingReport = NO_STANDING_ORDERS
