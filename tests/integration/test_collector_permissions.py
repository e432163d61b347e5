"""Permissions taken from a running collector: it says what it may not see, and calls nothing ended or abandoned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, running
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import make_topics

pytestmark = [pytest.mark.integration, pytest.mark.long]
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOPIC = "orders"


def properties(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
    }


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Broker]:
    """Return a broker that allows only what is granted, except to the user admin."""
    users = 'username="broker" password="broker" user_broker="broker" user_admin="admin" user_watch="watch"'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{LOGIN} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS;User:admin",
        "allow.everyone.if.no.acl.found": "false",
    }
    with Broker(tmp_path / "broker", settings=settings, client=properties("admin")) as broker:
        yield broker


def grant(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:watch", "*", operation, AclPermissionType.ALLOW)


def opened(connection: KafkaConnection, id_: str) -> Producer:
    """Return a producer with a transaction open."""
    settings = {"transactional.id": id_, "transaction.timeout.ms": 600_000, "linger.ms": 0}
    producer = Producer(connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"x", partition=0)
    assert producer.flush(LIMIT_S) == 0
    return producer


def test_ids_that_may_not_be_described_any_more_are_named(guarded: Broker, tmp_path: Path) -> None:
    admins = KafkaConnection(guarded.bootstrap_servers, properties("admin"))
    make_topics(admins, TOPIC)
    admin = AdminClient(admins.for_librdkafka())
    describe = grant(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE)
    granted = [
        grant(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        grant(ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
        grant(ResourceType.TOPIC, TOPIC, AclOperation.READ),
        grant(ResourceType.GROUP, "*", AclOperation.DESCRIBE),
    ]
    for answer in admin.create_acls([*granted, describe]).values():
        answer.result(LIMIT_S)
    before = opened(admins, "before")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties("watch").items()))
    settings = {"INDOUBT_KAFKA_PROPERTIES": str(file), "INDOUBT_TRANSACTION_SOURCE": "polling"}
    with running(guarded.bootstrap_servers, tmp_path / "collector", environment=settings) as collector:
        collector.wait_for("before", state="open")
        all_of_it = AclBindingFilter(
            describe.restype,
            describe.name,
            describe.resource_pattern_type,
            describe.principal,
            describe.host,
            describe.operation,
            describe.permission_type,
        )
        for taken in admin.delete_acls([all_of_it]).values():
            assert len(taken.result(LIMIT_S)) == 1
        polling = "transaction polling"
        wait_until("it is down", lambda: collector.observer(polling)["state"] == "down", LIMIT_S)
        assert "transactional id before (" in collector.observer(polling)["error"]
        assert "Describe on transactional ids" in collector.observer(polling)["error"]
        before.commit_transaction(LIMIT_S)
        after = opened(admins, "after")
        told = "may not describe every transactional id"
        wait_until("partitions say so", lambda: told in collector.observer("partitions")["error"], LIMIT_S)
        assert collector.rows("hanging") == []
        for answer in admin.create_acls([describe]).values():
            answer.result(LIMIT_S)
        wait_until("it is up", lambda: collector.observer(polling)["state"] == "up", LIMIT_S)
        collector.wait_for("before", state="committed")
        collector.wait_for("after", state="open")
        after.abort_transaction(LIMIT_S)
