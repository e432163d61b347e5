"""Rows of GET /batches."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Certainty, Verdict

OVER = ("aborted", "lost, then written again", "aborted, then written again", "complete")
"""The verdicts of attempts of which no part is open or missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSideRow:
    """The part of a batch in one resource manager: how many transactions, and how many of them ended in which way."""

    resource_manager: str
    transactions: int
    committed: int
    aborted: int
    open: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTransactionRow:
    """One transaction of a batch; its times are None where they are not known, or have not come yet."""

    key: str
    resource_manager: str
    slot: int | None
    state: TransactionState
    verdict: Verdict
    certainty: Certainty
    committed: bool
    rows: int | None
    opened_at_ms: int | None
    prepared_at_ms: int | None
    ended_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One attempt at a batch; ``settle``: what the order of that name would do now, None where there is nothing to order.

    ``committed_on`` and ``missing_on``: resource managers in which all of it is committed, and the others. ``decision``:
    ``commit``, ``abort``, None where none counts. ``rows``: every side holds the same ones. ``deadline_ms``: when the first of its
    open transactions times out, None where none does. ``written_again_at_ms``: when a later attempt had written what it lost.
    """

    key: str
    pipeline: str
    checkpoint_id: str
    batch: int
    attempt: int
    verdict: str
    explanation: str
    committed_on: tuple[str, ...]
    missing_on: tuple[str, ...]
    decision: str | None
    decision_offset: int | None
    decided_at_ms: int | None
    decided_by: str | None
    settle: str | None
    sides: tuple[BatchSideRow, ...]
    transactions: tuple[BatchTransactionRow, ...]
    rows: int | None
    opened_at_ms: int | None
    deadline_ms: int | None
    updated_at_ms: int | None
    written_again_at_ms: int | None
    revision: str

    @property
    def is_over(self) -> bool:
        """True when no part of it is open or missing."""
        return self.verdict in OVER
