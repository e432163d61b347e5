"""One file of security properties serves every client: librdkafka, kafka-python and Spark's JVM client, on a real SASL listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from demo.broker import Broker
from indoubt.lifecycle.errors import SettingsError, Unreachable
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import make_sink
from tests.integration.pipeline_process import PipelineProcess, make_topics, produce, read_committed, wait_until

pytestmark = pytest.mark.integration

PASSWORD = "correct horse"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a broker whose only client listener takes SASL PLAIN."""
    users = f'username="broker" password="inside" user_broker="inside" user_anna="{PASSWORD}"'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{LOGIN} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(tmp_path_factory.mktemp("sasl-broker"), settings=settings, client=properties(PASSWORD)) as running:
        yield running


def properties(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "anna",
        "sasl.password": password,
    }


@pytest.mark.long
def test_pipeline_and_resource_manager_work_over_sasl(sasl_broker, tmp_path):
    connection = KafkaConnection(sasl_broker.bootstrap_servers, properties(PASSWORD))
    DecisionLog(connection).ensure_topic()
    make_topics(connection, "transaction_lifecycle", "sasl-in", "sasl-out")
    produce(connection, "sasl-in", [b"row %d" % n for n in range(50)])
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties(PASSWORD).items()))
    names = {"source": "sasl-in", "sink": "sasl-out", "prefix": "sasl", "kafka_properties": str(file)}
    with PipelineProcess(connection, tmp_path / "run", **names) as pipeline:
        wait_until("50 rows in sasl-out", lambda: read_committed(connection, "sasl-out").total() >= 50)
    assert read_committed(connection, "sasl-out") == Counter({b"row %d" % n: 1 for n in range(50)})
    assert PASSWORD not in pipeline.log
    assert KafkaResourceManager(connection, topic="sasl-out").recover("sasl") == []


def test_a_transaction_is_written_over_sasl(sasl_broker):
    sink = make_sink(KafkaConnection(sasl_broker.bootstrap_servers, properties(PASSWORD)))
    assert isinstance(sink.commit(sink.prepare(b"a", b"b")), Committed)
    wait_until("both rows", lambda: read_committed(sink.connection, sink.topic) == Counter([b"a", b"b"]))


def test_wrong_password_is_said_and_not_shown(sasl_broker):
    connection = KafkaConnection(sasl_broker.bootstrap_servers, properties("wrong horse"))
    with pytest.raises(Unreachable, match=r"sasl") as error:
        connection.reach(5.0)
    assert "wrong horse" not in str(error.value)
    assert "wrong horse" not in repr(connection)


def test_a_sink_whose_open_transactions_may_not_be_asked_for_is_refused(sasl_broker):
    connection = KafkaConnection(sasl_broker.bootstrap_servers, properties(PASSWORD))
    make_topics(connection, "sasl-locked")
    admin = AdminClient(connection.for_librdkafka())
    kind, pattern = ResourceType.TOPIC, ResourcePatternType.LITERAL
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        acl = AclBinding(kind, "sasl-locked", pattern, "User:anna", "*", operation, AclPermissionType.ALLOW)
        admin.create_acls([acl])[acl].result(10)
    manager = KafkaResourceManager(connection, topic="sasl-locked", transaction_timeout_ms=60_000)
    with pytest.raises(SettingsError, match="give its user Read on it"):
        manager.verify([("value", pa.binary())])
