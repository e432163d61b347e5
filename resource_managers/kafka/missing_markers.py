"""End markers that a coordinator takes for written and a partition has not: seen, and written where their kind is proven.

A coordinator that finds no leader for a partition at the moment takes the partition for deleted and completes the transaction
without it (Kafka 4.3.1, KAFKA-20734; seen most times when a broker that has accepted EndTxn is killed and started again). The rows
stay hidden, their readers blocked, the offsets of the transaction unstable; and the next transaction of the same producer
there would take the rows along, to commit or to abort them with its own.

Producer id and epoch say which transaction the rows belong to: our writers take a new producer epoch for each transaction, and
write nothing while an older one of that id is open on a partition. A marker is written at that very epoch. The
partition refuses it once a later epoch has written there, so it never ends what is live.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from indoubt.lifecycle.identity import Handle, TransactionalId, marker_group
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.answers import NO_LEADER, AnswerKind, BrokerAnswer
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from indoubt.resource_managers.kafka.descriptions import COMMITTED, Described, TransactionDescription, is_over, word
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Layout, OpenProducer, Partition
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.protocol import OpenTransactionView

LEFT_OPEN = "LeftOpen"
"""State of a transaction that is over for its coordinator and open on a partition; not one of Kafka's."""
SETTLING_S = 2.0
"""A coordinator writes the markers a moment after it has accepted the end: so long is waited for them."""
REMEDY = (
    "the next start of the pipeline writes the marker if its user has Alter on the cluster; else end it by an order of the "
    "collector"
)
RETRY = Backoff(first_s=0.002, max_s=0.1)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A transaction of ours of which it is proven how it ended, or that it may never be committed. ``epoch``: its writer's."""

    transaction: str
    producer_id: int
    epoch: int
    commit: bool

    def __str__(self) -> str:
        return f"{self.transaction} (producer {self.producer_id}, epoch {self.epoch})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """What is left open: ``found`` by transactional id, and why some partitions did not say."""

    found: list[tuple[str, OpenProducer]]
    unseen: dict[Partition, BrokerAnswer]


class _MayAnswerSoon(Unreachable):
    """A coordinator that has just moved, or is starting."""


class MissingMarkers:
    """Looks at a topic's partitions and at the offsets of our slots. Thread-safe: it keeps no state.

    ``topic``: where our rows are; empty: anywhere on the cluster.
    """

    def __init__(self, connection: KafkaConnection, topic: str, decisions_topic: str) -> None:
        self._connection, self._topic, self._decisions_topic = connection, topic, decisions_topic
        self._partitions = KafkaPartitions(connection, decisions_topic)

    def write(self, ended: Sequence[Ended]) -> list[str]:
        """Write the markers that are missing of these; return for each why it may be open still, empty: it is not.

        What its coordinator is about to end is left to it. Raises nothing of Kafka's: what is left open hangs, and the next
        writer of its id refuses to begin.
        """
        reasons = [""] * len(ended)
        try:
            rows = self._once_over(ended)
        except Unreachable as error:
            return [f"{end}: {error}" for end in ended]
        over: dict[tuple[int, int], int] = {}
        for index, end in enumerate(ended):
            described = rows[end.transaction]
            if not is_over(described, end.producer_id, end.epoch):
                reasons[index] = f"{end}: its coordinator has not ended it yet ({word(described)})"
            elif not end.commit and _committed(described, end):
                # Whoever calls it undecided is wrong about it, or reads another decision log: its rows are not thrown away.
                reasons[index] = f"{end}: its coordinator says that it was committed: no abort marker is written"
                log.error("%s", reasons[index])
            else:
                over[end.producer_id, end.epoch] = index
        if not over:
            return reasons
        try:
            layout = self._layout([ended[index].transaction for index in over.values()])
        except Unreachable as error:
            return [reason or f"{end}: {error}" for end, reason in zip(ended, reasons, strict=True)]
        answers = self._partitions.open_producers(layout.leaders.keys(), layout)
        for producer in (producer for producers in answers.found.values() for producer in producers):
            index = over.get((producer.producer_id, producer.producer_epoch), -1)
            if index >= 0:
                reasons[index] = self._end(ended[index], producer, layout) or reasons[index]
        if unseen := {**dict.fromkeys(layout.leaderless, NO_LEADER), **answers.failed}:
            log.warning("whether transactions ended is not known on %s", _named(unseen))
        return reasons

    def left_open(self, ids: Collection[str], layout: Layout | None = None) -> LeftOpen:
        """Return what these ids' producers hold open on partitions though their coordinators are done with it.

        ``layout``: the partitions to look at, else the topic's and, where a slot's offsets are unstable, those of all offsets.
        Raises Unreachable when a coordinator does not answer, or no broker tells where the partitions are.
        """
        rows = wire(self._connection).describe_transactions(list(ids)) if ids else {}
        by_producer: dict[int, TransactionDescription] = {}
        for id_, described in rows.items():
            if isinstance(described, BrokerAnswer):
                if described.kind is not AnswerKind.UNKNOWN_ID:
                    kind = _MayAnswerSoon if described.may_pass else Unreachable
                    raise kind(f"the coordinator of {id_} does not describe it: {described}")
            # A producer id at its first epoch, without a transaction yet, has never written anything.
            elif described.producer_epoch > 0 or described.state != "Empty":
                by_producer[described.producer_id] = described
        if not by_producer:
            return LeftOpen(found=[], unseen={})
        layout = layout or self._layout(list(ids))
        answers = self._partitions.open_producers([*layout.leaders, *layout.leaderless], layout)
        found = [
            (by_producer[producer.producer_id].transaction, producer)
            for producers in answers.found.values()
            for producer in producers
            if producer.producer_id in by_producer
            and is_over(by_producer[producer.producer_id], producer.producer_id, producer.producer_epoch)
        ]
        return LeftOpen(found=found, unseen=answers.failed)

    def require_nothing_left_open(self, ids: Collection[str], leaders: Mapping[int, int]) -> None:
        """Return when nothing of these ids is left open on the topic: what is written now would be ended together with it.

        ``leaders``: of its partitions, as far as they are known. Raises ResourceManagerError when something is, or when it
        is not known of every partition within CALL_LIMIT_S.
        """
        deadline = time.monotonic() + CALL_LIMIT_S
        layout: Layout | None = layout_of(self._topic, leaders)
        while True:
            try:
                left = self.left_open(ids, layout)
            except _MayAnswerSoon:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY.max_s)
                continue
            if left.found:
                id_, producer = left.found[0]
                raise ResourceManagerError(
                    f"{id_}: producer {producer.producer_id}, epoch {producer.producer_epoch} is over for its coordinator "
                    f"and open on {_name(producer.partition)}, where its end marker is missing; rows written now would be "
                    f"ended with it: {REMEDY}"
                )
            refused = {partition: answer for partition, answer in left.unseen.items() if answer.is_refusal}
            if not left.unseen:
                return
            if refused or time.monotonic() > deadline:
                raise Unreachable(
                    f"whether an earlier transaction is left open is not known of {_named(refused or left.unseen)}: "
                    "nothing is written until it is"
                )
            time.sleep(RETRY.max_s)
            layout = self._partitions.layout([self._topic])

    def refusal(self) -> str:
        """Return why the topic's open producers may not be read, an empty text where they may. Raises Unreachable."""
        layout = self._partitions.layout([self._topic])
        refused = self._partitions.open_producers(layout.leaders.keys(), layout).failed.values()
        return next((answer.name for answer in refused if answer.is_refusal), "")

    def views(self, ids: Collection[str]) -> list[OpenTransactionView]:
        """Return what these ids have left open, as transactions in the state ``LeftOpen``. Raises Unreachable."""
        left = self.left_open(ids)
        if left.unseen:
            log.warning("whether transactions ended is not known on %s", _named(left.unseen))
        places: dict[tuple[str, int, int], list[Partition]] = {}
        for id_, producer in left.found:
            places.setdefault((id_, producer.producer_id, producer.producer_epoch), []).append(producer.partition)
        return [
            OpenTransactionView(
                resource_manager="kafka",
                transaction=id_,
                producer_id=producer_id,
                producer_epoch=epoch,
                state=LEFT_OPEN,
                partitions=tuple(partitions),
            )
            for (id_, producer_id, epoch), partitions in places.items()
        ]

    def _once_over(self, ended: Sequence[Ended]) -> dict[str, Described]:
        """Return what their coordinators say, as soon as they are done with all of these, or after a while."""
        deadline = time.monotonic() + SETTLING_S
        pauses = RETRY.pauses()
        rows: dict[str, Described] = {}
        left = list(ended)
        while left:
            connection = wire(self._connection, SETTLING_S)
            rows |= connection.describe_transactions([end.transaction for end in left])
            left = [end for end in left if not _settled(rows[end.transaction], end)]
            if not left or time.monotonic() > deadline:
                break
            time.sleep(next(pauses))
        return rows

    def _layout(self, ids: Sequence[str]) -> Layout:
        """Return where rows and offsets of these ids may be. Raises Unreachable."""
        if not self._topic:
            return self._partitions.layout()
        topics = [self._topic] if self._offsets_are_stable(ids) else [self._topic, CONSUMER_OFFSETS]
        return self._partitions.layout(topics)

    def _offsets_are_stable(self, ids: Sequence[str]) -> bool:
        """Say whether no transaction holds the offsets of these ids' slots: then nothing is open there."""
        pooled = [parsed for id_ in ids if (parsed := TransactionalId.parse(id_)) is not None]
        groups = list(dict.fromkeys(marker_group(parsed.prefix, parsed.slot) for parsed in pooled))
        answers = wire(self._connection).committed_offsets(groups, self._decisions_topic, stable=True)
        return not any(answer.kind is AnswerKind.UNSTABLE_OFFSET for answer, _, _ in answers)

    def _end(self, ended: Ended, producer: OpenProducer, layout: Layout) -> str:
        """Write one marker; return why not, or an empty text."""
        kind = "commit" if ended.commit else "abort"
        where = _name(producer.partition)
        answer = wire(self._connection).write_marker(
            layout.leaders[producer.partition],
            producer.partition,
            (producer.producer_id, producer.producer_epoch),
            producer.coordinator_epoch,
            commit=ended.commit,
        )
        if answer.is_done:
            log.warning("wrote the missing %s marker of %s on %s", kind, ended, where)
            return ""
        reason = f"the missing {kind} marker of {ended} on {where} could not be written: {answer}"
        log.error("%s", reason)
        return reason


