"""One transaction in full, as GET /transactions/{key} has it: what each source tells of it, and its steps; all times epoch ms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.branches import BranchDetail
from indoubt.collector.records.observations import OperatorOrder
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.transaction_rows import loss_row, transaction_row
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.resource_manager_kinds import FLINK_SINKS
from indoubt.lifecycle.rows.row_json import fields_of
from indoubt.lifecycle.rows.transactions import (
    DecisionSummary,
    TimelineEntry,
    TransactionDetailRow,
)

_EVENTS = "lifecycle events"
_OPENED, _PREPARED, _DECIDED, _COMMITTED, _ABORTED = "opened", "prepared", "commit decided", "committed", "aborted"
_STEPS = {
    EventType.TRANSACTION_OPENED: _OPENED,
    EventType.TRANSACTION_PREPARED: _PREPARED,
    EventType.TRANSACTION_COMMIT_DECIDED: _DECIDED,
    EventType.TRANSACTION_COMMITTED: _COMMITTED,
    EventType.TRANSACTION_ABORTED: _ABORTED,
    EventType.TRANSACTION_LOST: "lost, as its driver found",
    EventType.TRANSACTION_TIMEOUT_NEAR: "its timeout is near",
}


def detail_row(
    judged: Judged, orders: Sequence[OperatorOrder], siblings: Sequence[str], loss: Loss | None
) -> TransactionDetailRow:
    """Return the answer of GET /transactions/{key}."""
    view = judged.view
    return TransactionDetailRow(
        **fields_of(transaction_row(judged)),
        timeline=timeline(view, orders),
        siblings=tuple(siblings),
        decision=_decision(view),
        handle=view.handle.to_json() if view.handle is not None else None,
        broker=_broker_view(view),
        branch=_branch_view(view),
        last_seen_ms=judged.pipeline.facts.last_seen_ms if judged.pipeline is not None else None,
        loss=loss_row(loss) if loss is not None else None,
    )


def _decision(view: TransactionView) -> DecisionSummary | None:
    numbered = view.listing or (view.first_decision[:2] if view.first_decision is not None else None)
    if numbered is None:
        return None
    offset, decision = numbered
    return DecisionSummary(offset=offset, at_ms=decision.at_ms, who=decision.who, ruling=decision.ruling.value)


def _broker_view(view: TransactionView) -> dict[str, Any] | None:
    broker = view.broker
    if broker is None:
        return None
    return {
        "source": broker.source,
        "producer_id": broker.identity.producer_id,
        "ongoing_epoch": broker.ongoing_epoch,
        "end_epoch": broker.end_epoch,
        "start_ms": broker.identity.start_ms,
        "last_write_ms": broker.last_write_ms,
        "timeout_ms": broker.timeout_ms,
        "prepare_commit_ms": broker.prepare_commit_ms,
        "prepare_abort_ms": broker.prepare_abort_ms,
        "complete_commit_ms": broker.complete_commit_ms,
        "complete_abort_ms": broker.complete_abort_ms,
        "partitions": sorted(broker.partitions),
    }


def _branch_view(view: TransactionView) -> dict[str, Any] | None:
    """Return what its database tells of a branch, or None for what is none."""
    branch, detail = view.branch, view.branch_detail or BranchDetail()
    if branch is None:
        return None
    return {
        "instance": branch.instance,
        "database": branch.database or None,
        "owner": branch.owner or None,
        "prepared_at_ms": branch.prepared_ms,
        "first_seen_at_ms": branch.first_seen_ms,
        "listed": branch.is_listed,
        "polled_at_ms": view.polled_ms,
        "gone_at_ms": branch.gone_ms,
        "marker": branch.proof.value if branch.proof is not None else None,
        "transaction_age": detail.transaction_age,
        "locks": [fields_of(lock) for lock in detail.locks.held],
        "waiting": [fields_of(lock) | {"relation": lock.relation or None} for lock in detail.locks.waiting],
    }


class _Told(NamedTuple):
    at_ms: int
    step: str
    what: str
    source: str


def timeline(view: TransactionView, orders: Sequence[OperatorOrder]) -> tuple[TimelineEntry, ...]:
    """Return what is known to have happened to a transaction, oldest first."""
    told = [*_by_coordinator(view), *_by_database(view), *_by_decision_log(view)]
    told += [
        _Told(order.at_ms, "order", f"{order.action} ordered by {order.who}, audit {order.audit}", "audit")
        for order in orders
    ]
    reported = dict(_by_events(view))
    entries = []
    for at_ms, step, what, source in told:
        # Events tell of it as well: its time is that of the source that decides.
        sources = source if reported.pop(step, None) is None else f"{source}, {_EVENTS}"
        entries.append((at_ms, what, sources))
    entries += [(at_ms, step, _EVENTS) for step, at_ms in reported.items()]
    return tuple(TimelineEntry(at_ms=at_ms, what=what, source=source) for at_ms, what, source in sorted(entries))


def _by_coordinator(view: TransactionView) -> Iterator[_Told]:
    broker = view.broker
    if broker is None:
        return
    marks = (
        (_OPENED, broker.identity.start_ms),
        ("commit accepted", broker.prepare_commit_ms),
        ("abort accepted", broker.prepare_abort_ms),
        (_COMMITTED, broker.complete_commit_ms),
        (_ABORTED, broker.complete_abort_ms),
    )
    for step, at_ms in marks:
        if at_ms is not None:
            yield _Told(at_ms, step, step, broker.source)


def _by_database(view: TransactionView) -> Iterator[_Told]:
    branch = view.branch
    if branch is None:
        return
    is_file = branch.resource_manager in FLINK_SINKS
    proof = "file" if is_file else "marker"
    marker = f", {proof}: {branch.proof.value}" if branch.proof is not None else ""
    marks = (
        (branch.prepared_ms, "prepared"),
        (branch.first_seen_ms, "first seen"),
        (branch.gone_ms, f"not {'hidden' if is_file else 'listed'} any more{marker}"),
    )
    for at_ms, what in marks:
        if at_ms is not None:
            yield _Told(at_ms, what, what, branch.listed_by)


def _by_decision_log(view: TransactionView) -> Iterator[_Told]:
    if view.first_decision is not None:
        offset, decision, counts = view.first_decision
        void = "" if counts else " (void: a newer run had started)"
        step = _DECIDED if decision.ruling is Ruling.COMMIT else "abort decided"
        yield _Told(decision.at_ms, step, f"{step} by {decision.who}, offset {offset}{void}", "decision log")
    if view.outcome is not None:
        settled = view.outcome.settled.value
        yield _Told(view.outcome.at_ms, "outcome", f"found {settled} by {view.outcome.who}", "decision log")


def _by_events(view: TransactionView) -> Iterator[tuple[str, int]]:
    if view.reported is not None:
        for type_, at_ms in view.reported.event_times.items():
            yield _STEPS[type_], at_ms
