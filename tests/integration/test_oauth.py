"""Every client logs in by tokens: a broker that validates signed ones, and a token endpoint that gives them for 10 s."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from demo.broker import CLASSES, Broker
from demo.ports import free_port
from indoubt.lifecycle.errors import Unreachable
from indoubt.resource_managers.kafka import oauth_tokens
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.wire import KafkaWire
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import running
from tests.integration.pipeline_process import (
    PipelineProcess,
    make_topics,
    open_transactions,
    produce,
    read_committed,
    wait_until,
)
from tests.integration.token_endpoint import AUDIENCE, CLIENT_SECRET, ISSUER, TokenEndpoint

pytestmark = pytest.mark.integration

LIFE_S = 10
SECURITY = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(tmp_path_factory.mktemp("tokens"), LIFE_S) as running:
        yield running


@pytest.fixture(scope="module")
def broker(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a broker whose clients' listener takes tokens alone, and ends connections whose token has expired."""
    port, inside, controller = free_port(), free_port(), free_port()
    jwks = endpoint.jwks.as_uri()
    oauth = "listener.name.oauth.oauthbearer"
    settings = {
        "listeners": f"OAUTH://127.0.0.1:{port},INSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"OAUTH://127.0.0.1:{port},INSIDE://127.0.0.1:{inside}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "OAUTH:SASL_PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connections.max.reauth.ms": "3600000",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oauth}.sasl.jaas.config": f"{SECURITY}.OAuthBearerLoginModule required;",
        f"{oauth}.sasl.server.callback.handler.class": f"{SECURITY}.OAuthBearerValidatorCallbackHandler",
        f"{oauth}.sasl.oauthbearer.jwks.endpoint.url": jwks,
        f"{oauth}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{oauth}.sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.jwks.endpoint.url": jwks,
    }
    directory = tmp_path_factory.mktemp("oauth-broker")
    flags = (*CLASSES, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}")
    with Broker(directory, port, settings, classes=flags, client=endpoint.properties()) as running:
        yield running


@pytest.fixture
def connection(broker: Broker, endpoint: TokenEndpoint) -> KafkaConnection:
    return KafkaConnection(broker.bootstrap_servers, endpoint.properties())


