"""A topic that is deleted and made again under the collector: an epoch begins, every record of both is there once."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess
from tests.integration.kafka_fixtures import wait_until

pytestmark = pytest.mark.integration


def tell(connection: KafkaConnection, topic: str, first: int, count: int) -> None:
    """Tell of checkpoints, all in one partition."""
    producer = Producer(connection.for_librdkafka())
    for number in range(first, first + count):
        data = {"pipeline": "told", "checkpoint_id": "l", "attempt": 0, "batch": number}
        at_ms = time.time_ns() // 1_000_000
        event = LifecycleEvent(type=EventType.CHECKPOINT_STARTED, source="/p", subject="s", at_ms=at_ms, data=data)
        producer.produce(topic, encode(event), partition=0)
    assert producer.flush(LIMIT_S) == 0


def make(admin: AdminClient, topic: str) -> None:
    """Make a topic; a name that was just given up may be taken for a moment."""

    def made() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(LIMIT_S)
        except KafkaException:
            return False
        return True

    wait_until("the topic is made", made, LIMIT_S)


def seen(collector: CollectorProcess) -> set[int]:
    return {row["number"] for row in collector.rows("checkpoints?limit=1000")}


@pytest.mark.long
def test_a_recreated_topic_is_read_from_its_start(broker: Broker, connection: KafkaConnection, tmp_path: Path) -> None:
    topic, admin = f"lifecycle-{uuid.uuid4().hex[:8]}", AdminClient(connection.for_librdkafka())
    collector = CollectorProcess(broker.bootstrap_servers, tmp_path, environment={"INDOUBT_LIFECYCLE_TOPIC": topic})
    try:
        make(admin, topic)
        tell(connection, topic, 0, 5)
        collector.start()
        wait_until("the first topic is read", lambda: len(seen(collector)) == 5, LIMIT_S)
        # Under it, with more records than the first one had; then while it is down, with fewer.
        admin.delete_topics([topic])[topic].result(LIMIT_S)
        make(admin, topic)
        tell(connection, topic, 100, 8)
        wait_until("the second topic is read", lambda: len(seen(collector)) == 13, LIMIT_S)
        assert collector.stop() == 0
        admin.delete_topics([topic])[topic].result(LIMIT_S)
        make(admin, topic)
        tell(connection, topic, 200, 2)
        collector.start()
        wait_until("the third topic is read", lambda: len(seen(collector)) == 15, LIMIT_S)
        assert collector.observer("lifecycle events")["state"] == "up"
        assert collector.stop() == 0
        with duckdb.connect(str(tmp_path / "history.duckdb"), read_only=True) as history:
            rows = history.execute('select source, partition, "offset" from lifecycle_events').fetchall()
        assert Counter(source for source, _, _ in rows) == {topic: 5, f"{topic}#2": 8, f"{topic}#3": 2}
        assert max(Counter(rows).values()) == 1, "no record is counted twice"
    finally:
        collector.kill()
