"""Who is in a consumer group decides about an open transaction of Kafka Streams, on a real broker with real members."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle.clock import now_ms
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.group_questions import members
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
QUICK = {"INDOUBT_PARTITION_ROUND_MS": "600", "INDOUBT_ALERT_BLOCKED_MS": "1000"}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with Broker(Path(tmp_path_factory.mktemp("broker"))) as broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def collector(connection: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    with running(connection.bootstrap_servers, tmp_path_factory.mktemp("collector"), environment=QUICK) as process:
        yield process


class StreamsInstance:
    """One process with one thread, by the names that Kafka Streams gives: a member of the group, a transaction with its offsets."""

    def __init__(self, connection: KafkaConnection, application: str, topic: str) -> None:
        self.process, self._topic = str(uuid.uuid4()), topic
        self.id = f"{application}-{self.process}-1"
        client = f"{application}-{self.process}-StreamThread-1-consumer"
        self._consumer = Consumer(
            connection.for_librdkafka(
                **{
                    "group.id": application,
                    "client.id": client,
                    "enable.auto.commit": False,
                    "session.timeout.ms": 6_000,
                }
            )
        )
        self._producer = Producer(connection.for_librdkafka(**{"transactional.id": self.id}))
        self._stopping = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)

    def join(self) -> None:
        """Become a member, and stay one."""
        self._consumer.subscribe([self._topic])
        wait_until("an assignment", lambda: self._consumer.poll(0.1) is None and self._consumer.assignment(), LIMIT_S)

    def open(self) -> None:
        """Open a transaction that holds the offsets of its input, and leave it open; go on as a member."""
        self._producer.init_transactions(LIMIT_S)
        self._producer.begin_transaction()
        offsets = [TopicPartition(self._topic, 0, 0)]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), LIMIT_S)
        self._polling.start()

    def write(self, *topics: str) -> None:
        """Write a record to each topic in the open transaction."""
        for topic in topics:
            self._producer.produce(topic, b"row", partition=0)
        assert self._producer.flush(LIMIT_S) == 0

    def commit(self, topic: str, offset: int) -> None:
        """Commit an offset of the group."""
        self._consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)

    def leave(self) -> None:
        """Leave the group; the transaction stays open."""
        self._stopping.set()
        if self._polling.is_alive():
            self._polling.join(LIMIT_S)
        self._consumer.close()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._consumer.poll(0.1)


@pytest.fixture
def application(connection: KafkaConnection) -> tuple[str, str]:
    """Return an application id and the topic that it reads."""
    name = f"shop-{uuid.uuid4().hex[:8]}-app"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(LIMIT_S)
    return name, name


def facts(row: dict[str, Any]) -> str:
    return "\n".join(evidence["fact"] for evidence in row["evidence"])


def test_a_member_keeps_it_in_progress_and_an_empty_group_makes_it_abort(
    collector: CollectorProcess, connection: KafkaConnection, application: tuple[str, str]
) -> None:
    name, topic = application
    instance = StreamsInstance(connection, name, topic)
    instance.join()
    instance.commit(topic, 0)
    instance.open()
    row = wait_until(
        "its membership is known",
        lambda: next(
            (
                r
                for r in collector.rows(f"transactions?pipeline={name}")
                if "is a member of its consumer group" in facts(r)
            ),
            None,
        ),
        LIMIT_S,
    )
    assert (row["verdict"], row["rule"], row["may_abort"]) == ("in progress", 29, False)
    assert row["application"] == {"kind": "kafka streams", "name": name, "instance": instance.process, "task": "1"}
    instance.leave()
    row = collector.wait_for(instance.id, verdict="abort it", certainty="certain")
    assert (row["rule"], row["may_abort"], row["loses_data"]) == (33, True, False)
    assert f"it holds the offsets of consumer group {name}, which its owner has left" in facts(row)
    assert "an abort unblocks the restore" in facts(row)
    answer = collector.order("abort", row)
    assert answer.status_code == 200, answer.text
    collector.wait_for(instance.id, state="aborted")


def test_another_process_in_the_group_shows_that_the_owner_is_gone(
    collector: CollectorProcess, connection: KafkaConnection, application: tuple[str, str]
) -> None:
    name, topic = application
    first, second = StreamsInstance(connection, name, topic), StreamsInstance(connection, name, topic)
    first.join()
    first.commit(topic, 0)
    first.open()
    first.leave()
    second.join()
    row = collector.wait_for(first.id, rule=33, certainty="certain")
    wait_until(
        "the other process is seen",
        lambda: "which its owner has left" in facts(collector.wait_for(first.id)),
        LIMIT_S,
    )
    assert (row["verdict"], row["may_abort"]) == ("abort it", True)
    second.leave()


def test_an_empty_group_of_the_name_in_an_id_says_nothing_of_its_living_owner(
    collector: CollectorProcess, connection: KafkaConnection, application: tuple[str, str]
) -> None:
    name, topic = application
    left = StreamsInstance(connection, name, topic)
    left.join()
    left.commit(topic, 0)
    left.leave()
    consumer = Consumer(connection.for_librdkafka(**{"group.id": f"{name}-v2", "enable.auto.commit": False}))
    consumer.subscribe([topic])
    wait_until("an assignment", lambda: consumer.poll(0.1) is None and consumer.assignment(), LIMIT_S)
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    # Any client's id may look like one of Kafka Streams'.
    id_ = f"{name}-{uuid.uuid4()}-0"
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)

    def send(offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), LIMIT_S
        )

    send(0)
    producer.commit_transaction(LIMIT_S)
    send(0)
    seen: set[tuple[str, int, str]] = set()

    def is_late() -> bool:
        consumer.poll(0)
        row = collector.wait_for(id_, state="open")
        seen.add((row["verdict"], row["rule"], row["certainty"]))
        return row["rule"] == 28 and f"it holds the offsets of consumer group {name}-v2" in facts(row)

    wait_until("its owner counts as late, and its own group is known", is_late, LIMIT_S)
    assert seen <= {("in progress", 29, "likely"), ("abort it", 28, "likely")}
    producer.commit_transaction(LIMIT_S)
    collector.wait_for(id_, state="committed")
    consumer.close()


def test_a_transaction_without_offsets_is_never_certain_to_be_aborted(
    collector: CollectorProcess, connection: KafkaConnection, application: tuple[str, str]
) -> None:
    name, topic = application
    consumer = Consumer(connection.for_librdkafka(**{"group.id": name, "enable.auto.commit": False}))
    producer = Producer(connection.for_librdkafka(**{"transactional.id": f"{name}-mixed"}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"of its input")
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), LIMIT_S)
    producer.commit_transaction(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"from elsewhere")
    assert producer.flush(LIMIT_S) == 0
    row = collector.wait_for(f"{name}-mixed", rule=28)
    assert (row["verdict"], row["certainty"], row["loses_data"]) == ("abort it", "likely", True)
    assert "assumed: its owner would have added the offsets of its input" in facts(row)
    refused = collector.order("abort", row, confirm="")
    assert refused.status_code == 409, refused.text
    assert "may lose data" in refused.text
    producer.commit_transaction(LIMIT_S)
    collector.wait_for(f"{name}-mixed", state="committed")
    consumer.close()


def test_a_restore_and_a_repartition_group_wait_for_a_transaction_left_open(
    collector: CollectorProcess, connection: KafkaConnection, application: tuple[str, str]
) -> None:
    name, topic = application
    changelog, repartition = f"{name}-counts-changelog", f"{name}-by-user-repartition"
    admin = AdminClient(connection.for_librdkafka())
    for created in admin.create_topics([NewTopic(changelog, 1, 1), NewTopic(repartition, 1, 1)]).values():
        created.result(LIMIT_S)
    plain = Producer(connection.for_librdkafka())
    plain.produce(repartition, b"readable", partition=0)
    assert plain.flush(LIMIT_S) == 0
    first, second = StreamsInstance(connection, name, topic), StreamsInstance(connection, name, topic)
    first.join()
    first.commit(topic, 0)
    first.commit(repartition, 0)
    first.open()
    first.write(changelog, repartition)
    first.leave()

    def waiting(of_topic: str) -> list[tuple[str, str, int, int]]:
        rows = collector.rows(f"blocked?topic={of_topic}")
        groups = (group for row in rows for group in row["groups"] if group["kind"] == "waiting")
        return [(group["group"], group["certainty"], group["offset"], group["lag"]) for group in groups]

    restoring = f"{name} (restoring counts)"
    wait_until("nobody is there", lambda: waiting(changelog) == [(restoring, "guess", 0, 1)], LIMIT_S)
    wait_until("nobody is there", lambda: waiting(repartition) == [(name, "guess", 0, 2)], LIMIT_S)
    second.join()
    wait_until("a new process restores", lambda: waiting(changelog) == [(restoring, "likely", 0, 1)], LIMIT_S)
    wait_until("its group waits", lambda: waiting(repartition) == [(name, "likely", 0, 2)], LIMIT_S)
    row = collector.wait_for(first.id, verdict="abort it")
    assert f"an abort unblocks the restore from {changelog}-0" in facts(row)

    def alerted() -> list[dict[str, Any]]:
        alerts = collector.rows("alerts?rule=A4&state=firing")
        return [alert for alert in alerts if changelog in alert["summary"] and restoring in facts(alert)]

    assert "1 reader of" in wait_until(f"alert A4 of {changelog}", alerted, LIMIT_S)[0]["summary"]
    assert collector.order("abort", row).status_code == 200
    wait_until("the restore goes on", lambda: not waiting(changelog) and not waiting(repartition), LIMIT_S)
    second.leave()


def test_an_unknown_group_is_dead_and_has_no_members(connection: KafkaConnection) -> None:
    found = members(connection, ["no-such-group"], now_ms()).found["no-such-group"]
    assert (found.state, found.client_ids) == ("Dead", frozenset())


def test_a_group_that_had_members_is_told_from_one_that_never_had(
    connection: KafkaConnection, application: tuple[str, str]
) -> None:
    name, topic = application
    alone = f"{name}-alone"
    assigned = Consumer(connection.for_librdkafka(**{"group.id": alone, "enable.auto.commit": False}))
    assigned.assign([TopicPartition(topic, 0)])
    assigned.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    assigned.close()
    instance = StreamsInstance(connection, name, topic)
    instance.join()
    instance.commit(topic, 0)
    instance.leave()

    def told() -> dict[str, tuple[str, bool]]:
        found = members(connection, [name, alone], now_ms()).found
        return {group.group: (group.state, group.is_simple) for group in found.values()}

    wait_until("both are empty", lambda: told() == {name: ("Empty", False), alone: ("Empty", True)}, LIMIT_S)
