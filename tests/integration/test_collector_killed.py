"""The collector killed again and again under load: history has every record of every topic once, and state goes on from it."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, offsets_of
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until

pytestmark = pytest.mark.integration

KILLS = 6
EVENTS_AT_ONCE = 20
TABLES = ("transaction_records", "lifecycle_events", "decision_records", "quarantined")


class Load:
    """Commits transactions and tells events, good and bad, as fast as the broker takes them, until it is stopped."""

    def __init__(self, sink: Sink, topic: str) -> None:
        self._sink, self._topic = sink, topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.id = f"load-{uuid.uuid4().hex[:8]}"
        self.committed = 0
        self.error = ""

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(LIMIT_S)

    def _run(self) -> None:
        try:
            settings = {"transactional.id": self.id, "linger.ms": 0}
            transactions = Producer(self._sink.connection.for_librdkafka(**settings))
            transactions.init_transactions(LIMIT_S)
            events = Producer(self._sink.connection.for_librdkafka())
            while not self._stopping.is_set():
                transactions.begin_transaction()
                transactions.produce(self._sink.topic, b"x")
                for n in range(EVENTS_AT_ONCE):
                    events.produce(self._topic, _event(self.committed) if n else b"{bad")
                transactions.commit_transaction(LIMIT_S)
                events.poll(0)
                self.committed += 1
            assert events.flush(LIMIT_S) == 0
        except Exception as error:
            self.error = repr(error)


def _event(number: int) -> bytes:
    # Now: what is older than the limit of history leaves it.
    now_ms = time.time_ns() // 1_000_000
    data = {"pipeline": "told", "checkpoint_id": "l", "attempt": 0, "batch": number}
    event = LifecycleEvent(
        type=EventType.CHECKPOINT_STARTED, source="/pipeline/told", subject="s", at_ms=now_ms, data=data
    )
    return encode(event)


@pytest.mark.long
def test_killed_at_any_moment_it_counts_every_record_once(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    sink, topic = make_sink(connection), f"lifecycle-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(LIMIT_S)
    collector = CollectorProcess(broker.bootstrap_servers, tmp_path, environment={"INDOUBT_LIFECYCLE_TOPIC": topic})
    moments = random.Random(7)
    try:
        with Load(sink, topic) as load:
            for _ in range(KILLS):
                collector.start()
                before = collector.get("status")["events"]
                wait_until("it records", lambda before=before: collector.get("status")["events"] > before, LIMIT_S)
                time.sleep(moments.uniform(0.0, 0.6))  # the moment of the kill is what varies
                collector.kill()
        assert not load.error
        collector.start()
        told, states = offsets_of(broker.bootstrap_servers, topic), None

        def caught_up() -> bool:
            nonlocal states
            states = offsets_of(broker.bootstrap_servers, "__transaction_state")
            decisions = offsets_of(broker.bootstrap_servers, "transaction_decisions")
            status = collector.get("status")
            return bool(status["events"] + status["quarantined"] >= len(told) + len(states) + len(decisions))

        wait_until("it caught up", caught_up, LIMIT_S)
        assert collector.wait_for(load.id, state="committed")
        # Directly before its end: other tests' transactions are still observed.
        status = collector.get("status")
        assert collector.stop() == 0
        recorded = _recorded(tmp_path / "history.duckdb")
        assert max(recorded.values()) == 1, "no record is counted twice"
        in_history = Counter(source for source, _, _ in recorded)
        assert {(p, o) for source, p, o in recorded if source == topic} == told, "no event is lost"
        assert {(p, o) for source, p, o in recorded if source == "__transaction_state"} >= states
        # What was asked of partitions about other tests' aborted transactions is counted too, and stands in no topic.
        asked = _rows_of(tmp_path / "history.duckdb", "transaction_offsets")
        assert status["events"] + status["quarantined"] == in_history.total() + asked
        assert status["quarantined"] == load.committed
        assert load.committed > 10 * KILLS, "there was load at each kill"
    finally:
        collector.kill()


def _recorded(path: Path) -> Counter[tuple[str, int, int]]:
    """Return how often each (source, partition, offset) is in history."""
    with duckdb.connect(str(path), read_only=True) as history:
        return Counter(
            row
            for table in TABLES
            for row in history.execute(f'select source, partition, "offset" from {table}').fetchall()  # noqa: S608
        )


def _rows_of(path: Path, table: str) -> int:
    with duckdb.connect(str(path), read_only=True) as history:
        return int(history.execute(f"select count(*) from {table}").fetchall()[0][0])  # noqa: S608
