"""What several modules of integration tests start for themselves: a collector that pipelines of the test's own tell of."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import fs

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running

pytest.register_assert_rewrite("tests.integration.resource_manager_contract")


@pytest.fixture(scope="module")
def object_store() -> Iterator[str]:
    """Return the URI of a bucket of an S3-compatible store that runs here; the environment says how to reach it."""
    # Imported here: boto's data costs a second.
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        given = {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}
        for name, value in given.items():
            patch.setenv(f"AWS_{name}", value)
        fs.S3FileSystem(endpoint_override=endpoint, allow_bucket_creation=True).create_dir("indoubt")
        yield "s3a://indoubt"
    server.stop()


@pytest.fixture(scope="module")
def lifecycle_topic(connection: KafkaConnection) -> str:
    """Return a lifecycle topic of the module's own."""
    topic = f"lifecycle-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(LIMIT_S)
    return topic


@pytest.fixture(scope="module")
def pipeline_collector(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    """Return a collector of the module's own that reads this topic."""
    DecisionLog(connection).ensure_topic()
    settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic}
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), environment=settings) as process:
        yield process
