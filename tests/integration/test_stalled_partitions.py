"""A consumer that has ceased to read is replaced: another one reads on, and each record is read once.

librdkafka itself ceases too rarely for a test: here its consumer is paused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from demo import readers
from demo.readers import LiveReader
from indoubt.collector.observe import topic_reader
from indoubt.collector.observe.topic_reader import TopicReader
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.errors import Unreachable
from indoubt.resource_managers.kafka import stalled_partitions
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.stalled_partitions import StalledPartitions
from indoubt.resource_managers.topics import decision_log_reader, pipeline_order_topic
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import LIMIT_S, wait_until
from tests.integration.pipeline_process import make_topics

pytestmark = pytest.mark.integration
PARTITIONS = 3


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled_partitions, "ASK_EVERY_S", 0.1)
    monkeypatch.setattr(stalled_partitions, "STALLED_AFTER_S", 1.0)
    monkeypatch.setattr(decision_log_reader, "ANOTHER_AFTER_S", 0.5)


def produce(connection: KafkaConnection, topic: str, values: range) -> None:
    producer = Producer(connection.for_librdkafka())
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0


def each_once(values: range) -> Counter[bytes]:
    return Counter(str(value).encode() for value in values)


def found_for(watch: StalledPartitions, read_to: dict[int, int], seconds: float) -> list[int]:
    """Return what is found stalled within some time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if stalled := watch.found(read_to):
            return stalled
        time.sleep(0.05)
    return []


def test_what_does_not_move_though_its_end_is_further_is_stalled(connection: KafkaConnection) -> None:
    topic = "stalled-partitions"
    make_topics(connection, topic, partitions=PARTITIONS)
    produce(connection, topic, range(30))
    watch = StalledPartitions(AdminClient(connection.for_librdkafka()), topic)
    assert found_for(watch, {0: 10, 1: 10, 2: 10}, 2.0) == [], "all is read"
    assert found_for(watch, {0: 9, 1: 10, 2: 0}, LIMIT_S) == [0, 2]
    assert watch.found({0: 9, 1: 10, 2: 0}) == [], "they count anew"
    moves_until = time.monotonic() + 3.0
    at = 0
    while time.monotonic() < moves_until:
        assert watch.found({0: at, 1: 10, 2: 10}) == []
        at = min(at + 1, 9)
        time.sleep(0.4)


def test_what_an_open_transaction_holds_back_is_not_stalled(connection: KafkaConnection) -> None:
    topic = "stalled-behind-an-open-one"
    make_topics(connection, topic, partitions=PARTITIONS)
    producer = Producer(connection.for_librdkafka(**{"transactional.id": topic}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(LIMIT_S) == 0
    admin = AdminClient(connection.for_librdkafka())
    committed = StalledPartitions(admin, topic, IsolationLevel.READ_COMMITTED)
    assert found_for(committed, {0: 0}, 2.0) == []
    assert found_for(StalledPartitions(admin, topic), {0: 0}, LIMIT_S) == [0]
    producer.abort_transaction(LIMIT_S)


def test_a_reader_that_cannot_keep_up_is_behind_until_it_can(
    connection: KafkaConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "reader-behind"
    make_topics(connection, topic, partitions=PARTITIONS)
    with TopicReader(connection, topic) as reader:
        reader.find()
        reader.start({})

        def is_at_the_end() -> bool:
            reader.read(0.1)
            return reader.has_reached_end

        def is_behind() -> bool:
            reader.read(0.1)
            return reader.is_behind

        wait_until("the end", is_at_the_end)
        produce(connection, topic, range(6_000))
        with monkeypatch.context() as few:
            few.setattr(topic_reader, "BATCH", 10)
            wait_until("it is behind", is_behind)
        assert not reader.has_reached_end
        wait_until("the end again", is_at_the_end)


@pytest.mark.parametrize("paused", [[1], [0, 1, 2]])
def test_the_collector_reads_on_by_another_consumer(connection: KafkaConnection, paused: Sequence[int]) -> None:
    topic = f"stalled-collector-{len(paused)}"
    make_topics(connection, topic, partitions=PARTITIONS)
    read: Counter[bytes] = Counter()
    with TopicReader(connection, topic) as reader:
        reader.find()
        reader.start({})

        def has_read(count: int) -> bool:
            read.update(message.value() for message in reader.read(0.1).messages)
            return read.total() >= count

        produce(connection, topic, range(30))
        wait_until("the first records", lambda: has_read(30))
        first = reader._consumer
        first.pause([TopicPartition(topic, partition) for partition in paused])
        produce(connection, topic, range(30, 60))
        wait_until("the records behind the stall", lambda: has_read(60))
        assert reader._consumer is not first
        # What is read twice comes before these.
        produce(connection, topic, range(60, 90))
        wait_until("the last records", lambda: has_read(90))
        assert reader.next_offsets == dict.fromkeys(range(PARTITIONS), 30)
    assert read == each_once(range(90))


def test_the_decision_log_is_read_by_another_consumer(connection: KafkaConnection) -> None:
    log = DecisionLog(connection, "stalled-decisions")
    log.ensure_topic()
    attempts = [log.start_run(RunStarted(prefix="p", checkpoint_id="L", run="one", at_ms=1))]
    log.read_to_end()
    first: Any = log._reader._consumer
    first.pause(first.assignment())
    attempts.append(log.start_run(RunStarted(prefix="p", checkpoint_id="L", run="two", at_ms=2)))
    ledger = log.read_to_end()
    assert log._reader._consumer is not first
    assert (attempts, ledger.next_offset) == ([0, 1], 2)
    log.close()


def test_orders_that_are_not_read_any_more_are_said_to_be(connection: KafkaConnection) -> None:
    topic = "stalled-orders"
    make_topics(connection, topic, partitions=PARTITIONS)
    produce(connection, topic, range(3))
    read: list[bytes | None] = []
    with pipeline_order_topic.reader(connection, topic) as reader:

        def has_read(count: int) -> bool:
            message = reader.read(0.1)
            read.extend([] if message is None else [message.value()])
            return len(read) >= count

        wait_until("the orders", lambda: has_read(3))
        reader._consumer.pause(reader._consumer.assignment())
        produce(connection, topic, range(3, 4))
        with pytest.raises(Unreachable, match=rf"nothing of partition \[0\] of topic '{topic}'"):
            wait_until("the reader to notice", lambda: has_read(4))
    assert Counter(read) == each_once(range(3))


def test_the_live_reader_reads_on(connection: KafkaConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = "stalled-live"
    make_topics(connection, topic, partitions=PARTITIONS)
    consumers: list[Any] = []
    make = readers._consumer

    def noted(*given: Any, **more: Any) -> Consumer:
        consumers.append(make(*given, **more))
        return consumers[-1]

    monkeypatch.setattr(readers, "_consumer", noted)
    with LiveReader(connection.bootstrap_servers, topic) as reader:
        for times in range(1, 4):
            produce(connection, topic, range(30 * (times - 1), 30 * times))
            wait_until("the records so far", lambda times=times: len(reader.records()) >= 30 * times)
            assert len(consumers) == times
            consumers[-1].pause(consumers[-1].assignment())
        produce(connection, topic, range(90, 120))
        wait_until("the last records", lambda: len(reader.records()) >= 120)
        read = Counter(record.value for record in reader.records())
    assert read == each_once(range(120))
