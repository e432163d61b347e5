"""A history that is counted over time, and how it is written; times are ms after T0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import EventSeen, Observation
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.views import time_buckets
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import DAY_MS, MINUTE_MS
from indoubt.lifecycle.rows.series import Series
from tests.unit.collector.observations import (
    T0,
    broker_record,
)
from tests.unit.collector.serve.api.served_api import event_seen, observed

LOG, WHERE = ObserverKind.TRANSACTION_LOG.value, ObserverKind.PARTITIONS.value
NOW = T0 + 10 * MINUTE_MS
Ask = Callable[..., Series]


class History:
    """A collector's state over real history, in which sources were observed when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store)
        self._offset = 0

    def observe(self, *observations: Observation) -> None:
        for one in observations:
            self._offset += 1
            is_event = isinstance(one, EventSeen)
            self.current.observe([event_seen(self._offset, one) if is_event else observed(self._offset, one)])

    def commit(self, at: int, transaction: str = "ip-count-0-1", producer_id: int = 0, *, abort: bool = False) -> None:
        what = BrokerStatus.COMPLETE_ABORT if abort else BrokerStatus.COMPLETE_COMMIT
        self.observe(broker_record(what, at, transaction=transaction, producer_id=producer_id, start=at - 100))

    def watch(self, source: str, *spans: tuple[int, int]) -> None:
        columns = [[source] * len(spans), [T0 + begin for begin, _ in spans], [T0 + end for _, end in spans]]
        self.store.transact([(sql.KEEP_SOURCE_WATCHES, columns)])

    def wait(
        self, application: str, at: int, *, waiting: int = 0, longest_ms: int = 0, hidden: int = 0, lag: int = 0
    ) -> None:
        columns = [[T0 + at], 10_000, [application], [waiting], [longest_ms], [hidden], [lag]]
        self.store.transact([(sql.ADD_READER_WAITS, columns)])

    def audit(self, at: int, action: str, keys: str, outcome: str = "accepted") -> None:
        self.store.append_audit((T0 + at, "anna", action, keys, "a reason", outcome, "", "[]"))


def always(history: History) -> None:
    for source in (time_buckets.COLLECTOR, LOG, WHERE):
        history.watch(source, (-2 * DAY_MS, NOW - T0))
