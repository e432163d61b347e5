"""Observes transactions by ListTransactions and DescribeTransactions, where ``__transaction_state`` may not be read."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import CountingObserver
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from indoubt.resource_managers.kafka.descriptions import OPEN_STATES
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.protocol import OpenTransactionView

WAIT_S = 0.2
SHOWN_IDS = 3
ENDED = (BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT)
_STATUS = {status.name.replace("_", "").lower(): status for status in BrokerStatus}
"""ListTransactions says PrepareCommit where the log says 2."""


class MayNotDescribe(ResourceManagerError):
    """A transactional id that is known may not be described: its coordinator's silence about it, and about others, says nothing."""


class TransactionPolling(CountingObserver):
    """Polls; stands in while ``needed`` is set, or always when it is None."""

    kind = ObserverKind.TRANSACTION_POLLING

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        partitions: KafkaPartitions,
        *,
        interval_ms: int,
        needed: threading.Event | None,
    ) -> None:
        super().__init__(current, store)
        self._partitions, self._interval_s, self._needed = partitions, interval_ms / 1000, needed
        self._unanswered = ""

    @property
    def is_listed(self) -> bool:
        """Say whether it stands in at all."""
        return self._needed is None or self._needed.is_set()

    @property
    def note(self) -> str:
        """Return what is coarser than in the log, and whose coordinator did not answer."""
        coarser = (
            f"one poll every {self._interval_s:g} s: a transaction that opens and ends between two polls is not seen, "
            "ends have the time of the look, and of some only that they ended is seen. An id that the collector's user may "
            "not describe is not listed"
        )
        return f"{self._unanswered}; {coarser}" if self._unanswered else coarser

    def observe(self) -> None:
        """Poll until stopped. Raises MayNotDescribe, Unreachable, ResourceManagerError."""
        while not self.stopping.is_set():
            if not self.is_listed:
                self.stopping.wait(WAIT_S)
                continue
            self._poll()
            self.polled()
            self.stopping.wait(self._interval_s)

    def _poll(self) -> None:
        """Ask what is open, what became of all that was, and of one id that is known where nothing is.

        ListTransactions leaves out ids that may not be described, without an error. DescribeTransactions refuses them by name.
        """
        were_open = {
            transaction.identity: transaction for transaction in self.current.transactions.open_at_coordinators()
        }
        known = {identity.transaction for identity in were_open}
        if not known and (seen_last := self.current.transactions.id_seen_last()) is not None:
            known = {seen_last}
        listed = self._partitions.listed_ids(OPEN_STATES)
        answers = self._partitions.describe_transactions({*listed, *known})
        seen = records(were_open, answers.found, source=self.name, at_ms=now_ms())
        self.tell([record for record in seen if not self.current.knows(record)])
        self._unanswered = _text({id_: error for id_, error in answers.failed.items() if not error.is_refusal})
        if self._unanswered and not answers.found:
            raise Unreachable(self._unanswered)
        refused = {id_: error for id_, error in answers.failed.items() if error.kind is AnswerKind.NOT_AUTHORIZED}
        if refused:
            raise MayNotDescribe(
                f"{_text(refused)}: what became of transactions may not be seen. Give the collector's user Describe on "
                f"transactional ids, or Read on topic __transaction_state"
            )


def records(
    were_open: Mapping[BrokerIdentity, BrokerTransaction],
    described: Mapping[str, OpenTransactionView | None],
    *,
    source: str,
    at_ms: int,
) -> list[BrokerRecord]:
    """Return what these descriptions say of transactions; of those that were open before them also that they ended.

    Raises ResourceManagerError for a state that is not known.
    """
    found = [record for view in described.values() if view is not None and (record := _record(view, source, at_ms))]
    told = {(record.transaction, record.start_ms): record for record in found}
    for identity, transaction in were_open.items():
        if identity.transaction not in described:
            continue
        record = told.get((identity.transaction, identity.start_ms))
        if record is None:
            found.append(_gone(transaction, source, at_ms))
        elif record.producer_id != identity.producer_id:
            # Once its epochs are used up a producer id is changed with the very state that ends the transaction.
            found.remove(record)
            found.append(_gone(transaction, source, at_ms, record.status if record.status in ENDED else None))
    return found


def _gone(transaction: BrokerTransaction, source: str, at_ms: int, status: BrokerStatus | None = None) -> BrokerRecord:
    """Return that a transaction has ended: its coordinator has its id empty, with another producer or start, or no more.

    How is known only where its coordinator said so (``status``), or was seen to have begun its end: it does not turn back.
    """
    if status is None:
        status = BrokerStatus.DEAD
        if transaction.is_committing:
            status = BrokerStatus.COMPLETE_COMMIT
        elif transaction.is_aborting:
            status = BrokerStatus.COMPLETE_ABORT
    epoch = transaction.end_epoch if transaction.end_epoch is not None else transaction.ongoing_epoch
    return BrokerRecord(
        transaction=transaction.identity.transaction,
        producer_id=transaction.identity.producer_id,
        producer_epoch=epoch or 0,
        status=status,
        start_ms=transaction.identity.start_ms,
        update_ms=at_ms,
        timeout_ms=transaction.timeout_ms,
        partitions=(),
        client_transaction_version=0,
        source=source,
    )


def _record(view: OpenTransactionView, source: str, at_ms: int) -> BrokerRecord | None:
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
        update_ms=view.started_at_ms if status is BrokerStatus.ONGOING else at_ms,
        timeout_ms=view.timeout_ms,
        partitions=tuple(f"{topic}-{partition}" for topic, partition in view.partitions),
        # Polling does not report it; 0 keeps the epoch as it is seen.
        client_transaction_version=0,
        source=source,
    )


def _text(failed: Mapping[str, BrokerAnswer]) -> str:
    if not failed:
        return ""
    shown = ", ".join(f"{id_} ({failed[id_].name})" for id_ in sorted(failed)[:SHOWN_IDS])
    more = f" and {len(failed) - SHOWN_IDS} more" if len(failed) > SHOWN_IDS else ""
    return f"no description of transactional id {shown}{more}"
