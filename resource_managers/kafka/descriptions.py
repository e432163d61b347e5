"""What a coordinator's description of a transactional id (a row of DescribeTransactions, or an error class) means."""

from __future__ import annotations

import time
from typing import Any

from kafka import errors as kafka_errors

from lifecycle.identity import Handle
from resource_managers.kafka_wire import ErrorClass
from resource_managers.protocol import OpenTransactionView, Readiness

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
COMMITTED, ABORTED = "CompleteCommit", "CompleteAbort"
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
    return Readiness(handle=handle, ready=True, time_left_ms=max(0, ends_ms - time.time_ns() // 1_000_000))


def is_open(view: OpenTransactionView, row: Any) -> bool:
    """Say whether this very transaction is open or being completed."""
    if row is None or isinstance(row, type):
        return not (isinstance(row, type) and issubclass(row, kafka_errors.TransactionalIdNotFoundError))
    if row.transaction_state not in OPEN_STATES or row.producer_id != view.producer_id:
        return False
    # Same start: still this transaction, whatever the epoch that completing it has now.
    return bool(row.transaction_start_time_ms == view.started_at_ms)


def why_not_aborted(view: OpenTransactionView, row: Any, answer: ErrorClass, aborted: bool) -> str:
    """Return an empty text when this very transaction was aborted, by us or before; else what became of it."""
    if aborted:
        return ""
    if row is None or isinstance(row, type):
        return f"{view.transaction}: its coordinator does not describe it: {answer.__name__}"
    same = (row.producer_id, row.transaction_start_time_ms) == (view.producer_id, view.started_at_ms)
    if same and row.transaction_state == ABORTED:
        return ""
    if same and row.transaction_state == COMMITTED:
        return f"{view.transaction}: its owner committed it first"
    return f"{view.transaction}: it ended before, and its id went on ({answer.__name__}): look again"


def number(value: int | None) -> int:
    """Return a producer id or epoch as the protocol writes it."""
    # Producer id 0 is one like any other; -1 is nobody's.
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
