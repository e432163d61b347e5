"""What several modules of integration tests start for themselves: a collector that pipelines of the test's own tell of."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka_connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running


@pytest.fixture(scope="module")
def lifecycle_topic(connection: KafkaConnection) -> str:
    """Return a lifecycle topic of the module's own."""
    topic = f"lifecycle-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(LIMIT_S)
    return topic


@pytest.fixture(scope="module")
def told_collector(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    """Return a collector of the module's own that reads this topic."""
    DecisionLog(connection).ensure_topic()
    settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic}
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), environment=settings) as process:
        yield process
