"""Who is blocked behind whom, and what hangs, on a real broker; and that an order frees the readers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.structs import TopicPartition as KafkaTopicPartition

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.wire import wire
from tests.integration.collector_process import LIMIT_S, VIEWER, CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until

pytestmark = pytest.mark.integration
LATE_RECORDS = {"transaction.partition.verification.enable": "false"}
"""Lets a late record of an ended transaction in, as brokers before 3.6 did: how transactions come to hang (KIP-890)."""
QUICK = {
    "INDOUBT_PARTITION_ROUND_MS": "600",
    "INDOUBT_READER_STALLED_MS": "1500",
    # The producers here commit first, and what such a one has just begun may not be aborted.
    "INDOUBT_FOREIGN_OLD_MS": "500",
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with Broker(Path(tmp_path_factory.mktemp("broker")), settings=LATE_RECORDS) as broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def collector(connection: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    directory = tmp_path_factory.mktemp("collector")
    with running(connection.bootstrap_servers, directory, environment=QUICK) as process:
        yield process


@pytest.fixture
def topic(connection: KafkaConnection) -> str:
    name = f"blocked-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(LIMIT_S)
    return name


def transactional(connection: KafkaConnection) -> tuple[str, Producer]:
    id_ = f"billing-{uuid.uuid4().hex[:8]}"
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_, "linger.ms": 0}))
    producer.init_transactions(LIMIT_S)
    return id_, producer


def write(producer: Producer, topic: str, value: bytes) -> None:
    """Write inside the producer's transaction, and leave that open."""
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    assert producer.flush(LIMIT_S) == 0


def write_plainly(connection: KafkaConnection, topic: str, value: bytes) -> None:
    producer = Producer(connection.for_librdkafka())
    producer.produce(topic, value, partition=0)
    assert producer.flush(LIMIT_S) == 0


class Group:
    """A consumer group that reads and commits as applications do."""

    def __init__(self, connection: KafkaConnection, topic: str, isolation: str = "read_committed") -> None:
        self.name = f"{isolation}-{uuid.uuid4().hex[:6]}"
        self.values: list[bytes] = []
        settings = {"group.id": self.name, "isolation.level": isolation, "auto.offset.reset": "earliest"}
        settings |= {"enable.auto.commit": False, "fetch.wait.max.ms": 50}
        self._consumer = Consumer(connection.for_librdkafka(**settings))
        self._consumer.subscribe([topic])
        self._topic = topic

    def read(self, *values: bytes) -> None:
        """Read, and commit what was read, until these are all that was read."""

        def has_read() -> bool:
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(message.value())
                self._consumer.commit(message, asynchronous=False)
            return self.values == list(values)

        wait_until(f"{self.name} reads {values}, it has {self.values}", has_read, LIMIT_S)

    def commit(self, offset: int) -> None:
        """Commit an offset as it is."""
        self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def kinds(collector: CollectorProcess, topic: str) -> dict[str, str]:
    """Return group -> kind of what is told of a topic's partition."""
    rows = collector.rows(f"blocked?all=true&topic={topic}")
    return {group["group"]: group["kind"] for row in rows for group in row["groups"]}


def wait_for_kinds(collector: CollectorProcess, topic: str, **wanted: str) -> dict[str, Any]:
    """Return the topic's row once these groups are of these kinds."""
    try:
        wait_until(f"{wanted}", lambda: kinds(collector, topic) == wanted, LIMIT_S)
    except AssertionError as error:
        raise AssertionError(f"{error}; there is {collector.rows(f'blocked?all=true&topic={topic}')}") from None
    (row,) = collector.rows(f"blocked?all=true&topic={topic}")
    return row


def hanging_on(collector: CollectorProcess, topic: str) -> dict[str, Any]:
    """Return the row of the transaction that hangs on a topic, once it is found."""

    def found() -> list[dict[str, Any]]:
        return [row for row in collector.rows("hanging") if row["topic"] == topic]

    return wait_until(f"a hanging transaction on {topic}", found, LIMIT_S)[0]


