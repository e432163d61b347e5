"""A cluster at a real broker with something of everything that the pages show: a pipeline is stuck, readers wait, rows are lost."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from indoubt.lifecycle import page_paths
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.app_process import running_app
from tests.integration.collector_process import OPERATOR, CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import make_topics
from tests.integration.reported_pipeline import ReportedPipeline

TIMEOUT_MS = 800_000
"""Longer than these tests take: no card may end by itself while a test looks at it."""
LIMIT_S = 30.0
QUICK = {
    "INDOUBT_COMMIT_OVERDUE_MS": "300",
    "INDOUBT_FOREIGN_OLD_MS": "300",
    "INDOUBT_DRIVER_SILENT_MS": "1000",
    "INDOUBT_PARTITION_ROUND_MS": "600",
    "INDOUBT_ALERT_COMMIT_OVERDUE_MS": "500",
    "INDOUBT_ALERT_BLOCKED_MS": "500",
}
FOREIGN, GROUP = "billing-export-1", "dashboard"


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckCluster:
    """``app``: the address of its pages; ``decided``: keys of the batch to commit; ``foreign``: key of the abandoned one."""

    app: str
    collector: CollectorProcess
    connection: KafkaConnection
    lifecycle_topic: str
    pipeline: str
    topic: str
    decided: tuple[str, ...]
    foreign: str

    def object_paths(self) -> tuple[str, ...]:
        """Return the page of one object of each kind, with its query."""
        alert = next(row for row in self.collector.rows("alerts") if row["rule"] == "A2" and row["state"] == "firing")
        return (
            page_paths.transaction(self.decided[0]),
            page_paths.transaction(self.foreign),
            page_paths.batch(self.pipeline, 1),
            page_paths.pipeline(self.pipeline),
            page_paths.alert(alert["key"]),
            page_paths.partition(self.topic, 0),
        )


@contextmanager
def running_stuck_cluster(connection: KafkaConnection, directory: Path) -> Iterator[StuckCluster]:
    """Write it, and run a collector and the pages; they are shown once everything is known."""
    lifecycle_topic = f"lifecycle-{uuid.uuid4().hex[:8]}"
    make_topics(connection, lifecycle_topic)
    DecisionLog(connection).ensure_topic()
    (directory / "collector").mkdir(parents=True)
    settings = {**QUICK, "INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic}
    with (
        running(connection.bootstrap_servers, directory / "collector", environment=settings) as collector,
        ExitStack() as readers,
    ):
        pipeline = ReportedPipeline(connection, lifecycle_topic, TIMEOUT_MS)
        _report_start(pipeline)
        _commit_a_batch(pipeline)
        _lose_a_batch(collector, connection, lifecycle_topic)
        _abort_by_takeover(connection, pipeline.sink.topic)
        decided = [pipeline.prepare(b"row-%d" % slot, slot=slot, batch=1) for slot in (0, 1)]
        pipeline.decide(*decided, batch=1)
        _leave_open(connection, pipeline.sink.topic)
        readers.enter_context(_waiting_reader(connection, pipeline.sink.topic))
        rows = [collector.wait_for(handle.transaction, verdict="commit it", may_commit=True) for handle in decided]
        foreign = collector.wait_for(FOREIGN, verdict="foreign")
        collector.order("commit", *rows, dry_run=True, reason="to see what it would do")
        _wait_for_alerts(collector, "A2", "A4", "A7")
        with running_app(directory, INDOUBT_TOKEN=OPERATOR, INDOUBT_COLLECTOR_URL=collector.url) as port:
            yield StuckCluster(
                app=f"http://127.0.0.1:{port}",
                collector=collector,
                connection=connection,
                lifecycle_topic=lifecycle_topic,
                pipeline=pipeline.prefix,
                topic=pipeline.sink.topic,
                decided=tuple(row["key"] for row in rows),
                foreign=foreign["key"],
            )


def _wait_for_alerts(collector: CollectorProcess, *rules: str) -> None:
    def firing() -> set[str]:
        return {row["rule"] for row in collector.rows("alerts") if row["state"] == "firing"}

    wait_until(f"{rules} to fire", lambda: firing() >= set(rules), LIMIT_S)


def _report_start(pipeline: ReportedPipeline) -> None:
    settings = {"interval_ms": 500, "transaction_timeout_ms": TIMEOUT_MS, "restart_delay_ms": 1000, "alive_ms": 300}
    settings |= {"checkpoint_directory": "checkpoints/words", "sink": pipeline.sink.topic, "source": "words"}
    pipeline.tell(EventType.PIPELINE_STARTED, pipeline.prefix, job="word_count", settings=settings)
    pipeline.tell(EventType.PIPELINE_ALIVE, pipeline.prefix, job="word_count")


def _commit_a_batch(pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"a committed row")
    pipeline.decide(handle)
    marker = Marker(batch=0, attempt=pipeline.attempt, checkpoint_id=pipeline.checkpoint_id)
    pipeline.sink.manager().commit([handle], [marker], LIMIT_S)
    pipeline.tell(EventType.CHECKPOINT_STARTED, "0", batch=0)
    pipeline.tell(EventType.CHECKPOINT_COMPLETED, "0", batch=0, rows=1, bytes=14, duration_ms=40)
    pipeline.tell(EventType.CHECKPOINT_STARTED, "1", batch=1)
    pipeline.tell(EventType.CHECKPOINT_FAILED, "1", batch=1, reason="the driver was killed")


def _lose_a_batch(collector: CollectorProcess, connection: KafkaConnection, lifecycle_topic: str) -> None:
    """Take the id of a decided transaction: the coordinator aborts it, and its rows are lost."""
    other = ReportedPipeline(connection, lifecycle_topic, TIMEOUT_MS)
    _report_start(other)
    handle = other.prepare(b"a row that is lost")
    other.decide(handle)
    collector.wait_for(handle.transaction, state="decided")
    _take(connection, handle.transaction)


def _abort_by_takeover(connection: KafkaConnection, topic: str) -> None:
    _write_in_a_transaction(connection, topic, "nightly-export-0")
    _take(connection, "nightly-export-0")


def _leave_open(connection: KafkaConnection, topic: str) -> None:
    _write_in_a_transaction(connection, topic, FOREIGN)


def _write_in_a_transaction(connection: KafkaConnection, topic: str, id_: str) -> None:
    settings = {"transactional.id": id_, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0}
    producer = Producer(connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"a row of another application", partition=0)
    assert producer.flush(LIMIT_S) == 0


def _take(connection: KafkaConnection, id_: str) -> None:
    Producer(connection.for_librdkafka(**{"transactional.id": id_})).init_transactions(LIMIT_S)


@contextmanager
def _waiting_reader(connection: KafkaConnection, topic: str) -> Iterator[None]:
    """Have a group that has read all that it may: it waits behind the open transactions."""
    settings = {"group.id": GROUP, "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer(connection.for_librdkafka(**settings))
    consumer.subscribe([topic])
    try:

        def partitions() -> list[TopicPartition]:
            consumer.poll(0.1)
            return consumer.assignment()

        wait_until(f"{GROUP} to have its partitions", partitions, LIMIT_S)
        ends = {
            each.partition: consumer.get_watermark_offsets(each, timeout=LIMIT_S, cached=False)[1]
            for each in partitions()
        }
        read = [TopicPartition(topic, number, end) for number, end in ends.items()]
        consumer.commit(offsets=read, asynchronous=False)
        yield
    finally:
        consumer.close()
