"""The fact that curves of the collector follow: a transaction opens."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from benchmarks.growth import idle
from benchmarks.growth.curve import Options
from benchmarks.running_collector import RunningCollector
from benchmarks.topics import make_topic
from indoubt.resource_managers.kafka.connection import KafkaConnection

TOPIC = "growth_facts"
LIMIT_S = 60.0


def opened_to_api(connection: KafkaConnection, collector: RunningCollector, options: Options) -> dict[str, float]:
    """Open transactions one after the other; return the times until GET /transactions lists them."""
    make_topic(connection, TOPIC, 1)
    producer = Producer(connection.for_librdkafka(**{"transactional.id": "growth", "linger.ms": 0}))
    producer.init_transactions(LIMIT_S)
    took_s: list[float] = []
    known: set[str] = set()

    def listed() -> set[str]:
        rows = collector.get("transactions?limit=100")["rows"]
        return {row["key"] for row in rows if row["transaction"] == "growth"} - known

    for _ in range(options.facts):
        producer.begin_transaction()
        producer.produce(TOPIC, b"x", partition=0)
        started = time.monotonic()
        producer.flush(LIMIT_S)
        idle.wait_until("an open transaction in the API", lambda: bool(listed()), pause_s=idle.ASK_PAUSE_S)
        took_s.append(time.monotonic() - started)
        known |= listed()
        producer.commit_transaction(LIMIT_S)
    return idle.times(took_s)
