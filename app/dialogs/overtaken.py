"""Who or what was faster than an open dialog: the sentence that takes the place of its form."""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import ago, since
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.resource_manager_kinds import KAFKA
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.states import TransactionState

MOST_KEYS, NEWEST = 100, 5
"""So many keys takes a look at orders; so many of the newest are looked at."""
_DONE = {
    "commit": "committed",
    "abort": "aborted",
    "settle": "settled",
    "restart": "restarted",
    "start": "started",
    "stop": "stopped",
}
_UNDONE = (TransactionState.ABORTING, TransactionState.ABORTED, TransactionState.LOST)


def collectors_time_ms() -> int:
    """Return the time by the collector's clock, which dates its audit; by this machine's where that cannot be asked."""
    try:
        return live.collector().status().now_ms
    except CollectorError:
        return now_ms()


def said(*sentence: object) -> Html:
    """Return the sentence as it stands in a dialog."""
    return el("p", *sentence, class_="result overtaken", role="status")


def order_under_way(keys: Sequence[str]) -> Html | None:
    """Return who gives an order about these right now; None: nobody. Raises CollectorError."""
    for row in live.collector().under_way(keys[:MOST_KEYS]):
        # One with an audit row was sent; how it ended is looked up, and it may have to be given again.
        if row.audit is None:
            what = f"{row.who} gave the order to {row.action} this: under way for "
            return said(el("b", what, since(row.at_ms)), f". {row.reason}")
    return None


def order_since(keys: Sequence[str], shown_at_ms: int) -> Html | None:
    """Return ``anna committed this 3 s ago``; None: no order about these was carried out since. Raises CollectorError."""
    for entry in live.collector().audit(keys=keys[:MOST_KEYS], limit=NEWEST):
        if entry.at_ms >= shown_at_ms and entry.outcome == "accepted":
            done = _DONE.get(entry.action, entry.action)
            return said(el("b", f"{entry.who} {done} this ", ago(entry.at_ms)), f". {entry.reason}")
    return None


def what_became(shown: Sequence[TransactionRow], now: Sequence[TransactionRow | None], at_ms: int) -> Html:
    """Return what became of transactions by no order from here; ``now``: as they are, None where one is gone."""
    it, is_, has = ("It", "is", "has") if len(shown) == 1 else ("They", "are", "have")
    states = {after.state if after is not None else None for after in now}
    timed_out = any(before.deadline_ms is not None and before.deadline_ms <= at_ms for before in shown)
    on_kafka = all(before.resource_manager == KAFKA.name for before in shown)
    if states <= {*_UNDONE} and timed_out and on_kafka:
        return said(el("b", f"Kafka aborted {it.lower().replace('they', 'them')} at the timeout."))
    state = states.pop() if len(states) == 1 else TransactionState.OPEN
    if state is None:
        return said(el("b", f"{it} {has} ended."), " The collector does not keep it any more: search the history.")
    if state.is_final:
        return said(el("b", f"{it} {is_} {state.value}."), " No order from here did that.")
    return said(el("b", f"{it} {has} changed since you opened this."))
