"""Finds where the records of undone transactions are, while that can be found: retention deletes what it is found by.

Of committed ones it finds the same where they were open for a while; most are not, and a look at each would cost too much.

The first offset is reported exactly by the partition's leader, but only while the transaction is open; so those that are open for a
while are asked about in time. What was not asked about in time is found by time: from shortly before it began to its abort.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence

from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import CountingObserver
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.observations import OffsetsSeen
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.views import aborts_and_losses
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Layout, Partition

EVERY_S = 2.0
OPEN_FOR_MS = 5_000
"""Most transactions end sooner; one with a short timeout is asked about after a quarter of it."""
MAX_PARTITIONS = 200
"""Partitions asked about in one poll, of open and of undone transactions each."""
STARTS_KEPT = 20_000
LEAD_MS = 2_000
"""Records have their producer's time, and are made before the transaction's first partition is added."""
ANYTHING_EVERY_S = 10.0
"""What else is learnt may make a transaction that was undone before a lost one: that is looked at so often."""
TRIED_AGAIN_MS = 600_000
"""A partition without an answer is asked about again for this long."""
FOUND_EXACTLY = "first: reported by the partition's leader while it was open; next: first record after its end, by time"
FOUND_BY_TIME = (
    "by time: it holds this transaction's records, others', and maybe not all where the producer's clock is off"
)
Target = tuple[BrokerIdentity, str]


class AbortedOffsets(CountingObserver):
    """Observes open transactions before they end, undone ones that may be lost, and committed ones that were open for long."""

    kind = ObserverKind.OFFSETS

    def __init__(self, current: CurrentState, store: Store, brokers: KafkaPartitions) -> None:
        super().__init__(current, store)
        self._brokers = brokers
        self._starts: dict[Target, int] = {}
        self._version = self._undone = self._committed = -1
        self._looked_s = 0.0
        self._since_ms = 0

    def observe(self) -> None:
        """Poll until stopped. Raises Unreachable, ResourceManagerError."""
        self.repeat(self._poll, EVERY_S)

    def _poll(self) -> None:
        self._poll_open(now_ms())
        self._poll_committed()
        if self._has_news():
            began_ms = now_ms()
            self._poll_undone()
            self._since_ms = began_ms - TRIED_AGAIN_MS

    def _has_news(self) -> bool:
        """Say whether a transaction was undone since the last poll; every 10 s, whether anything at all is new."""
        undone, version, at_s = self.current.ends()[1], self.current.version, time.monotonic()
        has_news = undone != self._undone or (version != self._version and at_s - self._looked_s >= ANYTHING_EVERY_S)
        if has_news:
            self._undone, self._version, self._looked_s = undone, version, at_s
        return has_news

    def _poll_open(self, at_ms: int) -> None:
        wanted = list(itertools.islice(self._without_a_start(at_ms), MAX_PARTITIONS))
        if not wanted:
            return
        layout = self._layout(partition for _, partition in wanted)
        starts = self._brokers.open_producers({_parsed(partition) for _, partition in wanted}, layout).found
        # One that ended meanwhile may have been followed by the next of the same producer.
        still_open = {transaction.identity for transaction in self.current.transactions.open_at_coordinators()}
        for identity, partition in wanted:
            for producer in starts.get(_parsed(partition), ()):
                if producer.producer_id == identity.producer_id and identity in still_open:
                    self._starts[identity, partition] = producer.start_offset
        while len(self._starts) > STARTS_KEPT:
            del self._starts[next(iter(self._starts))]

    def _without_a_start(self, at_ms: int) -> Iterator[Target]:
        """Yield the partitions of transactions that are open for long and whose first offset is not known there."""
        for transaction in self.current.transactions.open_at_coordinators():
            if is_open_long(transaction, at_ms):
                targets = ((transaction.identity, partition) for partition in sorted(transaction.partitions))
                yield from (t for t in targets if t not in self._starts and not is_internal(t[1]))

    def _poll_committed(self) -> None:
        committed = self.current.ends()[0]
        if committed == self._committed:
            return
        with self.current.reading() as state:
            found = [(state.broker.get(identity), partition) for identity, partition in self._starts]
        ended = [(known, partition) for known, partition in found if known is not None and known.complete_commit_ms]
        wanted = ended[:MAX_PARTITIONS]
        self._note([(known, partition, known.complete_commit_ms) for known, partition in wanted])
        if len(wanted) == len(ended):
            self._committed = committed

    def _poll_undone(self) -> None:
        wanted = list(self._unknown_places())[:MAX_PARTITIONS]
        self._note([(broker, partition, broker.complete_abort_ms) for broker, partition in wanted])

    def _note(self, wanted: Sequence[tuple[BrokerTransaction, str, int | None]]) -> None:
        """Look where the records of each are on a partition, by when it ended."""
        if not wanted:
            return
        layout = self._layout(partition for _, partition, _ in wanted)
        found = (self._found(*each, layout) for each in wanted)
        self.tell(offsets for offsets in found if offsets is not None)

    def _unknown_places(self) -> Iterator[tuple[BrokerTransaction, str]]:
        """Yield the partitions of transactions that are or may be lost and whose offsets are not known, newest first."""
        losses, _ = aborts_and_losses.losses_in_memory(self.current, since_ms=self._since_ms)
        for loss in losses:
            broker = loss.view.broker
            if (
                loss.verdict not in (LossVerdict.LOST, LossVerdict.UNKNOWN)
                or broker is None
                or broker.complete_abort_ms is None
            ):
                continue
            known = {seen.partition for seen in loss.offsets}
            for partition in sorted(broker.partitions - known):
                if not is_internal(partition):
                    yield broker, partition

    def _found(
        self, broker: BrokerTransaction, partition: str, ended_ms: int | None, layout: Layout
    ) -> OffsetsSeen | None:
        if ended_ms is None:
            return None
        place = _parsed(partition)
        began = self._brokers.offsets_at({place: broker.identity.start_ms - LEAD_MS}, layout).found
        ended = self._brokers.offsets_at({place: ended_ms + 1}, layout).found
        if place not in began or place not in ended:
            return None
        next_offset = ended[place]
        if next_offset is None:
            next_offset = self._brokers.high_watermarks([place], layout).found.get(place)
        exact = self._starts.pop((broker.identity, partition), None)
        return OffsetsSeen(
            transaction=broker.identity.transaction,
            producer_id=broker.identity.producer_id,
            start_ms=broker.identity.start_ms,
            partition=partition,
            first=exact if exact is not None else began[place],
            first_is_exact=exact is not None,
            next_offset=next_offset,
            how=FOUND_EXACTLY if exact is not None else FOUND_BY_TIME,
            at_ms=now_ms(),
        )

    def _layout(self, partitions: Iterable[str]) -> Layout:
        return self._brokers.layout(sorted({topic for topic, _ in map(_parsed, partitions)}))


def _parsed(partition: str) -> Partition:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def is_open_long(transaction: BrokerTransaction, at_ms: int) -> bool:
    """Say whether a transaction is open for so long that it may well be undone."""
    wait_ms = min(OPEN_FOR_MS, transaction.timeout_ms // 4) if transaction.timeout_ms else OPEN_FOR_MS
    return transaction.ended_ms is None and at_ms - transaction.identity.start_ms >= wait_ms


def is_internal(partition: str) -> bool:
    """Say whether a partition is the broker's own: offsets are no records that users read."""
    return partition.startswith("__")
