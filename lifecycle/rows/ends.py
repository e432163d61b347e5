"""Rows of GET /aborts and GET /losses: transactions that have ended, and what became of their records."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import AbortCause


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRow:
    """A transaction that was aborted or lost, and who ended it; ``open_ms``: how long it was open."""

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
    rows: int | None

    @property
    def is_lost(self) -> bool:
        """True when it was decided to be committed."""
        return self.verdict is TransactionState.LOST


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
    """A transaction that has ended, and whether what it held is missing; ``checkpoint``: of its application, where known."""

    at_ms: int | None
    key: str
    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    pipeline: str
    checkpoint: int | None
    verdict: str
    certainty: str
    why: str
    cause: AbortCause | None
    cause_certainty: str | None
    opened_at_ms: int | None
    rows: int | None
    partitions: tuple[str, ...]
    offsets: tuple[OffsetRange, ...]
