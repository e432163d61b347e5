"""One configuration for three clients, and no secret in any text."""

from __future__ import annotations

import pickle

import pytest
from confluent_kafka import Producer

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka.connection import KafkaConnection

SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "anna",
    "sasl.password": 'pass"word\\1',
    "ssl.ca.location": "/etc/ca.pem",
    "ssl.endpoint.identification.algorithm": "none",
}


@pytest.fixture
def connection() -> KafkaConnection:
    return KafkaConnection("a:9092, b:9092", SASL)


def test_librdkafka_takes_it_as_it_is(connection):
    found = connection.for_librdkafka(**{"client.id": "x"})
    own = {"bootstrap.servers": "a:9092, b:9092", "reconnect.backoff.max.ms": 1_000}
    assert found == {**own, **SASL, "client.id": "x"}
    Producer({**found, "ssl.ca.location": "probe"})


def test_kafka_python_gets_its_own_names(connection):
    assert connection.for_kafka_python() == {
        "bootstrap_servers": ["a:9092", "b:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "anna",
        "sasl_plain_password": 'pass"word\\1',
        "ssl_cafile": "/etc/ca.pem",
        "ssl_check_hostname": False,
    }


def test_no_secret_in_any_text(connection):
    secret = KafkaConnection("a:1", {"sasl.password": "hunter2", "ssl.key.password": "hunter3"})
    for text in (repr(secret), str(secret), f"{secret}", f"{[secret]}", repr({"c": secret})):
        assert "hunter" not in text
        assert "***" in text
    with pytest.raises(SettingsError) as refused:
        KafkaConnection("", {"sasl.password": "hunter2"})
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize("name", ["acks", "sasl.pasword", "transactional.id", "bootstrap.servers"])
def test_an_unknown_property_is_refused_by_name(name):
    with pytest.raises(SettingsError, match=name.replace(".", r"\.")):
        KafkaConnection("a:1", {name: "x"})


def test_no_address_is_refused():
    with pytest.raises(SettingsError, match="bootstrap_servers"):
        KafkaConnection("  ")


def test_it_travels_as_text_and_by_pickle(connection):
    for copy in (KafkaConnection.from_json(connection.to_json()), pickle.loads(pickle.dumps(connection))):
        assert copy == connection
        assert hash(copy) == hash(connection)
    assert KafkaConnection("a:1", {"client.id": "x"}) != KafkaConnection("a:1")


def test_from_a_properties_file(tmp_path):
    file = tmp_path / "kafka.properties"
    file.write_text("# comment\n\nbootstrap.servers=c:9092\nsecurity.protocol = ssl\nsasl.password=a=b\n")
    assert KafkaConnection.from_properties_file(file) == KafkaConnection(
        "c:9092", {"security.protocol": "ssl", "sasl.password": "a=b"}
    )
    assert KafkaConnection.from_properties_file(file, "d:1").bootstrap_servers == "d:1"


def test_a_wrong_properties_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.properties"):
        KafkaConnection.from_properties_file(tmp_path / "nowhere.properties")
    file = tmp_path / "kafka.properties"
    file.write_text("bootstrap.servers=c:9092\nnonsense\n")
    with pytest.raises(SettingsError, match="line 2"):
        KafkaConnection.from_properties_file(file)


def test_from_the_environment_which_wins_over_the_file(tmp_path):
    file = tmp_path / "kafka.properties"
    file.write_text("bootstrap.servers=c:9092\nsecurity.protocol=ssl\nsasl.username=file\n")
    environment = {
        "INDOUBT_BOOTSTRAP_SERVERS": "e:9092",
        "INDOUBT_KAFKA_PROPERTIES": str(file),
        "INDOUBT_KAFKA_SASL_USERNAME": "environment",
        "INDOUBT_OTHER": "x",
        "PATH": "/bin",
    }
    assert KafkaConnection.from_environment(environment) == KafkaConnection(
        "e:9092", {"security.protocol": "ssl", "sasl.username": "environment"}
    )
    with pytest.raises(SettingsError, match=r"no\.such"):
        KafkaConnection.from_environment({"INDOUBT_BOOTSTRAP_SERVERS": "e:1", "INDOUBT_KAFKA_NO_SUCH": "x"})
    with pytest.raises(SettingsError, match="bootstrap_servers"):
        KafkaConnection.from_environment({})
