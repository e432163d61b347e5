"""What the collector sees of a real cluster, and what it does with what it cannot understand or reach."""

from __future__ import annotations

import json
import os
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from demo.ports import free_port
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def collector(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    settings = {"INDOUBT_METRICS_ACCESS": "loopback"}
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), environment=settings) as process:
        yield process


@pytest.fixture(scope="module")
def sink(connection: KafkaConnection) -> Sink:
    return make_sink(connection)


def foreign_producer(sink: Sink, timeout_ms: int = 60_000) -> tuple[str, Producer]:
    """Return a transactional id of nobody's pipeline, and its producer."""
    id_ = f"foreign-{uuid.uuid4().hex[:8]}"
    settings = {"transactional.id": id_, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
    producer = Producer(sink.connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    return id_, producer


def open_transaction(sink: Sink, producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce(sink.topic, b"x", partition=0)
    assert producer.flush(LIMIT_S) == 0


def create_topic(connection: KafkaConnection, topic: str) -> None:
    admin = AdminClient(connection.for_librdkafka())  # a name: the answer never comes once the client is collected
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(LIMIT_S)


def checkpoint_completed(batch: int) -> bytes:
    data = {
        "pipeline": "told",
        "checkpoint_id": "l",
        "attempt": 0,
        "batch": batch,
        "rows": 5,
        "bytes": 50,
        "duration_ms": 20,
    }
    event = LifecycleEvent(
        type=EventType.CHECKPOINT_COMPLETED, source="/pipeline/told", subject="s", at_ms=batch, data=data
    )
    return encode(event)


def test_a_transaction_is_shown_while_it_is_open_and_then_how_it_ended(collector: CollectorProcess, sink: Sink) -> None:
    id_, producer = foreign_producer(sink)
    open_transaction(sink, producer)
    row = collector.wait_for(id_, state="open", verdict="foreign")
    assert row["partitions"] == [f"{sink.topic}-0"]
    assert row["deadline_ms"] == row["opened_at_ms"] + 60_000
    producer.commit_transaction(LIMIT_S)
    assert collector.wait_for(id_, state="committed")["key"] == row["key"]
    assert id_ not in {r["transaction"] for r in collector.rows("transactions?limit=10000")}


def test_metrics_count_how_the_transactions_of_an_application_end(collector: CollectorProcess, sink: Sink) -> None:
    for number, is_commit in enumerate((True, True, False)):
        settings = {"transactional.id": f"metered-{number}", "transaction.timeout.ms": 60_000, "linger.ms": 0}
        producer = Producer(sink.connection.for_librdkafka(**settings))
        producer.init_transactions(LIMIT_S)
        open_transaction(sink, producer)
        end = producer.commit_transaction if is_commit else producer.abort_transaction
        end(LIMIT_S)
    wanted = {f'indoubt_pipeline_{what}_total{{kind="other",pipeline="metered"}} {number}.0'
              for what, number in (("commits", 2), ("aborts", 1))}  # fmt: skip
    wait_until(f"metrics {wanted}", lambda: wanted <= set(collector.metrics().splitlines()), LIMIT_S)


def test_an_expired_transaction_is_in_the_abort_history_as_timed_out(collector: CollectorProcess, sink: Sink) -> None:
    id_, producer = foreign_producer(sink, timeout_ms=1000)
    open_transaction(sink, producer)
    collector.wait_for(id_, state="aborted")
    (row,) = [r for r in collector.rows("aborts?cause=timeout&limit=10000") if r["transaction"] == id_]
    assert row["open_ms"] >= 1000


def test_a_taken_over_transaction_is_in_the_abort_history_as_fenced(collector: CollectorProcess, sink: Sink) -> None:
    id_, producer = foreign_producer(sink)
    open_transaction(sink, producer)
    Producer(sink.connection.for_librdkafka(**{"transactional.id": id_})).init_transactions(LIMIT_S)
    collector.wait_for(id_, state="aborted")
    wait_until(
        f"cause of {id_} is certain",
        lambda: (
            ("fenced", "certain")
            in {(r["cause"], r["certainty"]) for r in collector.rows("aborts?limit=10000") if r["transaction"] == id_}
        ),
    )


def test_a_bad_event_is_quarantined_and_the_rest_goes_on(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    topic = f"lifecycle-{uuid.uuid4().hex[:8]}"
    create_topic(connection, topic)
    wrong_data = json.loads(checkpoint_completed(7)) | {"data": {"pipeline": "told", "batch": "seven"}}
    bad: list[bytes | None] = [
        b"{half",
        b'{"specversion":"9.0"}',
        None,
        json.dumps(wrong_data).encode(),
        b"\xff\xfe" * 300,
    ]
    producer = Producer(connection.for_librdkafka())
    for value in (checkpoint_completed(1), *bad, checkpoint_completed(2)):
        producer.produce(topic, value, partition=0)
    assert producer.flush(LIMIT_S) == 0
    with running(broker.bootstrap_servers, tmp_path, environment={"INDOUBT_LIFECYCLE_TOPIC": topic}) as collector:
        wait_until("both good events", lambda: len(collector.rows("checkpoints?pipeline=told")) == 2, LIMIT_S)
        wait_until("bad events in history", lambda: len(collector.rows("quarantined")) == len(bad), LIMIT_S)
        aside = {row["offset"]: row for row in collector.rows("quarantined")}
        assert set(aside) == {1, 2, 3, 4, 5}
        assert all(row["source"] == topic and row["error"] and len(row["value"]) <= 200 for row in aside.values())
        assert "specversion" in aside[2]["error"]
        assert "'seven'" in aside[4]["error"]
        assert collector.get("status")["quarantined"] == len(bad)
        assert collector.observer("lifecycle events")["state"] == "up"


@pytest.mark.long
def test_a_missing_topic_is_named_and_read_once_it_is_there(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    DecisionLog(connection).ensure_topic()
    topic = f"late-{uuid.uuid4().hex[:8]}"
    with running(broker.bootstrap_servers, tmp_path, environment={"INDOUBT_LIFECYCLE_TOPIC": topic}) as collector:
        wait_until("it is down", lambda: collector.observer("lifecycle events")["state"] == "down", LIMIT_S)
        assert collector.observer("lifecycle events")["error"] == f"topic {topic} does not exist"
        wait_until("the others are up", lambda: collector.observer("transaction log")["state"] == "up", LIMIT_S)
        create_topic(connection, topic)
        producer = Producer(connection.for_librdkafka())
        producer.produce(topic, checkpoint_completed(3))
        assert producer.flush(LIMIT_S) == 0
        wait_until("the event", lambda: collector.rows("checkpoints?pipeline=told"), LIMIT_S)
        assert collector.observer("lifecycle events")["state"] == "up"


def test_polling_sees_openings_and_ends_and_says_what_it_cannot_see(broker: Broker, sink: Sink, tmp_path: Path) -> None:
    settings = {"INDOUBT_TRANSACTION_SOURCE": "polling", "INDOUBT_TRANSACTION_POLLING_MS": "200"}
    with running(broker.bootstrap_servers, tmp_path, environment=settings) as collector:
        id_, producer = foreign_producer(sink)
        open_transaction(sink, producer)
        opened = collector.wait_for(id_, state="open")
        assert opened["partitions"] == [f"{sink.topic}-0"]
        assert "between two polls" in collector.observer("transaction polling")["error"]
        producer.commit_transaction(LIMIT_S)
        assert collector.wait_for(id_, state="committed")["key"] == opened["key"]


@pytest.mark.long
def test_polling_notes_as_ended_what_its_id_went_on_without(broker: Broker, sink: Sink, tmp_path: Path) -> None:
    settings = {"INDOUBT_TRANSACTION_SOURCE": "polling", "INDOUBT_TRANSACTION_POLLING_MS": "200"}
    collector = CollectorProcess(broker.bootstrap_servers, tmp_path, environment=settings)
    try:
        collector.start()
        id_, producer = foreign_producer(sink)
        open_transaction(sink, producer)
        opened = collector.wait_for(id_, state="open")
        assert collector.stop() == 0
        asked = wire(sink.connection)
        wait_until("its id is empty", lambda: asked.init_producer_ids([(id_, -1, -1)], 60_000)[0].is_done, LIMIT_S)
        collector.start()
        ended = collector.wait_for(id_, state="ended")
        assert ended["key"] == opened["key"]
        assert (ended["verdict"], ended["certainty"], ended["deadline_ms"]) == ("settled", "likely", None)
        # Of others on this broker some may be open.
        assert ended["key"] not in {each["key"] for each in collector.rows("transactions")}
    finally:
        collector.kill()


@pytest.mark.long
def test_a_spark_checkpoint_directory_is_followed_and_not_counted_twice(broker: Broker, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_795_000_000_000, "conf": {}}
    offsets = f'v1\n{json.dumps(metadata)}\n{{"t":{{"0":1}}}}'
    collector = CollectorProcess(
        broker.bootstrap_servers, tmp_path / "data", ["--checkpoint", f"any-query={checkpoint}"]
    )
    try:
        collector.start()
        (checkpoint / "offsets" / "0").write_text(offsets)
        (checkpoint / "offsets" / ".1.crc").write_text("no batch")
        wait_until("batch 0 started", lambda: _states(collector) == [(0, "started")], LIMIT_S)
        (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
        wait_until("batch 0 completed", lambda: _states(collector) == [(0, "completed")], LIMIT_S)
        (checkpoint / "offsets" / "1").write_text("v7\n{}")
        wait_until("batch 1 aside", lambda: collector.rows("quarantined"), LIMIT_S)
        assert collector.stop() == 0
        collector.start()
        (checkpoint / "offsets" / "2").write_text(offsets)
        wait_until("batch 2 started", lambda: (2, "started") in _states(collector), LIMIT_S)
        assert _states(collector) == [(0, "completed"), (2, "started")]
        wait_until(
            "batch 2 in history", lambda: collector.observer("checkpoints of any-query")["records"] == 1, LIMIT_S
        )
        assert len(collector.rows("quarantined")) == 1, "the file that was quarantined before is not quarantined again"
        (checkpoint / "commits" / "3").write_text('v1\n{"nextBatchWatermarkMs":0}')
        (checkpoint / "offsets" / "4").write_text(offsets)
        wait_until("offsets/3 missed", lambda: len(collector.rows("quarantined")) == 2, LIMIT_S)
        assert "offsets/3 is missing: Spark cannot start" in collector.rows("quarantined")[0]["error"]
    finally:
        collector.kill()


def _states(collector: CollectorProcess) -> list[tuple[int, str]]:
    return sorted((row["number"], row["state"]) for row in collector.rows("checkpoints?pipeline=any-query"))


def test_a_wrong_setting_ends_it_and_is_named(broker: Broker, tmp_path: Path) -> None:
    collector = CollectorProcess(broker.bootstrap_servers, tmp_path, environment={"INDOUBT_COMMIT_OVERDUE_MS": "soon"})
    with pytest.raises(AssertionError, match="INDOUBT_COMMIT_OVERDUE_MS"):
        collector.start()
    assert collector.stop() == 2


def test_a_second_collector_on_the_same_directory_is_refused(collector: CollectorProcess, broker: Broker) -> None:
    second = CollectorProcess(broker.bootstrap_servers, collector.directory)
    with pytest.raises(AssertionError, match="One collector owns the file"):
        second.start()
    assert second.stop() == 1


@pytest.mark.long
def test_a_broker_that_is_away_at_start_and_a_record_of_a_newer_version(tmp_path: Path) -> None:
    """One broker of its own for both: it comes up late, and its transaction log is written to by hand."""
    broker = Broker(tmp_path / "broker", free_port())
    with running(broker.bootstrap_servers, tmp_path / "data") as collector:
        wait_until("the log is down", lambda: collector.observer("transaction log")["state"] == "down", LIMIT_S)
        assert "no broker answered" in collector.observer("transaction log")["error"]
        assert collector.rows("transactions") == []
        with broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            for name in ("transaction log", "decision log", "lifecycle events"):
                wait_until(f"{name} absent", lambda o=name: collector.observer(o)["state"] == "absent", LIMIT_S)
            assert collector.observer("transaction log")["error"].endswith(
                "no transaction was ever made on this cluster"
            )
            sink = make_sink(connection)
            first, producer = foreign_producer(sink)
            open_transaction(sink, producer)
            collector.wait_for(first, state="open")
            # Only the admin client may write to an internal topic; the broker goes by the client's name.
            writer = Producer(connection.for_librdkafka(**{"client.id": "__admin_client"}))
            key = struct.pack(">hh", 0, 5) + b"newer"
            writer.produce("__transaction_state", struct.pack(">h", 9) + os.urandom(20), key=key, partition=0)
            assert writer.flush(LIMIT_S) == 0
            wait_until("the record aside", lambda: collector.rows("quarantined"), LIMIT_S)
            (aside,) = collector.rows("quarantined")
            assert (aside["source"], aside["partition"]) == ("__transaction_state", 0)
            assert "version 9" in aside["error"]
            producer.commit_transaction(LIMIT_S)
            collector.wait_for(first, state="committed")
            assert collector.observer("transaction log")["state"] == "up"
