"""A coordinator that moves between two transactions of a slot, while its old broker still answers: it is looked up again."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition

from demo.kafka_cluster import KafkaCluster
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.kafka_fixtures import fingerprint_of, make_sink, rows, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]
INTERNAL = ("__consumer_offsets", "__transaction_state")
MOVE_LIMIT_S = 120.0


def move_coordinators(connection: KafkaConnection) -> None:
    """Give each partition of the coordinators' topics its other leader."""
    admin = AdminClient(connection.for_librdkafka())

    def leaders() -> dict[tuple[str, int], int]:
        topics = admin.list_topics(timeout=30).topics
        return {(name, number): part.leader for name in INTERNAL for number, part in topics[name].partitions.items()}

    before, topics = leaders(), admin.list_topics(timeout=30).topics
    client = KafkaAdminClient(**connection.for_kafka_python())
    client.alter_partition_reassignments(
        {
            TopicPartition(name, number): [
                other for other in topics[name].partitions[number].replicas if other != leader
            ]
            + [leader]
            for (name, number), leader in before.items()
        }
    )
    client.close()
    wait_until(
        "other leaders", lambda: all(now != before[partition] for partition, now in leaders().items()), MOVE_LIMIT_S
    )


def test_a_slot_writes_on_when_its_coordinators_move(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "cluster", brokers=2, min_isr=1) as cluster:
        connection = KafkaConnection(cluster.bootstrap_servers)
        sink = make_sink(connection)
        assert isinstance(sink.commit(sink.prepare(b"a", timeout_ms=300_000)), Committed)
        # Before a transaction begins, then between its rows and its marker.
        move_coordinators(connection)
        transaction = sink.begin(batch=1, timeout_ms=300_000)
        transaction.write(rows(b"b"))
        move_coordinators(connection)
        assert isinstance(sink.commit(transaction.prepare(fingerprint_of(b"b")), batch=1), Committed)
