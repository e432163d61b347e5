"""Each property of librdkafka that is taken: what kafka-python and the JVM's client are given, or which of them refuses it."""

from __future__ import annotations

import re
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kafka import KafkaAdminClient

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka import client_properties
from indoubt.resource_managers.kafka.connection import KafkaConnection

NUMBERS = {
    "socket.timeout.ms": "request_timeout_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
}
PASSWORD = "hunter2"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a certificate (cert.pem), its key (key.pem) and that key encrypted (locked.pem)."""
    directory, key = Path(tmp_path_factory.mktemp("pem")), ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anna")]), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    signed = builder.add_extension(x509.BasicConstraints(True, None), critical=True).sign(key, hashes.SHA256())
    encoding, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (directory / "cert.pem").write_bytes(signed.public_bytes(encoding))
    plain, locked = serialization.NoEncryption(), serialization.BestAvailableEncryption(PASSWORD.encode())
    (directory / "key.pem").write_bytes(key.private_bytes(encoding, pkcs8, plain))
    (directory / "locked.pem").write_bytes(key.private_bytes(encoding, pkcs8, locked))
    return directory


def text(file: Path) -> str:
    """Return PEM text as it stands in one line of a properties file."""
    return file.read_text().replace("\n", "\\n")


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_its_name_in_each_client(name: str) -> None:
    connection, python = KafkaConnection("a:1", {name: "12345"}), NUMBERS[name]
    Consumer(connection.for_librdkafka(**{"group.id": "x", "log_level": 0})).close()
    assert connection.for_kafka_python()[python] == 12_345
    assert python in KafkaAdminClient.DEFAULT_CONFIG
    with pytest.raises(SettingsError, match="it takes a whole number"):
        KafkaConnection("a:1", {name: "soon"})


def test_every_number_is_tested_here() -> None:
    assert set(client_properties._PYTHON_NUMBERS) == set(NUMBERS)


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("connections.max.idle.ms", 2**31 - 1),
        ("retry.backoff.ms", 0),
    ],
)
def test_zero_means_the_same_in_each_client(name: str, python: int) -> None:
    connection = KafkaConnection("a:1", {name: "0"})
    assert connection.for_kafka_python()[NUMBERS[name]] == python


def test_a_longer_first_pause_lengthens_the_longest() -> None:
    found = KafkaConnection("a:1", {"reconnect.backoff.ms": "3000"}).for_librdkafka()
    assert found["reconnect.backoff.max.ms"] == 3_000
    given = {"reconnect.backoff.ms": "3000", "reconnect.backoff.max.ms": "5000"}
    assert KafkaConnection("a:1", given).for_librdkafka()["reconnect.backoff.max.ms"] == "5000"


def test_sockets_keep_alive_and_names_are_resolved_alike() -> None:
    lookup = "resolve_canonical_bootstrap_servers_only"
    connection = KafkaConnection("a:1", {"socket.keepalive.enable": "true", "client.dns.lookup": lookup})
    found = connection.for_kafka_python()
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in found["socket_options"]
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in found["socket_options"]
    assert found["client_dns_lookup"] == lookup


def test_certificates_as_text_reach_every_client(pem: Path) -> None:
    properties = {
        "security.protocol": "ssl",
        "ssl.ca.pem": text(pem / "cert.pem"),
        "ssl.certificate.pem": text(pem / "cert.pem"),
        "ssl.key.pem": text(pem / "key.pem"),
    }
    connection = KafkaConnection("a:1", properties)
    assert "PRIVATE KEY" not in repr(connection)
    Consumer(connection.for_librdkafka(**{"group.id": "x"})).close()
    context = connection.for_kafka_python()["ssl_context"]
    assert (len(context.get_ca_certs()), context.verify_mode, context.check_hostname) == (1, ssl.CERT_REQUIRED, True)


def test_an_encrypted_key_needs_its_password_and_never_asks(pem: Path) -> None:
    files = {"ssl.certificate.location": str(pem / "cert.pem"), "ssl.key.location": str(pem / "locked.pem")}
    files["ssl.ca.pem"] = text(pem / "cert.pem")
    assert "ssl_context" in KafkaConnection("a:1", {**files, "ssl.key.password": PASSWORD}).for_kafka_python()
    for wrong in ({}, {"ssl.key.password": "hunter3"}):
        with pytest.raises(SettingsError, match="client's certificate") as refused:
            KafkaConnection("a:1", {**files, **wrong}).for_kafka_python()
        assert "hunter" not in str(refused.value)


def test_files_and_switches_make_one_context(pem: Path) -> None:
    off = {"enable.ssl.certificate.verification": "false", "ssl.ca.location": str(pem / "cert.pem")}
    context = KafkaConnection("a:1", off).for_kafka_python()["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    ciphers = {"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384", "ssl.endpoint.identification.algorithm": "none"}
    context = KafkaConnection("a:1", ciphers).for_kafka_python()["ssl_context"]
    names = {cipher["name"] for cipher in context.get_ciphers() if not cipher["name"].startswith("TLS_")}
    assert (names, context.check_hostname) == ({"ECDHE-RSA-AES256-GCM-SHA384"}, False)
    with pytest.raises(SettingsError, match=r"ssl\.cipher\.suites cannot be used"):
        KafkaConnection("a:1", {"ssl.cipher.suites": "NONSENSE"}).for_kafka_python()
    with pytest.raises(SettingsError, match=r"ssl\.ca\.location cannot be used: No such file"):
        KafkaConnection("a:1", {**ciphers, "ssl.ca.location": "/nowhere.pem"}).for_kafka_python()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.location", "/k.p12"),
        ("ssl.curves.list", "x"),
        ("sasl.kerberos.keytab", "/k"),
        ("sasl.kerberos.principal", "anna"),
        ("socket.connection.setup.timeout.ms", "1"),
        ("broker.address.family", "v4"),
    ],
)
def test_what_kafka_python_cannot_have_is_refused_at_once(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match="cannot be had for the client kafka-python") as refused:
        KafkaConnection("a:1", {name: value})
    assert name in str(refused.value)


@pytest.mark.parametrize("name", ["enable.ssl.certificate.verification", "socket.keepalive.enable"])
def test_a_switch_is_true_or_false(name: str) -> None:
    with pytest.raises(SettingsError, match="it takes true or false"):
        KafkaConnection("a:1", {name: "perhaps"})


def test_every_property_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "settings.md").read_text()
    section = page.partition("## Kafka properties")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z.]+)(?:=[a-z]+)?`", section))
    named |= {f"sasl.oauthbearer{name}" for name in named if name.startswith(".")}
    named |= {name.replace(".location", ".pem") for name in named if name.startswith("ssl.")}
    assert client_properties.TAKEN - named == set()
