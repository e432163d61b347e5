"""How to reach a Kafka cluster: one configuration for librdkafka, kafka-python and Spark's JVM client."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from lifecycle.errors import MissingTopic, SettingsError, Unreachable
from resource_managers.service_variables import is_of_a_service

_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "client.id": "client_id",
}
"""librdkafka's name -> kafka-python's; also the list of what is taken."""

_SPARK_NAMES = {
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.key.password": "ssl.key.password",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
}

_SECRETS = frozenset({"sasl.password", "ssl.key.password"})
ENVIRONMENT_PREFIX = "INDOUBT_KAFKA_"
TOPIC_LIMIT_S = 5.0
"""How long a topic may be unknown before it counts as missing."""
RECONNECT_WITHIN_MS = 1_000
"""How long a client waits at most before it tries again to reach a broker.

librdkafka's own 10 s would leave it without a leader to ask for that long after the broker came back.
"""


@dataclass(frozen=True, slots=True, kw_only=False)
class KafkaConnection:
    """Bootstrap servers and security properties under librdkafka's names; hashable, and never shows a secret."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise SettingsError("bootstrap_servers is empty: name at least one broker as host:port")
        for name in self.properties:
            if name not in _PYTHON_NAMES:
                raise SettingsError(
                    f"Kafka property {name!r} is unknown; known are: {', '.join(sorted(_PYTHON_NAMES))}"
                )

    def __hash__(self) -> int:
        return hash((self.bootstrap_servers, tuple(sorted(self.properties.items()))))

    def __repr__(self) -> str:
        shown = {name: "***" if name in _SECRETS else value for name, value in self.properties.items()}
        return f"KafkaConnection({self.bootstrap_servers!r}, {shown})"

    def for_librdkafka(self, **more: Any) -> dict[str, Any]:
        """Return a confluent-kafka configuration with ``more`` properties on top."""
        own = {"bootstrap.servers": self.bootstrap_servers, "reconnect.backoff.max.ms": RECONNECT_WITHIN_MS}
        return {**own, **self.properties, **more}

    def for_kafka_python(self) -> dict[str, Any]:
        """Return keyword arguments for kafka-python's clients."""
        found: dict[str, Any] = {"bootstrap_servers": [part.strip() for part in self.bootstrap_servers.split(",")]}
        for name, value in self.properties.items():
            if name == "ssl.endpoint.identification.algorithm":
                found["ssl_check_hostname"] = value.lower() == "https"
            else:
                found[_PYTHON_NAMES[name]] = value.upper() if name == "security.protocol" else value
        return found

    def for_spark(self) -> dict[str, str]:
        """Return ``kafka.*`` options for Spark's Kafka source and sink (the JVM client's names)."""
        found = {"kafka.bootstrap.servers": self.bootstrap_servers}
        for name, value in self.properties.items():
            if name == "security.protocol":
                found["kafka.security.protocol"] = value.upper()
            elif name == "ssl.endpoint.identification.algorithm":
                found[f"kafka.{name}"] = "" if value.lower() == "none" else value
            elif name in _SPARK_NAMES:
                found[f"kafka.{_SPARK_NAMES[name]}"] = value
        if "ssl.ca.location" in self.properties:
            found["kafka.ssl.truststore.type"] = "PEM"
        if "ssl.certificate.location" in self.properties and "ssl.key.location" in self.properties:
            chain = Path(self.properties["ssl.certificate.location"]).read_text()
            found["kafka.ssl.keystore.type"] = "PEM"
            found["kafka.ssl.keystore.certificate.chain"] = chain
            found["kafka.ssl.keystore.key"] = Path(self.properties["ssl.key.location"]).read_text()
        if "sasl.username" in self.properties:
            found["kafka.sasl.jaas.config"] = self._jaas()
        return found

    def _jaas(self) -> str:
        mechanism = self.properties.get("sasl.mechanism", self.properties.get("sasl.mechanisms", "PLAIN"))
        scram = mechanism.upper().startswith("SCRAM")
        module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
        user = _quoted(self.properties["sasl.username"])
        password = _quoted(self.properties.get("sasl.password", ""))
        return f"org.apache.kafka.common.security.{module} required username={user} password={password};"

    def to_json(self) -> str:
        """Return it as text: it travels as a Spark option (secrets included: never log it)."""
        return json.dumps({"bootstrap_servers": self.bootstrap_servers, "properties": dict(self.properties)})

    @classmethod
    def from_json(cls, text: str) -> KafkaConnection:
        """Return the connection that ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(fields["bootstrap_servers"], fields["properties"])

    @classmethod
    def from_properties_file(cls, file: Path, bootstrap_servers: str = "") -> KafkaConnection:
        """Return the connection of a file with ``key=value`` lines (``#`` comments). Raises SettingsError naming it."""
        try:
            lines = file.read_text().splitlines()
        except OSError as error:
            raise SettingsError(f"Kafka properties file {file} cannot be read: {error.strerror}") from None
        properties: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, separator, value = text.partition("=")
            if not separator:
                raise SettingsError(f"{file}, line {number}: not key=value")
            properties[name.strip()] = value.strip()
        servers = bootstrap_servers or properties.get("bootstrap.servers", "")
        properties.pop("bootstrap.servers", None)
        return cls(servers, properties)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, bootstrap_servers: str = ""
    ) -> KafkaConnection:
        """Return the connection of INDOUBT_BOOTSTRAP_SERVERS, of the file that INDOUBT_KAFKA_PROPERTIES names, and of
        INDOUBT_KAFKA_* variables (INDOUBT_KAFKA_SASL_PASSWORD is sasl.password). Raises SettingsError."""
        servers = bootstrap_servers or environment.get("INDOUBT_BOOTSTRAP_SERVERS", "")
        named = environment.get("INDOUBT_KAFKA_PROPERTIES", "")
        properties: dict[str, str] = {}
        if named:
            of_file = cls.from_properties_file(Path(named), servers)
            servers, properties = of_file.bootstrap_servers, dict(of_file.properties)
        for name, value in environment.items():
            is_set = name.startswith(ENVIRONMENT_PREFIX) and name != "INDOUBT_KAFKA_PROPERTIES"
            if is_set and not is_of_a_service(name, value):
                properties[name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")] = value
        return cls(servers, properties)

    def reach(self, limit_s: float) -> None:
        """Return when a broker answers. Raises Unreachable naming the address and the limit."""
        deadline = time.monotonic() + limit_s
        while not any(_connects(address) for address in self.bootstrap_servers.split(",")):
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"no Kafka broker answers at {self.bootstrap_servers} (waited {limit_s:.0f} s): "
                    "is the address right, is the broker up?"
                )
            time.sleep(0.1)
        try:
            AdminClient(self.for_librdkafka()).list_topics(timeout=max(1.0, deadline - time.monotonic()))
        except KafkaException as error:
            raise Unreachable(
                f"{self.bootstrap_servers} does not answer as a Kafka broker ({error.args[0].str()}): "
                "check security.protocol and the sasl.* and ssl.* properties"
            ) from None

    def broker_setting(self, name: str, limit_s: float = 30.0) -> str | None:
        """Return one setting of a broker, or None where it may not be read."""
        admin = AdminClient(self.for_librdkafka())
        try:
            brokers = admin.list_topics(timeout=limit_s).brokers
            resource = ConfigResource(ResourceType.BROKER, str(next(iter(brokers))))
            settings = admin.describe_configs([resource])[resource].result(limit_s)
        except KafkaException:
            return None
        entry = settings.get(name)
        return None if entry is None or entry.value is None else str(entry.value)

    def require_topics(self, topics: Collection[str], limit_s: float = 30.0) -> None:
        """Return when every topic exists. Raises MissingTopic naming the first that does not, and Unreachable.

        A missing one is asked for again for ``TOPIC_LIMIT_S``: a broker hears of a new topic a moment after it was made.
        """
        admin = AdminClient(self.for_librdkafka())
        deadline = time.monotonic() + TOPIC_LIMIT_S
        while True:
            try:
                there = admin.list_topics(timeout=limit_s).topics
            except KafkaException as error:
                raise Unreachable(
                    f"{self.bootstrap_servers}: topics could not be listed: {error.args[0].str()}"
                ) from None
            missing = [topic for topic in topics if topic not in there]
            if not missing:
                return
            if time.monotonic() > deadline:
                raise MissingTopic(
                    f"topic {missing[0]!r} does not exist on {self.bootstrap_servers}: create it "
                    f"(kafka-topics.sh --create --topic {missing[0]}), or name another one"
                )
            time.sleep(0.05)


def _connects(address: str) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except (OSError, ValueError):
        return False


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
