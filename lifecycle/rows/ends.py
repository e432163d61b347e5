"""Rows of GET /aborts and GET /losses: transactions that have ended, and what became of their records."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import AbortCause


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRow:
    """A transaction that was aborted or lost, and who ended it; ``open_ms``: how long it was open.

    ``verdict``: aborted, lost, or lost and written again since, ``written_again_at_ms``.
    """

    at_ms: int | None
    key: str
    transaction: str
    pipeline: str
    batch: int | None
    slot: int | None
    verdict: TransactionState
    cause: AbortCause
    certainty: str
    open_ms: int | None
    written_again_at_ms: int | None
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCount:
    """How many transactions were aborted for one cause in one bucket; buckets count from 0."""

    bucket: int
    cause: AbortCause
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCounts:
    """Kafka's aborted and lost transactions over time, in ``buckets`` of ``bucket_ms`` from ``from_ms`` on (epoch ms)."""

    from_ms: int
    bucket_ms: int
    buckets: int
    counts: tuple[AbortCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Where a transaction wrote: from ``first`` to before ``next``."""

    partition: str
    first: int | None
    next: int | None
    certainty: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRow:
    """A transaction that has ended, and whether what it held is missing; ``checkpoint``: of its application, where known.

    ``managed``: of a pipeline of ours. ``written_again_at_ms``: when its batch was written again after it was lost.
    """

    at_ms: int | None
    key: str
    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    pipeline: str
    managed: bool
    checkpoint: int | None
    verdict: str
    certainty: str
    why: str
    cause: AbortCause | None
    cause_certainty: str | None
    opened_at_ms: int | None
    written_again_at_ms: int | None
    rows: int | None
    partitions: tuple[str, ...]
    offsets: tuple[OffsetRange, ...]