def late_record(connection: KafkaConnection, topic: str, producer_id: int, epoch: int) -> None:
    """Write a transactional record that no coordinator knows of, as one that arrives after its transaction's end."""
    at = KafkaTopicPartition(topic, 0)
    known = wire(connection).admin.describe_producers([at])[at].active_producers
    sequence = max((p.last_sequence + 1 for p in known if p.producer_id == producer_id), default=0)
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1_000,
    )
    batch.append(0, time.time_ns() // 1_000_000, None, b"late", [])
    topic_ = ProduceRequest.TopicProduceData
    data = topic_.PartitionProduceData(index=0, records=bytes(batch.build()))
    request = ProduceRequest(
        transactional_id="late",
        acks=-1,
        timeout_ms=5_000,
        topic_data=[topic_(name=topic, partition_data=[data])],
        max_version=11,
    )
    leader = KafkaPartitions(connection, "").layout().leaders[topic, 0]
    (answer,) = wire(connection).send([(leader, request)])
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_group_behind_an_abandoned_transaction_is_freed_by_its_abort(
    collector: CollectorProcess, connection: KafkaConnection, topic: str
) -> None:
    id_, producer = transactional(connection)
    write(producer, topic, b"first")
    producer.commit_transaction(LIMIT_S)
    committed, uncommitted = Group(connection, topic), Group(connection, topic, "read_uncommitted")
    committed.read(b"first")
    write(producer, topic, b"abandoned")
    write_plainly(connection, topic, b"behind")
    uncommitted.read(b"first", b"abandoned", b"behind")

    wait_for_kinds(collector, topic, **{committed.name: "waiting", uncommitted.name: "reads uncommitted"})
    transaction = collector.wait_for(id_, state="open", may_abort=True)
    wait_until("its holder", lambda: collector.rows(f"blocked?topic={topic}")[0]["holder_key"], LIMIT_S)
    row = collector.rows(f"blocked?topic={topic}")[0]
    assert (row["last_stable_offset"], row["high_watermark"], row["hidden"], row["waiting"]) == (2, 4, 2, 1)
    assert (row["holder_key"], row["holder_transaction"]) == (transaction["key"], id_)
    assert (row["holder_producer_id"], row["holder_start_offset"]) == (transaction["producer_id"], 2)
    assert row["held_since_ms"] == transaction["opened_at_ms"]
    (waiting,) = [group for group in row["groups"] if group["kind"] == "waiting"]
    # It stands at 1, the marker of the first transaction is at 1 and the last stable offset is 2.
    assert (waiting["offset"], waiting["lag"], waiting["certainty"]) == (1, 3, "likely")
    assert waiting["waited_ms"] > 0
    groups = {group["group"]: group for group in collector.rows("groups")}
    (lag, hidden, members) = (groups[committed.name][name] for name in ("lag", "hidden", "members"))
    assert (lag, hidden, members, groups[committed.name]["kind"]) == (0, 2, 1, "waiting"), "a marker is nothing to read"
    path = f"series/partitions/{topic}/0?window_ms=900000"
    held = wait_until("its sample", lambda: (found := collector.get(path)) and any(found["hidden"]) and found, LIMIT_S)
    assert (max(filter(None, held["high_watermark"])), max(filter(None, held["hidden"]))) == (4, 2)
    assert [(span["key"], span["outcome"]) for span in held["holders"] if span["ended_ms"] is None] == [
        (transaction["key"], "open")
    ]
    assert collector.get("overview")["counts"]["waiting_groups"] == 1
    assert collector.rows("hanging") == [], "its coordinator knows it"

    assert collector.order("abort", transaction, confirm=id_).json()["outcome"] == "accepted"
    committed.read(b"first", b"behind")
    wait_until("nothing is hidden", lambda: collector.rows(f"blocked?topic={topic}") == [], LIMIT_S)
    committed.close()
    uncommitted.close()


@pytest.mark.long
def test_a_lag_of_markers_alone_is_no_stopped_group(
    collector: CollectorProcess, connection: KafkaConnection, topic: str
) -> None:
    _, producer = transactional(connection)
    for value in (b"a", b"b"):
        write(producer, topic, value)
        producer.commit_transaction(LIMIT_S)
    write(producer, topic, b"undone")
    producer.abort_transaction(LIMIT_S)
    up_to_date, stopped = Group(connection, topic), Group(connection, topic)
    up_to_date.read(b"a", b"b")
    stopped.commit(1)
    row = wait_for_kinds(collector, topic, **{up_to_date.name: "markers only", stopped.name: "stalled"})
    lags = {group["group"]: (group["offset"], group["lag"]) for group in row["groups"]}
    # Markers at 1, 3 and 5, the aborted record at 4.
    assert lags == {up_to_date.name: (3, 3), stopped.name: (1, 5)}
    assert (row["hidden"], row["waiting"], row["holder_key"]) == (0, 0, "")
    up_to_date.close()
    stopped.close()


@pytest.mark.long
def test_an_uncoordinated_transaction_is_found_and_aborted_by_an_order(
    collector: CollectorProcess, connection: KafkaConnection, topic: str
) -> None:
    reader = Group(connection, topic)
    write_plainly(connection, topic, b"before")
    reader.read(b"before")
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1, max_version=4
    )
    (given,) = wire(connection).send([(None, request)])
    late_record(connection, topic, given.producer_id, given.producer_epoch)
    write_plainly(connection, topic, b"behind")

    row = hanging_on(collector, topic)
    assert row["key"] == f"hanging:{topic}-0:{given.producer_id}:{given.producer_epoch}:1"
    assert (row["rule"], row["transaction"], row["remedy"]) == (1, "", "abort marker on the partition")
    assert row["found_at_ms"] - row["since_ms"] >= 2_000
    blocked = wait_for_kinds(collector, topic, **{reader.name: "waiting"})
    assert blocked["holder_key"] == row["key"]
    found = (part for one in collector.get("overview")["incidents"] for part in one["parts"])
    (card,) = [part for part in found if row["key"] in part["keys"]]
    assert (card["verdict"], card["partitions"]) == ("hanging", [f"{topic}-0"])

    assert collector.order("commit", row, confirm=row["confirm"]).status_code == 409
    assert collector.order("abort", row).status_code == 409, "it takes a typed confirmation"
    assert collector.order("abort", row, confirm=row["confirm"], token=VIEWER).status_code == 403
    dry = collector.order("abort", row, dry_run=True).json()
    assert (dry["outcome"], "an abort marker on" in dry["steps"][0]["description"]) == ("dry_run", True)
    assert reader.values == [b"before"]

    done = collector.order("abort", row, confirm=row["confirm"], reason="nobody will end it").json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted")
    reader.read(b"before", b"behind")
    wait_until("it is gone", lambda: not [r for r in collector.rows("hanging") if r["topic"] == topic], LIMIT_S)
    again = collector.order("abort", row, confirm=row["confirm"])
    assert (again.status_code, again.json()["code"]) == (409, "order_refused")
    audit = [r for r in collector.rows("audit") if row["key"] in r["keys"]]
    outcomes = [r["outcome"] for r in reversed(audit)]
    assert outcomes == ["refused", "refused", "refused", "dry_run", "accepted", "refused"]
    assert any("no coordinator has producer id" in fact["fact"] for fact in audit[1]["evidence"][0]["evidence"])
    reader.close()


