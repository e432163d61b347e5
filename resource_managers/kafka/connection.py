"""How to reach a Kafka cluster: one configuration for librdkafka and kafka-python."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from indoubt.lifecycle.errors import MissingTopic, ResourceManagerError, SettingsError, Unreachable
from indoubt.lifecycle.settings_file import is_of_a_service
from indoubt.lifecycle.text_files import key_values
from indoubt.resource_managers.kafka import client_properties, oauth_properties
from indoubt.resource_managers.kafka.lost_connections import LostConnections

if TYPE_CHECKING:
    from indoubt.resource_managers.kafka.oauth_tokens import TokenProvider

log = logging.getLogger(__name__)

ENVIRONMENT_PREFIX = "INDOUBT_KAFKA_"
MAX_TIMEOUT_SETTING = "transaction.max.timeout.ms"
ANSWER_LIMIT_S = 30.0
TOPIC_LIMIT_S = 5.0
"""How long a topic may be unknown before it counts as missing."""
MADE_WITHIN_S = 10.0
KEPT_FOR_A_WEEK: Mapping[str, str] = {"retention.ms": str(7 * 24 * 3600 * 1000)}
CALL_LIMIT_S = 60.0
"""How long one call to the broker (init, flush, marker) may take before the task fails."""
RECONNECT_WITHIN_MS = 1_000
"""How long a client waits at most before it tries again to reach a broker.

librdkafka's own 10 s would leave it without a leader to ask for that long after the broker came back.
"""

_FOR_FILE_NAMES = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True, kw_only=False)
class KafkaConnection:
    """Bootstrap servers and security properties under librdkafka's names; hashable, and never shows a secret."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise SettingsError("bootstrap_servers is empty: name at least one broker as host:port")
        client_properties.check(self.properties)

    def __hash__(self) -> int:
        return hash((self.bootstrap_servers, tuple(sorted(self.properties.items()))))

    def __repr__(self) -> str:
        shown = {name: "***" if name in client_properties.SECRETS else value for name, value in self.properties.items()}
        return f"KafkaConnection({self.bootstrap_servers!r}, {shown})"

    def for_librdkafka(self, **more: Any) -> dict[str, Any]:
        """Return a confluent-kafka configuration with ``more`` properties on top. Raises SettingsError.

        It has ``oauth_cb`` where librdkafka cannot fetch the tokens by itself.
        """
        own: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "reconnect.backoff.max.ms": self.reconnect_within_ms,
        }
        if oauth_properties.is_msk(self.properties):
            own["oauth_cb"] = self.token_provider().for_librdkafka
        return {**own, **client_properties.for_librdkafka(self.properties), **more}

    @property
    def reconnect_within_ms(self) -> int:
        """Return how long a client waits at most before it tries a broker again, unless reconnect.backoff.max.ms says."""
        return max(RECONNECT_WITHIN_MS, int(self.properties.get("reconnect.backoff.ms", 0)))

    def for_kafka_python(self) -> dict[str, Any]:
        """Return keyword arguments for kafka-python's clients. Raises SettingsError."""
        servers = [part.strip() for part in self.bootstrap_servers.split(",")]
        found = {"bootstrap_servers": servers, **client_properties.for_kafka_python(self.properties)}
        if oauth_properties.is_oauth(self.properties):
            found["sasl_oauth_token_provider"] = self.token_provider()
        return found

    def token_provider(self) -> TokenProvider:
        """Return this process's provider of tokens, where clients log in by them. Raises SettingsError."""
        # Here, because tasks that need no token need neither kafka-python nor the time to import it.
        from indoubt.resource_managers.kafka.oauth_tokens import token_provider

        return token_provider(self.properties)

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
        properties = {name: value for _, name, value in key_values(file, "Kafka properties file")}
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
        lost = LostConnections()
        admin = AdminClient(self.for_librdkafka(error_cb=lost.note))
        try:
            admin.list_topics(timeout=max(1.0, deadline - time.monotonic()))
        except KafkaException as error:
            admin.poll(0)
            raise Unreachable(
                f"{self.bootstrap_servers} does not answer as a Kafka broker ({lost.instead_of(error.args[0].str())}): "
                "check security.protocol and the sasl.* and ssl.* properties"
            ) from None

    def broker_setting(self, name: str) -> str | None:
        """Return one setting of a broker, or None where it may not be read."""
        admin = AdminClient(self.for_librdkafka())
        try:
            brokers = admin.list_topics(timeout=ANSWER_LIMIT_S).brokers
            resource = ConfigResource(ResourceType.BROKER, str(next(iter(brokers))))
            settings = admin.describe_configs([resource])[resource].result(ANSWER_LIMIT_S)
        except KafkaException:
            return None
        entry = settings.get(name)
        return None if entry is None or entry.value is None else str(entry.value)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the id of each topic, which no other topic of its name ever has; empty where the broker has none (before 2.8).

        As Kafka's own tools show it. Raises Unreachable, ResourceManagerError.
        """
        if not topics:
            return {}
        # Kept by its name until it has answered: librdkafka ends a client that nothing refers to.
        admin = AdminClient(self.for_librdkafka())
        asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_LIMIT_S)
        found = {}
        for topic, answer in asked.items():
            try:
                id_ = answer.result(2 * ANSWER_LIMIT_S).topic_id
            except KafkaException as error:
                cause = error.args[0]
                raise (Unreachable if cause.retriable() else ResourceManagerError)(
                    f"{self.bootstrap_servers}: topic {topic!r} could not be described: {cause.str()}"
                ) from None
            # All zeros: none.
            has_one = id_.get_most_significant_bits() or id_.get_least_significant_bits()
            found[topic] = str(id_).translate(_FOR_FILE_NAMES) if has_one else ""
        return found

    def require_topics(self, topics: Collection[str]) -> None:
        """Return when every topic exists. Raises MissingTopic naming the first that does not, and Unreachable.

        A missing one is asked for again for ``TOPIC_LIMIT_S``: a broker hears of a new topic a moment after it was made.
        """
        admin = AdminClient(self.for_librdkafka())
        deadline = time.monotonic() + TOPIC_LIMIT_S
        while True:
            try:
                there = admin.list_topics(timeout=ANSWER_LIMIT_S).topics
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

    def ensure_topic(self, topic: str, config: Mapping[str, str] = KEPT_FOR_A_WEEK) -> None:
        """Create the topic if it is missing: one partition, with this configuration.

        Raises Unreachable, and ResourceManagerError saying what to do where it may not be made.
        """
        admin = AdminClient(self.for_librdkafka(log_level=2), logger=log)
        try:
            there = admin.list_topics(timeout=MADE_WITHIN_S).topics
        except KafkaException as error:
            raise Unreachable(f"topics of {self.bootstrap_servers} cannot be listed: {error.args[0].str()}") from None
        if topic in there:
            return
        new = NewTopic(topic, 1, -1, config=dict(config))
        try:
            admin.create_topics([new])[topic].result(MADE_WITHIN_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ResourceManagerError(
                    f"topic {topic!r} is missing and could not be made: {error.args[0].str()}; create it with one partition "
                    f"(kafka-topics.sh --create --topic {topic} --partitions 1)"
                ) from None


def _connects(address: str) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except (OSError, ValueError):
        return False
