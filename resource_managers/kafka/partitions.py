"""What partitions, their producers and their consumer groups look like from the brokers; pipelined, and it changes nothing.

Every partition, group and broker answers for itself: one whose leader is down fails alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeProducersRequest, ListTransactionsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.consumer.offsets import IsolationLevel, ListOffsetsRequest, OffsetSpec
from kafka.protocol.metadata import MetadataRequest

from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.kafka.answers import NO_LEADER, AnswerKind, BrokerAnswer, answer_of
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.open_batches import batch_request, epoch_in
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.protocol import OpenTransactionView

PARTITIONS_PER_REQUEST = 500
GROUPS_PER_REQUEST = 100
POLL_LIMIT_MS = 3_000
TRANSACTION_STATE = "__transaction_state"
Partition = tuple[str, int]
"""Topic and partition number."""
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[K, V]):
    """The answer about each item that was asked for, and why there is none about the others."""

    found: dict[K, V]
    failed: dict[K, BrokerAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where every partition of the cluster is led. ``leaderless``: partitions without a leader now."""

    leaders: Mapping[Partition, int]
    leaderless: frozenset[Partition]
    internal: frozenset[str]
    brokers: frozenset[int]

    def coordinators(self) -> frozenset[int]:
        """Return the brokers that coordinate transactions: all of them where the topic of their log may not be seen."""
        found = {node for (topic, _), node in self.leaders.items() if topic == TRANSACTION_STATE}
        return frozenset(found) or self.brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProducer:
    """A producer with an open transaction on one partition, as its leader has it (DescribeProducers, KIP-664).

    ``last_timestamp_ms``: of its last record, by the producer's clock; None where it has none. ``coordinator_epoch``: of the
    coordinator that wrote this producer's last marker here, -1 without one.
    """

    partition: Partition
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int | None
    coordinator_epoch: int

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"partition": list(self.partition)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OpenProducer:
        """Return what ``to_json`` wrote."""
        topic, number = value["partition"]
        return cls(**{**value, "partition": (topic, number)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A consumer or share group. ``state`` is Kafka's word (Stable, Empty, ...), empty where the broker does not tell it."""

    name: str
    state: str
    is_share: bool


class KafkaPartitions:
    """Thread-safe: it keeps no state but how to reach the cluster."""

    def __init__(self, connection: KafkaConnection, decisions_topic: str) -> None:
        self._connection, self._decisions_topic = connection, decisions_topic

    def layout(self, topics: Sequence[str] | None = None) -> Layout:
        """Return where all partitions are led, or those of these topics. Raises Unreachable."""
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(
            topics=MetadataRequest.ALL_TOPICS if wanted is None else wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        asked = wire(self._connection)
        (response,) = asked.send([(None, request)], POLL_LIMIT_MS)
        if isinstance(response, BrokerAnswer):
            why = asked.lost.instead_of(response)
            raise Unreachable(f"no broker of {self._connection.bootstrap_servers} listed its topics: {why}")
        leaders = {(topic.name, p.partition_index): p.leader_id for topic in response.topics for p in topic.partitions}
        return Layout(
            leaders={partition: node for partition, node in leaders.items() if node >= 0},
            leaderless=frozenset(partition for partition, node in leaders.items() if node < 0),
            internal=frozenset(topic.name for topic in response.topics if topic.is_internal),
            brokers=frozenset(broker.node_id for broker in response.brokers),
        )

    def last_stable_offsets(self, partitions: Collection[Partition], layout: Layout) -> Answers[Partition, int]:
        """Return the last stable offset of each partition (ListOffsets, read_committed)."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), layout, IsolationLevel.READ_COMMITTED)

    def high_watermarks(self, partitions: Collection[Partition], layout: Layout) -> Answers[Partition, int]:
        """Return the high watermark of each partition (ListOffsets, read_uncommitted)."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), layout)

    def first_offsets(self, partitions: Collection[Partition], layout: Layout) -> Answers[Partition, int]:
        """Return the offset of the first record of each partition that retention has left (ListOffsets)."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST), layout)

    def offsets_at(self, times: Mapping[Partition, int], layout: Layout) -> Answers[Partition, int | None]:
        """Return the offset of each partition's first record at or after a time (epoch ms); None: there is none."""
        answers = self._offsets(times, layout)
        found = {partition: offset if offset >= 0 else None for partition, offset in answers.found.items()}
        return Answers(found=found, failed=answers.failed)

    def open_producers(
        self, partitions: Collection[Partition], layout: Layout
    ) -> Answers[Partition, tuple[OpenProducer, ...]]:
        """Return the producers with an open transaction on each partition, lowest start offset first."""

        def request(by_topic: Mapping[str, Sequence[int]]) -> Any:
            topic = DescribeProducersRequest.TopicRequest
            return DescribeProducersRequest(topics=[topic(name=n, partition_indexes=p) for n, p in by_topic.items()])

        def read(partition: Partition, row: Any) -> tuple[OpenProducer, ...]:
            opened = [p for p in row.active_producers if p.current_txn_start_offset >= 0]
            opened.sort(key=lambda p: p.current_txn_start_offset)
            return tuple(_open_producer(partition, producer) for producer in opened)

        return self._ask_leaders(partitions, layout, request, read)

    def first_epochs(self, producers: Sequence[OpenProducer], layout: Layout) -> dict[OpenProducer, int]:
        """Return the producer's epoch in the first batch of each open transaction; left out where that cannot be read."""
        led = [producer for producer in producers if producer.partition in layout.leaders]
        requests = [
            (layout.leaders[transaction.partition], batch_request(transaction.partition, transaction.start_offset))
            for transaction in led
        ]
        answers = wire(self._connection).send(requests, POLL_LIMIT_MS)
        found = {
            transaction: epoch_in(answer, transaction.start_offset, transaction.producer_id)
            for transaction, answer in zip(led, answers, strict=True)
        }
        return {producer: epoch for producer, epoch in found.items() if epoch is not None}

    def groups(self, layout: Layout) -> Answers[int, tuple[ListedGroup, ...]]:
        """Return the consumer groups and share groups of each broker, by its node id."""
        nodes = sorted(layout.brokers)
        responses = wire(self._connection).send([(node, ListGroupsRequest()) for node in nodes], POLL_LIMIT_MS)
        found: dict[int, tuple[ListedGroup, ...]] = {}
        failed: dict[int, BrokerAnswer] = {}
        for node, response in zip(nodes, responses, strict=True):
            answer = answer_of(response)
            if not answer.is_done:
                failed[node] = answer
                continue
            # Connect's workers commit no offsets, but cannot be recognized by their type.
            found[node] = tuple(
                ListedGroup(
                    name=group.group_id,
                    state=group.group_state or "",
                    is_share=(group.group_type or "").lower() == "share",
                )
                for group in response.groups
            )
        return Answers(found=found, failed=failed)

    def group_offsets(self, wanted: Mapping[str, Collection[Partition] | None]) -> Answers[str, dict[Partition, int]]:
        """Return the committed offsets of each group: those of its partitions named in ``wanted``, or with None all.

        Markers of the two-phase commit (offsets on the decision log) are left out: they are batch numbers. One OffsetFetch (v8)
        per coordinator and 100 groups.
        """
        return of_groups(
            self._connection,
            list(wanted),
            lambda bundle: _offset_fetch({group: wanted[group] for group in bundle}, require_stable=False),
            lambda row: _committed(row, self._decisions_topic),
            of_unknown={},
        )

    def groups_with_held_offsets(self, groups: Collection[str]) -> Answers[str, bool]:
        """Return of each group whether an open transaction holds offsets that it has committed before (KIP-447)."""
        return of_groups(
            self._connection,
            groups,
            lambda bundle: _offset_fetch(dict.fromkeys(bundle), require_stable=True),
            lambda row: any(
                answer_of(each).kind is AnswerKind.UNSTABLE_OFFSET for t in row.topics for each in t.partitions
            ),
            of_unknown=False,
        )

    def transactional_ids(self, producer_ids: Iterable[int], layout: Layout) -> dict[int, frozenset[str]]:
        """Return the transactional ids that coordinators have each producer id under (ListTransactions, KIP-664).

        Ids that the collector's user may not describe are left out by the broker. Raises Unreachable when one
        coordinator does not answer or is missing: an id may then be there and not be seen.
        """
        wanted = sorted(set(producer_ids))
        missing = sorted(number for topic, number in layout.leaderless if topic == TRANSACTION_STATE)
        if missing:
            raise Unreachable(
                f"partitions {missing} of {TRANSACTION_STATE} have no leader: some ids have no coordinator"
            )
        nodes = sorted(layout.coordinators())
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=wanted, max_version=0)
        responses = wire(self._connection).send([(node, request) for node in nodes], POLL_LIMIT_MS)
        found: dict[int, set[str]] = {producer_id: set() for producer_id in wanted}
        for node, response in zip(nodes, responses, strict=True):
            answer = answer_of(response)
            if not answer.is_done:
                raise Unreachable(f"broker {node} did not list its transactions: {answer}")
            for row in response.transaction_states:
                found.setdefault(row.producer_id, set()).add(row.transactional_id)
        return {producer_id: frozenset(ids) for producer_id, ids in found.items()}

    def listed_ids(self, states: Iterable[str]) -> list[str]:
        """Return the transactional ids in these states, or with none all, as far as they may be described. Raises Unreachable."""
        try:
            return [row.transactional_id for row in wire(self._connection).list_transactions(states)]
        except kafka_errors.KafkaError as error:
            raise Unreachable(f"transactions could not be listed: {error}") from error

    def describe_transactions(self, ids: Collection[str]) -> Answers[str, OpenTransactionView | None]:
        """Return how these transactional ids stand at their coordinators; None: the coordinator does not know the id."""
        rows = wire(self._connection).describe_transactions(list(ids)) if ids else {}
        found: dict[str, OpenTransactionView | None] = {}
        failed: dict[str, BrokerAnswer] = {}
        for id_ in ids:
            described = rows[id_]
            if not isinstance(described, BrokerAnswer):
                found[id_] = described.view()
            elif described.kind is AnswerKind.UNKNOWN_ID:
                found[id_] = None
            else:
                failed[id_] = described
        return Answers(found=found, failed=failed)

    def _offsets(
        self,
        wanted: Mapping[Partition, int],
        layout: Layout,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Answers[Partition, int]:
        """``wanted``: by partition a time (epoch ms), or one of OffsetSpec."""
        topic_ = ListOffsetsRequest.ListOffsetsTopic

        def asked_for(partition: Partition) -> Any:
            return topic_.ListOffsetsPartition(partition_index=partition[1], timestamp=wanted[partition])

        def request(by_topic: Mapping[str, Sequence[int]]) -> Any:
            topics = [
                topic_(name=name, partitions=[asked_for((name, number)) for number in numbers])
                for name, numbers in by_topic.items()
            ]
            return ListOffsetsRequest(isolation_level=isolation.value, topics=topics, min_version=2, max_version=7)

        return self._ask_leaders(wanted.keys(), layout, request, lambda _, row: int(row.offset))

    def _ask_leaders(
        self,
        partitions: Collection[Partition],
        layout: Layout,
        request: Callable[[Mapping[str, Sequence[int]]], Any],
        read: Callable[[Partition, Any], V],
    ) -> Answers[Partition, V]:
        led = {partition: layout.leaders[partition] for partition in partitions if partition in layout.leaders}
        failed: dict[Partition, BrokerAnswer] = {
            partition: NO_LEADER for partition in partitions if partition not in led
        }
        asked = list(bundles(led, PARTITIONS_PER_REQUEST))
        requests = [(node, request(by_topic(bundle))) for node, bundle in asked]
        found: dict[Partition, V] = {}
        for (_, bundle), response in zip(asked, wire(self._connection).send(requests, POLL_LIMIT_MS), strict=True):
            rows = (
                {}
                if isinstance(response, BrokerAnswer)
                else {(topic.name, row.partition_index): row for topic in response.topics for row in topic.partitions}
            )
            for partition in bundle:
                answer = response if isinstance(response, BrokerAnswer) else answer_of(rows.get(partition))
                if answer.is_done:
                    found[partition] = read(partition, rows[partition])
                else:
                    failed[partition] = answer
        return Answers(found=found, failed=failed)


def bundles(nodes: Mapping[K, int], size: int) -> Iterable[tuple[int, list[K]]]:
    """Yield (node, at most ``size`` of the items that it answers for)."""
    by_node: dict[int, list[K]] = {}
    for item, node in nodes.items():
        by_node.setdefault(node, []).append(item)
    for node, items in by_node.items():
        for start in range(0, len(items), size):
            yield node, items[start : start + size]


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Return the numbers of these partitions by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def _open_producer(partition: Partition, row: Any) -> OpenProducer:
    return OpenProducer(
        partition=partition,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        start_offset=row.current_txn_start_offset,
        last_timestamp_ms=row.last_timestamp if row.last_timestamp >= 0 else None,
        coordinator_epoch=row.coordinator_epoch,
    )


def of_groups(
    connection: KafkaConnection,
    groups: Collection[str],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any], V],
    of_unknown: V | None = None,
) -> Answers[str, V]:
    """Return what each group's coordinator says of it: one request per coordinator and 100 groups, of which ``read`` reads a row.

    ``of_unknown``: the answer for a group that its coordinator does not know; None: that is a failure.
    """
    asked_of = wire(connection)
    nodes = asked_of.group_coordinators(list(groups))
    failed = {group: node for group, node in nodes.items() if isinstance(node, BrokerAnswer)}
    known = {group: node for group, node in nodes.items() if not isinstance(node, BrokerAnswer)}
    asked = list(bundles(known, GROUPS_PER_REQUEST))
    found: dict[str, V] = {}
    responses = asked_of.send([(node, request(bundle)) for node, bundle in asked], POLL_LIMIT_MS)
    for (_, bundle), response in zip(asked, responses, strict=True):
        rows = {} if isinstance(response, BrokerAnswer) else {row.group_id: row for row in response.groups}
        for group in bundle:
            answer = response if isinstance(response, BrokerAnswer) else answer_of(rows.get(group))
            if answer.is_done:
                found[group] = read(rows[group])
            elif answer.kind is AnswerKind.UNKNOWN_GROUP and of_unknown is not None:
                found[group] = of_unknown
            else:
                failed[group] = answer
                asked_of.forget_group_coordinator(group)
    return Answers(found=found, failed=failed)


def _offset_fetch(wanted: Mapping[str, Collection[Partition] | None], *, require_stable: bool) -> Any:
    group_ = OffsetFetchRequest.OffsetFetchRequestGroup
    topic_ = group_.OffsetFetchRequestTopics
    groups = []
    for group, partitions in wanted.items():
        topics = None
        if partitions is not None:
            topics = [topic_(name=name, partition_indexes=numbers) for name, numbers in by_topic(partitions).items()]
        groups.append(group_(group_id=group, topics=topics))
    return OffsetFetchRequest(groups=groups, require_stable=require_stable, min_version=8, max_version=8)


def _committed(group: Any, decisions_topic: str) -> dict[Partition, int]:
    rows = (((topic.name, row.partition_index), row) for topic in group.topics for row in topic.partitions)
    return {
        partition: int(row.committed_offset)
        for partition, row in rows
        if not row.error_code and row.committed_offset >= 0 and not _is_marker(partition, row, decisions_topic)
    }


def _is_marker(partition: Partition, row: Any, decisions_topic: str) -> bool:
    return partition[0] == decisions_topic and Marker.parse(row.committed_offset, row.metadata or "") is not None
