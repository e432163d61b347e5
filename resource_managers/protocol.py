"""The one Protocol that Kafka implements and that MySQL and PostgreSQL will implement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lifecycle.identity import Fingerprint, Handle, Marker
from lifecycle.outcomes import CommitOutcome, RollbackOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAttempt:
    """What a task writes under: its slot in one attempt at one batch of one life."""

    prefix: str
    slot: int
    marker: Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Answer to a check: ``ready`` when the transaction is still open as the handle says with ``time_left_ms`` to go.

    ``reason`` says what is wrong when it is not ready.
    """

    handle: Handle
    ready: bool
    time_left_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionView:
    """One transaction that the resource manager holds, ours or foreign. Times are epoch ms, None where it has none."""

    resource_manager: str
    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    state: str
    started_at_ms: int | None
    timeout_ms: int | None
    partitions: tuple[tuple[str, int], ...] = ()


class OpenTransaction(Protocol):
    """A transaction that one task writes into; lives in the task's process, on its executor."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows; may block while the queue is full. Raises RecordTooLarge, Fenced, Unreachable."""

    @property
    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of what was written so far: a replay compares it before it prepares."""

    @property
    def so_far(self) -> Handle:
        """Return the handle as it stands, not prepared: it names the transaction in events."""

    def prepare(self) -> Handle:
        """Flush, write the marker, and return the handle; afterwards any process can finish it.

        Raises ResourceManagerError when one row was not delivered: nothing of this transaction may then be decided.
        """

    def abort(self) -> None:
        """Undo it and free the client; safe to call twice and after a failure."""


class ResourceManager(Protocol):
    """Begins on executors; checks, commits, rolls back and recovers from any process. Thread-safe where it says so."""

    name: str

    def begin(self, slot: SlotAttempt) -> OpenTransaction:
        """Take the slot's id, fencing every earlier writer of it, and prove that this attempt was not overtaken.

        Raises ZombieWriter when the marker of the same life is at this (batch, attempt) or beyond.
        """

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether a commit would succeed now."""

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared transactions, pipelined; one outcome per handle, in order. ``markers`` are the proofs inside them.

        Transient answers are retried inside until ``limit_s`` has passed, then reported as RetryLater.
        """

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions, never a later one of the same id; one outcome per handle, in order."""

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return what this prefix left open, ids parsed whole (XA RECOVER's part), in no order."""

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open transactions and shut out their writers; return an error text per transaction, empty = done."""

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every transaction that this resource manager knows, with details."""
