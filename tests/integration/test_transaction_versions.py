"""Brokers whose transaction.version is below 2, as those before Kafka 4.0: epochs stay when a transaction ends.

All that rests on a broker can be run at each level and against other releases: ``python -m tests.brokers``.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RolledBack
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=[0, pytest.param(1, marks=pytest.mark.long)])
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def connection(level: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    broker = Broker(Path(tmp_path_factory.mktemp("broker")))
    broker.transaction_version = level
    with broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def sink(connection: KafkaConnection) -> Sink:
    return make_sink(connection)


def value_versions(connection: KafkaConnection) -> set[int]:
    """Return the versions of all values in the transaction log."""
    consumer = Consumer(connection.for_librdkafka(**{"group.id": "raw", "enable.partition.eof": True}))
    topic = "__transaction_state"
    partitions = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: set[int] = set()
    ends = 0
    while ends < len(partitions):
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"{topic} was not read to its end in {LIMIT_S:.0f} s"
        if message.error() is not None:
            ends += 1
        elif message.value() is not None:
            found.add(struct.unpack_from(">h", message.value())[0])
    consumer.close()
    return found


@pytest.mark.long
def test_handles_are_settled_as_at_level_2(level: int, connection: KafkaConnection, sink: Sink) -> None:
    first = sink.prepare(b"first", batch=0)
    assert isinstance(sink.commit(first, batch=0), Committed)
    assert isinstance(sink.commit(first, batch=0), Committed | AlreadyCommitted), "a commit may be repeated"
    assert isinstance(sink.manager().rollback([first], LIMIT_S)[0], AlreadyCommitted)
    second = sink.prepare(b"second", batch=1)
    assert isinstance(sink.manager().rollback([second], LIMIT_S)[0], RolledBack)
    assert isinstance(sink.commit(second, batch=1), Lost)
    third = sink.prepare(b"third", batch=2)
    assert isinstance(sink.commit(first, batch=0), AlreadyCommitted), "proven by its marker; the newer one stays open"
    assert sink.view(third.transaction).state == "Ongoing"
    assert isinstance(sink.commit(third, batch=2), Committed)
    wait_until("both are read", lambda: set(read_committed(connection, sink.topic)) == {b"first", b"third"})
    assert value_versions(connection) == {min(level, 1)}, "the brokers run at this level"


@pytest.mark.long
def test_a_collector_sees_judges_and_ends_them(connection: KafkaConnection, sink: Sink, tmp_path: Path) -> None:
    DecisionLog(connection).ensure_topic()
    topic = f"lifecycle-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(LIMIT_S)
    settings = {"INDOUBT_LIFECYCLE_TOPIC": topic}
    # What a producer that commits has just begun is left alone for so long: for all of a test, then for a moment.
    long, short = {"INDOUBT_FOREIGN_OLD_MS": "60000"}, {"INDOUBT_FOREIGN_OLD_MS": "300"}
    id_ = f"foreign-{uuid.uuid4().hex[:8]}"
    with running(connection.bootstrap_servers, tmp_path, environment=settings | long) as collector:
        managed(collector, ReportedPipeline(connection, topic))
        producer = foreign_in_progress(collector, sink, id_)
    with running(connection.bootstrap_servers, tmp_path, environment=settings | short) as collector:
        abort_foreign(collector, id_, producer)
        time_out(collector, sink, f"{id_}-slow")


def managed(collector: CollectorProcess, pipeline: ReportedPipeline) -> None:
    """Commit what was decided, and abort what a newer run left behind."""
    decided = pipeline.prepare(b"decided", batch=0)
    pipeline.decide(decided, batch=0)
    row = collector.wait_for(decided.transaction, verdict="commit it", may_commit=True)
    assert collector.order("commit", row).json()["steps"][0]["outcome"] == "committed"
    collector.wait_for(decided.transaction, state="committed", verdict="settled")
    left = pipeline.prepare(b"left over", batch=1)
    pipeline.start_run()
    row = collector.wait_for(left.transaction, state="prepared", verdict="abort it", may_abort=True)
    assert collector.order("abort", row).json()["steps"][0]["outcome"] == "aborted"
    collector.wait_for(left.transaction, state="aborted", verdict="settled")
    wait_until("only the decided row is read", lambda: pipeline.visible() == [b"decided"])


def foreign_in_progress(collector: CollectorProcess, sink: Sink, id_: str) -> Producer:
    """See two transactions of one producer and epoch apart; leave a third of it open."""
    producer = Producer(sink.connection.for_librdkafka(**{"transactional.id": id_, "linger.ms": 0}))
    producer.init_transactions(LIMIT_S)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(sink.topic, b"x", partition=0)
        producer.commit_transaction(LIMIT_S)
    wait_until("both", lambda: [r["state"] for r in collector.transactions(id_)] == ["committed"] * 2, LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"never", partition=0)
    assert producer.flush(LIMIT_S) == 0
    collector.wait_for(id_, state="open", verdict="in progress", rule=35, may_abort=False)
    return producer


def abort_foreign(collector: CollectorProcess, id_: str, producer: Producer) -> None:
    """End the transaction that this producer left open, by an order: the producer cannot commit it any more."""
    row = collector.wait_for(id_, state="open", verdict="foreign", may_abort=True)
    assert collector.order("abort", row, confirm=id_).json()["steps"][0]["outcome"] == "aborted"
    with pytest.raises(KafkaException):
        producer.commit_transaction(LIMIT_S)
    wait_until(
        "its cause is the operator",
        lambda: [r["cause"] for r in collector.rows("aborts") if r["transaction"] == id_] == ["operator"],
        LIMIT_S,
    )


def time_out(collector: CollectorProcess, sink: Sink, id_: str) -> None:
    """Have the broker end a transaction by its timeout."""
    settings = {"transactional.id": id_, "transaction.timeout.ms": 1_000, "linger.ms": 0}
    slow = Producer(sink.connection.for_librdkafka(**settings))
    slow.init_transactions(LIMIT_S)
    slow.begin_transaction()
    slow.produce(sink.topic, b"never", partition=0)
    assert slow.flush(LIMIT_S) == 0
    collector.wait_for(id_, state="aborted")
    (abort,) = [r for r in collector.rows("aborts") if r["transaction"] == id_]
    assert abort["cause"] == "timeout"