def test_librdkafka_and_kafka_python_write_and_judge(connection: KafkaConnection, endpoint: TokenEndpoint) -> None:
    connection.reach(10.0)
    make_topics(connection, "oauth-both")
    producer = Producer(connection.for_librdkafka(**{"transactional.id": "oauth-1"}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("oauth-both", b"a row")
    assert producer.flush(30) == 0
    assert open_transactions(connection, "oauth-1") == ["oauth-1"]
    producer.commit_transaction(30)
    assert read_committed(connection, "oauth-both") == Counter({b"a row": 1})
    assert any("python-httpx" in agent for agent in endpoint.asked)


def test_wrong_secret_is_said_by_both_and_not_shown(broker: Broker, endpoint: TokenEndpoint) -> None:
    connection = KafkaConnection(broker.bootstrap_servers, endpoint.properties("wrong-horse"))
    with pytest.raises(Unreachable, match=r"sasl\.\*") as by_librdkafka:
        connection.reach(5.0)
    with pytest.raises(Unreachable, match=r"answered 401: check sasl\.oauthbearer\.client\.id") as by_kafka_python:
        KafkaWire(connection)
    for text in (str(by_librdkafka.value), str(by_kafka_python.value), repr(connection)):
        assert "wrong-horse" not in text


@pytest.mark.long
def test_both_renew_their_tokens_before_they_expire(connection: KafkaConnection, endpoint: TokenEndpoint) -> None:
    make_topics(connection, "oauth-renewed")
    wire, producer = KafkaWire(connection), Producer(connection.for_librdkafka())
    began_s, before = time.monotonic(), Counter(endpoint.asked)

    def use_both() -> bool:
        producer.produce("oauth-renewed", b"x")
        assert producer.flush(10) == 0
        wire.admin.list_topics()
        return time.monotonic() - began_s > 2 * LIFE_S

    wait_until("two lives of a token", use_both)
    renewed = Counter(endpoint.asked) - before
    by_kafka_python = sum(count for agent, count in renewed.items() if "python-httpx" in agent)
    assert by_kafka_python >= 2
    assert renewed.total() - by_kafka_python >= 2


@pytest.mark.long
def test_tokens_of_aws_reach_every_kind_of_client_and_are_renewed(
    broker: Broker, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS cannot be asked here: the signer is replaced by one whose tokens this broker validates."""
    signed: list[float] = []

    def sign(region: str) -> tuple[str, int]:
        assert region == "eu-west-1"
        signed.append(time.time())
        return endpoint.token(), int((signed[-1] + LIFE_S) * 1000)

    signer = SimpleNamespace(generate_auth_token=sign)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", signer)
    oauth_tokens._provider.cache_clear()
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    properties |= {"sasl.oauthbearer.method": "aws_msk_iam", "sasl.oauthbearer.aws.region": "eu-west-1"}
    connection = KafkaConnection(broker.bootstrap_servers, properties)
    connection.reach(10.0)
    make_topics(connection, "oauth-aws")
    admin, producer = AdminClient(connection.for_librdkafka()), Producer(connection.for_librdkafka())
    consumer, wire = Consumer(connection.for_librdkafka(**{"group.id": "aws"})), KafkaWire(connection)
    consumer.assign([TopicPartition("oauth-aws", partition, 0) for partition in range(2)])
    began_s = time.monotonic()
    produce(connection, "oauth-aws", [b"before"])
    assert consumer.consume(1, 10)[0].value() == b"before"
    wait_until("two lives of a token, in which no client is used", lambda: time.monotonic() - began_s > 2 * LIFE_S)
    producer.produce("oauth-aws", b"after")
    assert producer.flush(10) == 0
    assert consumer.consume(1, 10)[0].value() == b"after"
    assert "oauth-aws" in admin.list_topics(timeout=10).topics
    assert "oauth-aws" in str(wire.admin.list_topics())
    assert len(signed) >= 3
    consumer.close()
    oauth_tokens._provider.cache_clear()


@pytest.mark.long
def test_the_collector_observes_and_shows_no_secret(
    broker: Broker, connection: KafkaConnection, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    make_topics(connection, "oauth-observed")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in endpoint.properties().items()))
    producer = Producer(connection.for_librdkafka(**{"transactional.id": "oauth-observed-1"}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("oauth-observed", b"a row")
    assert producer.flush(30) == 0
    environment = {"INDOUBT_KAFKA_PROPERTIES": str(file)}
    for source in ("log", "polling"):
        environment["INDOUBT_TRANSACTION_SOURCE"] = source
        with running(broker.bootstrap_servers, tmp_path / source, environment=environment) as collector:
            collector.wait_for("oauth-observed-1", state="open")
            assert CLIENT_SECRET not in collector.log.read_text()
    producer.abort_transaction(30)


@pytest.mark.long
def test_a_pipeline_reads_and_writes(connection: KafkaConnection, endpoint: TokenEndpoint, tmp_path: Path) -> None:
    DecisionLog(connection).ensure_topic()
    make_topics(connection, "transaction_lifecycle", "oauth-in", "oauth-out")
    produce(connection, "oauth-in", [b"row %d" % n for n in range(50)])
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in endpoint.properties().items()))
    names = {"source": "oauth-in", "sink": "oauth-out", "prefix": "oauth", "kafka_properties": str(file)}
    with PipelineProcess(connection, tmp_path / "run", **names) as pipeline:
        wait_until("50 rows in oauth-out", lambda: read_committed(connection, "oauth-out").total() >= 50)
    assert read_committed(connection, "oauth-out") == Counter({b"row %d" % n: 1 for n in range(50)})
    assert CLIENT_SECRET not in pipeline.log
