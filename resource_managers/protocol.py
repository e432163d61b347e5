"""The one Protocol of Kafka, MySQL and PostgreSQL.

Rows come with all columns of the job; each resource manager takes those that are its own and leaves the others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from indoubt.lifecycle.errors import DecisionMissing
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker, transaction_key
from indoubt.lifecycle.outcomes import CommitOutcome, RollbackOutcome

if TYPE_CHECKING:
    import pyarrow as pa


NO_TIMEOUT_LEFT_MS = 2**53
"""Time left of what never times out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAttempt:
    """What a task writes under: its slot in one attempt at one batch of one checkpoint id.

    ``decided`` are the attempts at this batch whose commit decision counts, by the decision log ``decisions``.
    """

    prefix: str
    slot: int
    marker: Marker
    decided: frozenset[int] = frozenset()
    decisions: str = "transaction_decisions"

    def require_decided(self, attempt: int, where: str) -> None:
        """Return when the log knows that this earlier attempt, which the slot's marker proves committed, was decided.

        Raises DecisionMissing.
        """
        if attempt in self.decided:
            return
        mine = self.marker
        raise DecisionMissing(
            f"{where}: the marker of slot {self.slot} of {self.prefix!r} says that it has committed batch {mine.batch} in attempt "
            f"{attempt}, and decision log {self.decisions!r} has no decision of that attempt: the log lost its end (an unclean "
            "leader election, a log restored from a backup), or the transaction was committed past it. Written again, its rows "
            "would be there twice. Bring back the end of the log; where it is lost (pipeline settle cannot tell then), roll back "
            f"what prefix {self.prefix!r} has open or prepared, take the rows of batch {mine.batch} out of the sink, write "
            '{"take_over": true} into indoubt.json of the checkpoint directory and start with another --prefix: the batch is '
            "written in whole"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Answer to a check: ``ready`` when the transaction is still open as the handle says with ``time_left_ms`` to go.

    ``reason`` says what is wrong when it is not ready.
    """

    handle: Handle
    ready: bool
    time_left_ms: int
    reason: str = ""


def listed(handles: Sequence[Handle], prepared: Container[str], why_not: str) -> list[Readiness]:
    """Say for each handle, in order, whether it is among the names of what is prepared, where that never times out."""
    return [
        Readiness(
            handle=handle,
            ready=handle.transaction in prepared,
            time_left_ms=NO_TIMEOUT_LEFT_MS,
            reason="" if handle.transaction in prepared else why_not,
        )
        for handle in handles
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionView:
    """One transaction that the resource manager holds, ours or foreign. Times are epoch ms, None where it has none."""

    resource_manager: str
    transaction: str
    producer_id: int | None = None
    producer_epoch: int | None = None
    state: str
    started_at_ms: int | None = None
    timeout_ms: int | None = None
    partitions: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> str:
        """Return the same text as ``Handle.key`` of the same transaction."""
        return transaction_key(self.resource_manager, self.transaction, self.producer_id, self.producer_epoch)


def nothing() -> None:
    """Do nothing: what ``prepare`` calls between flush and marker unless it is given something else."""


class OpenTransaction(Protocol):
    """A transaction that one task writes into; it lives in the task's process, on its executor."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows; may block while the queue is full. Raises RecordTooLarge, Fenced, Unreachable, SettingsError."""

    @property
    def provisional_handle(self) -> Handle:
        """Return the handle as it stands, not prepared, its fingerprint empty: it names the transaction in events."""

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> Handle:
        """Flush, write the marker, and return the handle; afterwards any process can finish it.

        ``fingerprint`` is that of all columns of the slot's rows: the handle carries it. ``flushed`` is called when the
        rows are with the resource manager and the marker is not.
        Raises ResourceManagerError when one row was not delivered: nothing of this transaction may then be decided.
        """

    def abort(self) -> None:
        """Undo it and free the client; safe to call twice, after a failure, and (doing nothing) after ``prepare``."""


class PlainWriter(Protocol):
    """Writes without a transaction, for the guarantees at_least_once and none."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows, or queue them. Raises ResourceManagerError, SettingsError."""

    def finish(self) -> None:
        """Return when the guarantee holds (at_least_once: every row is stored). Raises ResourceManagerError."""

    def abort(self) -> None:
        """Drop what is queued and free the client; rows that are stored stay. Safe to call twice."""

    @property
    def rows(self) -> int:
        """Return the rows written so far."""

    @property
    def bytes(self) -> int:
        """Return the bytes written so far."""


class Settler(Protocol):
    """Ends transactions in one resource manager, from any process."""

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether a commit would succeed now.

        ``time_left_ms`` counts only where the handle has a ``timeout_ms`` above 0.
        """

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared transactions, pipelined; one outcome per handle, in order. ``markers`` are the proofs inside them.

        Transient answers are retried inside until ``limit_s`` has passed, then reported as RetryLater.
        """

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions, never a later one of the same id; one outcome per handle, in order."""

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open transactions and shut out their writers; return an error text per transaction, empty = done."""


class ResourceManager(Settler, Protocol):
    """Begins on executors; checks, commits, rolls back and recovers from any process. Thread-safe where it says so."""

    name: str
    """Its kind's name (lifecycle/resource_manager_kinds.py): what its handles carry as ``resource_manager``."""

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return the names of those columns (of the job's output) that are written here, when a pipeline can run on this.

        Asked once, before anything starts. Raises SettingsError for what a restart will not mend (no such topic or table,
        column types that do not fit, prepared transactions switched off, a missing privilege), Unreachable.
        """

    def identity(self) -> str:
        """Return what the topic or table is, however it is spelled and reached; empty where the server does not tell.

        Two that are the same have the same one, two that differ never have. Raises SettingsError, Unreachable.
        """

    def begin(self, slot: SlotAttempt) -> OpenTransaction:
        """Take the slot's id, fencing every earlier writer of it, and prove that this attempt was not superseded.

        Raises ZombieWriter when the marker of the same checkpoint id is at this (batch, attempt) or beyond, DecisionMissing
        when it is at this batch, of an earlier attempt that was not decided.
        """

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> PlainWriter:
        """Return a writer for at_least_once or none. Raises ResourceManagerError."""

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return what this prefix left open, ids parsed whole (XA RECOVER's part), in no order."""

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every transaction that this resource manager knows, with details."""