@pytest.mark.long
def test_a_record_after_its_transactions_end_hangs_until_aborted(
    collector: CollectorProcess, connection: KafkaConnection, topic: str
) -> None:
    id_, producer = transactional(connection)
    write(producer, topic, b"undone")
    opened = collector.wait_for(id_, state="open")
    producer.abort_transaction(LIMIT_S)
    collector.wait_for(id_, state="aborted")
    late_record(connection, topic, opened["producer_id"], opened["producer_epoch"])
    row = hanging_on(collector, topic)
    assert (row["rule"], row["transaction"], row["start_offset"]) == (3, id_, 2)
    assert "CompleteAbort" in str(row["evidence"])
    assert row["confirm"] == id_, "at the same epoch its producer could start over"

    # What the operator looked at is not there any more: the producer itself wrote on, and its end freed the partition.
    write(producer, topic, b"again")
    producer.commit_transaction(LIMIT_S)
    assert collector.order("abort", row, confirm=id_).status_code == 409
    late_record(connection, topic, opened["producer_id"], opened["producer_epoch"])
    wait_until("it hangs anew", lambda: hanging_on(collector, topic)["key"] != row["key"], LIMIT_S)
    done = collector.order("abort", hanging_on(collector, topic), confirm=id_).json()
    assert done["outcome"] == "accepted"
    group = Group(connection, topic)
    write_plainly(connection, topic, b"behind")
    wait_until("nothing is hidden", lambda: collector.rows(f"blocked?topic={topic}") == [], LIMIT_S)
    group.close()
