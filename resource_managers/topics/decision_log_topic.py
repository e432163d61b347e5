"""The decision log's topic: made to forget nothing by itself, asked how far it goes, and cut by us alone."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from indoubt.lifecycle.errors import DecisionLogUnreadable, SettingsError
from indoubt.resource_managers.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 30.0
SETTLING_S = 5.0
"""How long a broker that was just started, or a topic that was just made, may not be known."""
SETTLING = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._NOENT,
    }
)
"""What a broker may answer for a moment after a broker came back; whether the topic is missing is asked before."""
FORGETS_NOTHING = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
BROKERS_DEFAULT = -1
MAX_RECORD_BYTES = 900_000
"""librdkafka sends records up to 1 MB, and so do brokers take them, unless they are configured otherwise."""
RECORD_BYTES_UNASKED = 16_000
"""What is sent without asking the topic how large a record may be, and where it may not be asked."""
ENVELOPE_BYTES = 1_000
"""What a record is larger in its batch, at most."""


def wrong_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of a topic's settings by which it would forget by itself; none where it forgets nothing."""
    return {name: str(settings.get(name)) for name, value in FORGETS_NOTHING.items() if settings.get(name) != value}


class DecisionLogTopic:
    """Asks and changes the topic. For one thread at a time; never opens a connection before it is asked."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._connection, self.name = connection, name
        self._partition = TopicPartition(name, 0)
        self._client: AdminClient | None = None

    def ensure(self, replication_factor: int = BROKERS_DEFAULT, min_insync_replicas: int = BROKERS_DEFAULT) -> None:
        """Make the topic where it is missing; return when it is there and forgets nothing by itself.

        Raises SettingsError that says how to mend it for one that does, or that may not be asked, and DecisionLogUnreadable.
        """
        config = dict(FORGETS_NOTHING)
        if min_insync_replicas != BROKERS_DEFAULT:
            config["min.insync.replicas"] = str(min_insync_replicas)
        if self.name not in self._topics():
            self._make(NewTopic(self.name, 1, replication_factor, config=config))
        else:
            self.require()
        self._refuse_what_forgets()

    def require(self) -> None:
        """Return when the topic is there with one partition. Raises DecisionLogUnreadable."""
        # All topics are listed: a broker that makes topics by itself would make the one that is asked for, and finite.
        found = self._topics().get(self.name)
        if found is None or found.error is not None or not found.partitions:
            raise DecisionLogUnreadable(
                f"topic {self.name!r} does not exist: a pipeline makes it when it starts. If one ran here before, its log is "
                "gone, and what it decided is unknown"
            )
        if len(found.partitions) != 1:
            raise DecisionLogUnreadable(
                f"topic {self.name!r} has {len(found.partitions)} partitions: records of several have no order: it needs one"
            )

    def identity(self) -> tuple[int, int]:
        """Return the topic's id, which no other topic of this name ever has. Raises DecisionLogUnreadable."""
        topics = TopicCollection([self.name])
        (found,) = self._answers(
            lambda: [self._admin().describe_topics(topics, request_timeout=ANSWER_LIMIT_S)[self.name]]
        )
        return found.topic_id.get_most_significant_bits(), found.topic_id.get_least_significant_bits()

    def ends(self) -> tuple[int, int]:
        """Return first and end offset of the log. Raises DecisionLogUnreadable."""
        # Not asked of a consumer: its fetch holds back for half a second what its connection is asked behind it.
        first, end = self._offsets(OffsetSpec.earliest(), OffsetSpec.latest())
        return first, end

    def first_since(self, at_ms: int) -> int | None:
        """Return the offset of the first record that is as old as this or younger, None where none is.

        Raises DecisionLogUnreadable.
        """
        (offset,) = self._offsets(OffsetSpec.for_timestamp(max(0, at_ms)))
        return offset if offset >= 0 else None

    def cut_before(self, offset: int) -> None:
        """Delete every record before this offset. Raises DecisionLogUnreadable."""
        place = TopicPartition(self.name, 0, offset)
        self._answers(lambda: [self._admin().delete_records([place])[place]])

    def record_bytes(self) -> int:
        """Return how large a record may be."""
        try:
            most = int(self._settings()["max.message.bytes"])
        except (DecisionLogUnreadable, KeyError, ValueError):
            return RECORD_BYTES_UNASKED
        return min(MAX_RECORD_BYTES, most - ENVELOPE_BYTES)

    def _admin(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient(self._connection.for_librdkafka(), logger=log)
        return self._client

    def _topics(self) -> dict[str, Any]:
        try:
            topics: dict[str, Any] = self._admin().list_topics(timeout=ANSWER_LIMIT_S).topics
        except KafkaException as error:
            raise DecisionLogUnreadable(f"{self.name!r} cannot be read: {error.args[0].str()}") from None
        return topics

    def _make(self, topic: NewTopic) -> None:
        """Make the topic and return once it is known. Raises DecisionLogUnreadable where it is not after ANSWER_LIMIT_S."""
        try:
            self._admin().create_topics([topic])[self.name].result(ANSWER_LIMIT_S)
            log.warning("made topic %s, the decision log", self.name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise DecisionLogUnreadable(
                    f"topic {self.name!r} is missing and could not be made: {error.args[0].str()}"
                ) from None
        deadline = time.monotonic() + ANSWER_LIMIT_S
        while True:
            # Each broker hears of it at a moment of its own, and each question may go to another one.
            try:
                return self.require()
            except DecisionLogUnreadable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _refuse_what_forgets(self) -> None:
        try:
            settings = self._settings()
        except DecisionLogUnreadable as error:
            raise SettingsError(
                f"the configuration cannot be read ({error}), so it is unknown whether the decision log forgets: allow it "
                f"(kafka-acls.sh --add --operation DescribeConfigs --topic {self.name} --allow-principal User:...)"
            ) from None
        if wrong := wrong_settings(settings):
            found = ", ".join(f"{name}={value}" for name, value in wrong.items())
            wanted = ",".join(f"{name}={value}" for name, value in FORGETS_NOTHING.items())
            raise SettingsError(
                f"topic {self.name!r} has {found}: the decision log would forget what was decided, and rows would be written "
                f"twice. Mend it: kafka-configs.sh --bootstrap-server {self._connection.bootstrap_servers} --alter "
                f"--entity-type topics --entity-name {self.name} --add-config {wanted}"
            )

    def _settings(self) -> dict[str, str]:
        """Return the topic's configuration. Raises DecisionLogUnreadable."""
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        (entries,) = self._answers(lambda: [self._admin().describe_configs([resource])[resource]], ANSWER_LIMIT_S)
        return {name: str(entry.value) for name, entry in entries.items()}

    def _offsets(self, *specs: OffsetSpec) -> list[int]:
        """Return an offset for each question, all of them asked at once."""

        def ask() -> list[Future[Any]]:
            return [
                self._admin().list_offsets({self._partition: spec}, request_timeout=ANSWER_LIMIT_S)[self._partition]
                for spec in specs
            ]

        return [int(answer.offset) for answer in self._answers(ask)]

    def _answers(self, ask: Callable[[], Sequence[Future[Any]]], settling_s: float = SETTLING_S) -> list[Any]:
        """Return the answers. A broker that was just started may not know its partitions for a moment: it is asked again."""
        deadline = time.monotonic() + settling_s
        while True:
            try:
                return [asked.result(2 * ANSWER_LIMIT_S) for asked in ask()]
            except TimeoutError:
                raise DecisionLogUnreadable(
                    f"{self.name!r} cannot be read: no answer in {2 * ANSWER_LIMIT_S:.0f} s"
                ) from None
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() not in SETTLING or time.monotonic() > deadline:
                    raise DecisionLogUnreadable(f"{self.name!r} cannot be read: {cause.str()}") from None
            self._look_up_leader()
            time.sleep(0.05)

    def _look_up_leader(self) -> None:
        """Have the leader looked up again: an admin client asks of the one it knows, also where it is told that this one is old."""
        with contextlib.suppress(KafkaException):  # The question itself is asked again, and says what is wrong.
            self._admin().list_topics(timeout=1)
