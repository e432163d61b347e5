"""What a coordinator's description of a transactional id (a row of DescribeTransactions, or an error class) means."""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors

from lifecycle.clock import now_ms
from lifecycle.identity import Handle
from resource_managers.kafka.wire import ErrorClass
from resource_managers.protocol import OpenTransactionView, Readiness

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
COMMITTED, ABORTED = "CompleteCommit", "CompleteAbort"
EPOCHS_OF_AN_END = 2
"""How far the end of a transaction moves its epoch at most: 4.0.0 adds two where it ends one by itself (KAFKA-19367)."""
REFUSED = (kafka_errors.AuthorizationError, kafka_errors.UnsupportedVersionError)
"""No retry will change these."""


def is_transient(row: Any) -> bool:
    """Say whether asking again may give a row."""
    return isinstance(row, type) and not issubclass(row, (*REFUSED, kafka_errors.TransactionalIdNotFoundError))


def readiness(handle: Handle, row: Any) -> Readiness:
    """Say whether the transaction is still open at its epoch, and for how long by this machine's clock."""
    reason = ""
    if row is None or isinstance(row, type):
        reason = f"its coordinator does not describe it: {getattr(row, '__name__', 'no answer')}"
    elif (row.producer_id, row.producer_epoch) != (handle.producer_id, handle.producer_epoch):
        reason = f"another producer took the id (epoch {row.producer_epoch}, ours was {handle.producer_epoch})"
    elif row.transaction_state != "Ongoing":
        reason = f"it is {row.transaction_state}, not Ongoing"
    if reason:
        return Readiness(handle=handle, ready=False, time_left_ms=0, reason=reason)
    ends_ms = row.transaction_start_time_ms + row.transaction_timeout_ms
    return Readiness(handle=handle, ready=True, time_left_ms=max(0, ends_ms - now_ms()))


def is_open(view: OpenTransactionView, row: Any) -> bool:
    """Say whether this very transaction is open or being completed."""
    if row is None or isinstance(row, type):
        return not (isinstance(row, type) and issubclass(row, kafka_errors.TransactionalIdNotFoundError))
    if row.transaction_state not in OPEN_STATES or row.producer_id != view.producer_id:
        return False
    # Same start: still this transaction, whatever the epoch that completing it has now.
    return bool(row.transaction_start_time_ms == view.started_at_ms)


def is_over(row: Any, producer_id: int, epoch: int) -> bool:
    """Say whether the transaction that was written at this epoch is over for its coordinator, every marker of it included.

    For producers that take their id anew for each transaction, as ours do: an epoch then has one transaction at most. So one
    at the epoch of an id that is ``Empty`` has yet to begin. False where the coordinator did not answer.
    """
    if row is None or isinstance(row, type):
        return row is not None and issubclass(row, kafka_errors.TransactionalIdNotFoundError)
    if row.producer_id != producer_id:
        return True
    ahead = row.producer_epoch - epoch
    if row.transaction_state == "Ongoing":
        return bool(ahead > 0)
    if row.transaction_state in OPEN_STATES:
        # It may be this very one that is being ended.
        return bool(ahead > EPOCHS_OF_AN_END)
    return bool(ahead > 0 or (ahead == 0 and row.transaction_state in (COMMITTED, ABORTED)))


def why_not_aborted(view: OpenTransactionView, row: Any, answer: ErrorClass, *, aborted: bool) -> str:
    """Return an empty text when this very transaction was aborted, by us or before; else what became of it.

    ``aborted``: our EndTxn(abort) was accepted. At transaction.version 2 it is of an ended one too, which it then aborts anew,
    with nothing in it: that one begins at another time.
    """
    is_row = row is not None and not isinstance(row, type)
    ended_before = is_row and row.transaction_state in (ABORTED, "PrepareAbort") and view.started_at_ms is not None
    if aborted and not (ended_before and row.transaction_start_time_ms != view.started_at_ms):
        return ""
    if not is_row:
        return f"{view.transaction}: its coordinator does not describe it: {answer.__name__}"
    same = (row.producer_id, row.transaction_start_time_ms) == (view.producer_id, view.started_at_ms)
    if same and row.transaction_state == ABORTED:
        return ""
    if same and row.transaction_state == COMMITTED:
        return f"{view.transaction}: its owner committed it first"
    return f"{view.transaction}: it ended before, and its id went on ({answer.__name__}): look again"


def number(value: int | None) -> int:
    """Return a producer id or epoch as the protocol writes it."""
    # Producer id 0 is one like any other; -1 is no producer's.
    return -1 if value is None else value


def view_of(id_: str, row: Any) -> OpenTransactionView:
    """Return a row as the domain's value."""
    return OpenTransactionView(
        resource_manager="kafka",
        transaction=id_,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        state=row.transaction_state,
        started_at_ms=row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        timeout_ms=row.transaction_timeout_ms,
        partitions=tuple((topic.topic, partition) for topic in row.topics for partition in topic.partitions),
    )