def layout_of(topic: str, leaders: Mapping[int, int]) -> Layout:
    """Return the layout of one topic; ``leaders`` by partition number, below 0: it has no leader now."""
    led = {(topic, number): node for number, node in leaders.items() if node >= 0}
    leaderless = frozenset((topic, number) for number, node in leaders.items() if node < 0)
    return Layout(leaders=led, leaderless=leaderless, internal=frozenset(), brokers=frozenset(led.values()))


def _settled(described: Described, ended: Ended) -> bool:
    """Say whether waiting changes nothing: it is over, or it never began."""
    return word(described) == "Empty" or is_over(described, ended.producer_id, ended.epoch)


def _committed(described: Described, ended: Ended) -> bool:
    """Say whether the coordinator's newest word may be that this very transaction was committed."""
    if isinstance(described, BrokerAnswer) or described.state != COMMITTED:
        return False
    return described.producer_id == ended.producer_id and described.producer_epoch - ended.epoch in (0, 1)


def _named(partitions: Mapping[Partition, BrokerAnswer]) -> str:
    first = next(iter(partitions))
    more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return f"{_name(first)} ({partitions[first]}){more}"


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def ends_of(items: Iterable[Handle | OpenTransactionView], *, commit: bool) -> list[Ended]:
    """Return these handles or views as ended ones."""
    return [
        Ended(transaction=item.transaction, producer_id=item.producer_id, epoch=item.producer_epoch, commit=commit)
        for item in items
        if item.producer_id is not None and item.producer_epoch is not None
    ]
