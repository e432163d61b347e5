"""The steps of a transaction, oldest first: one row a step, with every source that reported it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collector.records.observations import OperatorOrder
from collector.rows.branches import branch_timeline
from collector.state.transaction_view import TransactionView
from lifecycle.decisions import Ruling
from lifecycle.events import EventType
from lifecycle.rows.transactions import TimelineEntry

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
    for at_ms, what, source in branch_timeline(view):
        yield _Told(at_ms, what, what, source)


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
