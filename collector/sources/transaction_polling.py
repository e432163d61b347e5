"""Observes transactions by ListTransactions and DescribeTransactions, where ``__transaction_state`` may not be read."""

from __future__ import annotations

import threading

from collector.history.store import Store
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import BrokerRecord, Observed, Position
from collector.records.observer_kind import ObserverKind
from collector.runtime.clock import now_ms
from collector.sources.source import Observer
from collector.views.current_state import CurrentState
from lifecycle.errors import ResourceManagerError
from resource_managers.kafka.resource_manager import KafkaResourceManager
from resource_managers.protocol import OpenTransactionView

WAIT_S = 0.2
_STATUS = {status.name.replace("_", "").lower(): status for status in BrokerStatus}
"""ListTransactions says PrepareCommit where the log says 2."""


class TransactionPolling(Observer):
    """Polls; stands in while ``needed`` is set, or always when it is None."""

    kind = ObserverKind.TRANSACTION_POLLING

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        broker: KafkaResourceManager,
        *,
        interval_ms: int,
        retry_max_ms: int,
        needed: threading.Event | None,
    ) -> None:
        super().__init__(current, retry_max_ms)
        self._broker, self._interval_s, self._needed = broker, interval_ms / 1000, needed
        self._open: set[str] = set()
        self._next_offset = store.next_offsets(self.name).get(0, 0)

    @property
    def is_listed(self) -> bool:
        """Say whether it stands in at all."""
        return self._needed is None or self._needed.is_set()

    @property
    def note(self) -> str:
        """Return what is coarser than in the log."""
        return (
            f"one poll every {self._interval_s:g} s: a transaction that opens and ends between two polls is not seen, "
            "and ends have the time of the look"
        )

    def observe(self) -> None:
        """Poll until stopped. Raises ResourceManagerError, Unreachable."""
        while not self.stopping.is_set():
            if not self.is_listed:
                self.stopping.wait(WAIT_S)
                continue
            records = [self._record(view) for view in self._poll()]
            changed = [record for record in records if record is not None and not self.current.knows(record)]
            if changed:
                self.arrived([self._observed(record) for record in changed])
            self.polled()
            self.stopping.wait(self._interval_s)

    def _poll(self) -> list[OpenTransactionView]:
        """Return what is open, and how those ended that were open at the poll before."""
        views = self._broker.list_transactions()
        now_open = {view.transaction for view in views}
        ended = self._broker.describe(sorted(self._open - now_open))
        self._open = now_open
        return [*views, *ended]

    def _record(self, view: OpenTransactionView) -> BrokerRecord | None:
        if view.producer_id is None or view.producer_epoch is None:
            return None
        status = _STATUS.get(view.state.replace("_", "").lower())
        if status is None:
            raise ResourceManagerError(f"transaction {view.transaction} has state {view.state!r}, which is unknown")
        if view.started_at_ms is None or view.started_at_ms < 0:
            return None
        return BrokerRecord(
            transaction=view.transaction,
            producer_id=view.producer_id,
            producer_epoch=view.producer_epoch,
            status=status,
            start_ms=view.started_at_ms,
            update_ms=view.started_at_ms if status is BrokerStatus.ONGOING else now_ms(),
            timeout_ms=view.timeout_ms,
            partitions=tuple(f"{topic}-{partition}" for topic, partition in view.partitions),
            # Polling does not report it; 0 keeps the epoch as it is seen.
            client_transaction_version=0,
            source=self.name,
        )

    def _observed(self, record: BrokerRecord) -> Observed:
        position = Position(source=self.name, partition=0, offset=self._next_offset)
        self._next_offset += 1
        return Observed(position=position, observation=record)
