"""A consumer that has ceased to read is replaced: another one reads on, and each record is read once.

librdkafka itself ceases too rarely for a test. So its consumer is paused here, and its statistics are those of a partition that
it has ceased to read.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from collector.sources.topic_reader import TopicReader
from demo.readers import LiveReader
from lifecycle.decisions import RunStarted
from lifecycle.errors import Unreachable
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.kafka.stalled_partitions import LATER, StalledPartitions
from resource_managers.topics import decision_log_reader
from resource_managers.topics.decision_log import DecisionLog
from resource_managers.topics.pipeline_order_topic import OrderReader
from tests.integration.kafka_fixtures import LIMIT_S, wait_until
from tests.integration.pipeline_process import make_topics

pytestmark = pytest.mark.integration
PARTITIONS = 3


def produce(connection: KafkaConnection, topic: str, values: range) -> None:
    producer = Producer(connection.for_librdkafka())
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0


def note_stall(watch: StalledPartitions, topic: str, partition: int) -> None:
    ceased = {"desired": True, "leader": 1, "broker": -1, "fetch_state": "validate-epoch-wait"}
    for _ in range(LATER):
        watch.note(json.dumps({"topics": {topic: {"partitions": {str(partition): ceased}}}}))


def each_once(values: range) -> Counter[bytes]:
    return Counter(str(value).encode() for value in values)


def test_the_collector_reads_on_by_another_consumer(connection: KafkaConnection, tmp_path: Path) -> None:
    topic = "stalled-collector"
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
        first.pause(first.assignment())
        produce(connection, topic, range(30, 60))
        note_stall(reader._stalled, topic, 1)
        wait_until("the records behind the stall", lambda: has_read(60))
        assert reader._consumer is not first
        # What would be read twice would come now, before the end of each partition.
        reader._ends.clear()
        wait_until("the end of every partition", lambda: has_read(60) and reader.has_reached_end)
    assert read == each_once(range(60))


def test_the_decision_log_is_read_by_another_consumer(
    connection: KafkaConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_log_reader, "ANOTHER_AFTER_S", 0.5)
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


def test_orders_are_read_again_from_their_beginning(connection: KafkaConnection) -> None:
    topic = "stalled-orders"
    make_topics(connection, topic, partitions=PARTITIONS)
    with OrderReader(connection, topic) as reader:
        note_stall(reader._stalled, topic, 0)
        with pytest.raises(Unreachable, match=f"'{topic}' is not read any more"):
            wait_until("the reader to notice", lambda: reader.read(0.1))


def test_the_live_reader_reads_on(connection: KafkaConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = "stalled-live"
    make_topics(connection, topic, partitions=PARTITIONS)
    watches: list[StalledPartitions] = []
    properties = StalledPartitions.properties

    def noted(watch: StalledPartitions) -> dict[str, Any]:
        watches.append(watch)
        return properties(watch)

    monkeypatch.setattr(StalledPartitions, "properties", noted)
    with LiveReader(connection.bootstrap_servers, topic) as reader:
        for times in range(1, 4):
            produce(connection, topic, range(30 * (times - 1), 30 * times))
            wait_until("the records so far", lambda times=times: len(reader.records()) >= 30 * times)
            note_stall(watches[-1], topic, 2)
            wait_until("another consumer", lambda times=times: len(watches) > times)
        read = Counter(record.value for record in reader.records())
    assert read == each_once(range(90))
