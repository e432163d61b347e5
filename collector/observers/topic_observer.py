"""An observer of one Kafka topic: reads on from where history ends, keeps aside what it cannot understand."""

from __future__ import annotations

from abc import abstractmethod

from confluent_kafka import Message

from collector.current_state import CurrentState, now_ms
from collector.observations import Malformed, Observation, Observed, Position
from collector.observers.observer import Observer
from collector.observers.topic_reader import TopicReader
from collector.store import Store
from lifecycle.errors import MalformedRecord
from resource_managers.kafka_connection import KafkaConnection

READ_LIMIT_S = 0.2
SHOWN_CHARACTERS = 200


class TopicObserver(Observer):
    """Subclasses say what a record means."""

    def __init__(
        self, current: CurrentState, store: Store, connection: KafkaConnection, topic: str, retry_most_ms: int
    ) -> None:
        super().__init__(current, retry_most_ms)
        self.topic = topic
        self._connection = connection
        self._offsets = store.next_offsets(topic)
        self._has_reached_end = False

    @property
    def has_caught_up(self) -> bool:
        """Say whether the topic was read to its end since it was opened."""
        return self._has_reached_end

    @abstractmethod
    def decode(self, message: Message) -> Observation:
        """Return what a record says. Raises MalformedRecord."""

    def read_on(self, has_reached_end: bool) -> None:
        """Called after each look; for what depends on having seen everything."""

    def observe(self) -> None:
        """Read the topic until stopped. Raises MissingTopic, Unreachable, ResourceManagerError."""
        self._has_reached_end = False
        with TopicReader(self._connection, self.topic, self._offsets) as reader:
            self.looked()
            while not self.stopping.is_set():
                messages = reader.read(READ_LIMIT_S)
                if messages:
                    self.arrived([self._observed(message) for message in messages])
                    # Only now: after a failure the topic is read again from here, in this process or the next.
                    self._offsets.update((m.partition(), m.offset() + 1) for m in messages)
                self.looked()
                self._has_reached_end |= reader.has_reached_end
                self.read_on(reader.has_reached_end)

    def _observed(self, message: Message) -> Observed:
        position = Position(source=self.topic, partition=message.partition(), offset=message.offset())
        value = message.value()
        raw = value.decode(errors="replace") if value is not None else ""
        try:
            observation = self.decode(message)
        except MalformedRecord as error:
            shown = raw if raw.isprintable() else (value or b"").hex()
            observation = Malformed(error=str(error), value=shown[:SHOWN_CHARACTERS], at_ms=now_ms())
        return Observed(position=position, observation=observation, raw=raw)
