"""What a coordinator's description of a transactional id means (DescribeTransactions, KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.durations import timeout_that_ends
from indoubt.lifecycle.identity import Handle
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness

ONGOING = "Ongoing"
OPEN_STATES = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
COMMITTED, ABORTED = "CompleteCommit", "CompleteAbort"
EPOCHS_OF_AN_END = 2
"""How far the end of a transaction moves its epoch at most: 4.0.0 adds two where it ends one by itself (KAFKA-19367)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id as its coordinator has it. ``started_at_ms``: epoch ms, None where it has no transaction.

    ``timeout_ms`` is 0 where no timeout ends it.
    """

    transaction: str
    producer_id: int
    producer_epoch: int
    state: str
    started_at_ms: int | None = None
    timeout_ms: int = 0
    partitions: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, row: Any) -> TransactionDescription:
        """Return a row of DescribeTransactions that has no error."""
        return cls(
            transaction=row.transactional_id,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            state=row.transaction_state,
            started_at_ms=row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
            timeout_ms=timeout_that_ends(row.transaction_timeout_ms),
            partitions=tuple((topic.topic, partition) for topic in row.topics for partition in topic.partitions),
        )

    @property
    def producer(self) -> tuple[int, int]:
        """Return producer id and epoch."""
        return self.producer_id, self.producer_epoch

    def view(self) -> OpenTransactionView:
        """Return it as the domain's value."""
        return OpenTransactionView(
            resource_manager="kafka",
            transaction=self.transaction,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            state=self.state,
            started_at_ms=self.started_at_ms,
            timeout_ms=self.timeout_ms,
            partitions=self.partitions,
        )


Described = TransactionDescription | BrokerAnswer
"""What is known of an id, or why nothing is."""


def is_transient(described: Described) -> bool:
    """Say whether asking again may give a description."""
    return (
        isinstance(described, BrokerAnswer) and not described.is_refusal and described.kind is not AnswerKind.UNKNOWN_ID
    )


def word(described: Described) -> str:
    """Return the state or the error, for messages."""
    return described.name if isinstance(described, BrokerAnswer) else described.state


def readiness(handle: Handle, described: Described) -> Readiness:
    """Say whether the transaction is still open at its epoch, and for how long.

    Its age is reckoned by the clock of its writer, whose time the handle has: the coordinator's clock may be far from it.
    """
    if isinstance(described, BrokerAnswer):
        return _not_ready(handle, f"its coordinator does not describe it: {described}")
    if described.producer != (handle.producer_id, handle.producer_epoch):
        return _not_ready(
            handle,
            f"another producer took the id (epoch {described.producer_epoch}, ours was {handle.producer_epoch})",
        )
    if described.state != ONGOING:
        return _not_ready(handle, f"it is {described.state}, not {ONGOING}")
    ends_ms = handle.opened_at_ms + described.timeout_ms
    return Readiness(handle=handle, ready=True, time_left_ms=max(0, ends_ms - now_ms()))


def _not_ready(handle: Handle, reason: str) -> Readiness:
    return Readiness(handle=handle, ready=False, time_left_ms=0, reason=reason)


def is_open(view: OpenTransactionView, described: Described) -> bool:
    """Say whether this very transaction is open or being completed."""
    if isinstance(described, BrokerAnswer):
        return described.kind is not AnswerKind.UNKNOWN_ID
    # Same start: still this transaction, whatever the epoch that completing it has now.
    return described.state in OPEN_STATES and _is_same(view, described)


def is_over(described: Described, producer_id: int, epoch: int) -> bool:
    """Say whether the transaction that was written at this epoch is over for its coordinator, every marker of it included.

    For producers that take a new producer epoch for each transaction, as ours do: an epoch then has one transaction at most. So one
    at the epoch of an id that is ``Empty`` has yet to begin. False where the coordinator did not answer.
    """
    if isinstance(described, BrokerAnswer):
        return described.kind is AnswerKind.UNKNOWN_ID
    if described.producer_id != producer_id:
        return True
    ahead = described.producer_epoch - epoch
    if described.state == ONGOING:
        return ahead > 0
    if described.state in OPEN_STATES:
        # It may be this very one that is being ended.
        return ahead > EPOCHS_OF_AN_END
    return ahead > 0 or (ahead == 0 and described.state in (COMMITTED, ABORTED))


def why_not_aborted(
    view: OpenTransactionView, described: Described, answer: BrokerAnswer, *, aborted: bool, undecided: bool
) -> str:
    """Return an empty text when this very transaction was aborted, by us or before; else what became of it.

    ``aborted``: our EndTxn(abort) was accepted. At transaction.version 2 it is of an ended one too, which it then aborts again,
    with nothing in it: that one begins at another time. ``undecided``: it is one of ours that no decision commits, so its end,
    though unseen, was an abort: below version 2 nothing else tells once its epoch has moved on.
    """
    if isinstance(described, BrokerAnswer):
        return "" if aborted else f"{view.transaction}: its coordinator does not describe it: {answer}"
    ended_before = described.state in (ABORTED, "PrepareAbort") and view.started_at_ms is not None
    if aborted and not (ended_before and described.started_at_ms != view.started_at_ms):
        return ""
    same = _is_same(view, described)
    if same and described.state == ABORTED:
        return ""
    if same and described.state == COMMITTED:
        return f"{view.transaction}: its owner committed it first"
    if undecided and is_over(described, number(view.producer_id), number(view.producer_epoch)):
        return ""
    return f"{view.transaction}: it ended before, and its id went on ({answer}): look again"


def why_not_committed(view: OpenTransactionView, described: Described, answer: BrokerAnswer) -> str:
    """Return an empty text when this very transaction was committed by its owner, else what became of it."""
    if isinstance(described, BrokerAnswer):
        return f"{view.transaction}: its coordinator does not describe it: {answer}"
    if _is_same(view, described) and described.state in (COMMITTED, "PrepareCommit"):
        return ""
    if is_open(view, described) and described.state == ONGOING:
        return f"{view.transaction}: {answer}, still open"
    if _is_same(view, described):
        return f"{view.transaction}: it was aborted first ({described.state})"
    return f"{view.transaction}: it ended before, and its id went on ({answer}): look again"


def _is_same(view: OpenTransactionView, described: TransactionDescription) -> bool:
    has_start = view.started_at_ms is not None
    return has_start and (described.producer_id, described.started_at_ms) == (view.producer_id, view.started_at_ms)


def number(value: int | None) -> int:
    """Return a producer id or epoch as the protocol writes it."""
    # Producer id 0 is one like any other; -1 is no producer's.
    return -1 if value is None else value
