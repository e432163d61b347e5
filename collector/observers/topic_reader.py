"""Reads every partition of a Kafka topic from given offsets, with little delay, and notices when nobody answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lifecycle.errors import MissingTopic, ResourceManagerError, Unreachable
from resource_managers.kafka_connection import KafkaConnection

ANSWER_LIMIT_S = 5.0
LOOK_EVERY_S = 2.0
BATCH = 2_000
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
log = logging.getLogger(__name__)


class ReadDenied(ResourceManagerError):
    """The collector's user may not read a topic; the message names it."""


class TopicReader:
    """A consumer without a group: offsets are the caller's. For one thread; use it as a context manager."""

    def __init__(self, connection: KafkaConnection, topic: str, offsets: Mapping[int, int]) -> None:
        self._topic = topic
        self._next = dict(offsets)
        self._ends: set[int] = set()
        self._looked_s = time.monotonic()
        settings = {
            # librdkafka asks for a group even where none is joined; nothing is ever committed to it.
            "group.id": "indoubt-collector",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            # A record that arrives is sent at once; an empty fetch comes back soon, which keeps new partitions from waiting.
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
            "fetch.queue.backoff.ms": 50,
            "socket.timeout.ms": 6_000,
            "reconnect.backoff.max.ms": 1_000,
        }
        self._consumer = Consumer(connection.for_librdkafka(**settings), logger=log)

    def __enter__(self) -> TopicReader:
        try:
            self._assign()
        except BaseException:
            self._consumer.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    @property
    def has_reached_end(self) -> bool:
        """True when every partition was read to where its end was."""
        return len(self._ends) == len(self._next)

    def read(self, limit_s: float) -> list[Message]:
        """Return the records that arrived, each once, at the latest after ``limit_s``; an empty list when none did.

        Raises MissingTopic, ReadDenied, Unreachable, ResourceManagerError.
        """
        found: list[Message] = []
        # consume() alone waits until its batch is full or its time is over; this returns with the first record.
        first = self._consumer.poll(limit_s)
        if first is not None:
            for message in (first, *self._consumer.consume(BATCH, 0)):
                self._take(message, found)
        if time.monotonic() - self._looked_s > LOOK_EVERY_S:
            if not found:
                self._partitions()
            self._looked_s = time.monotonic()
        return found

    def _take(self, message: Message, found: list[Message]) -> None:
        error, partition = message.error(), message.partition()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._ends.add(partition)
                return
            raise self._classified(error)
        if message.offset() >= self._next[partition]:
            self._next[partition] = message.offset() + 1
            found.append(message)

    def _assign(self) -> None:
        start: list[TopicPartition] = []
        for partition in self._partitions():
            at = TopicPartition(self._topic, partition)
            try:
                low, high = self._consumer.get_watermark_offsets(at, timeout=ANSWER_LIMIT_S, cached=False)
            except KafkaException as error:
                raise self._classified(error.args[0]) from None
            wanted = self._next.get(partition, low)
            if wanted > high:
                raise ResourceManagerError(
                    f"topic {self._topic}, partition {partition} ends at offset {high} and was read to {wanted} before: "
                    "it was made anew; give the collector a new --directory for the new topic"
                )
            if wanted < low:
                log.warning("%s-%d: offsets %d to %d were deleted unread", self._topic, partition, wanted, low - 1)
            self._next[partition] = max(wanted, low)
            start.append(TopicPartition(self._topic, partition, self._next[partition]))
        self._consumer.assign(start)

    def _partitions(self) -> list[int]:
        """Ask a broker for the topic's partitions: proof that somebody answers. New ones are assigned too."""
        try:
            found = self._consumer.list_topics(self._topic, timeout=ANSWER_LIMIT_S).topics[self._topic]
        except KafkaException as error:
            raise self._classified(error.args[0]) from None
        if found.error is not None:
            raise self._classified(found.error)
        partitions = sorted(found.partitions)
        added = [p for p in partitions if p not in self._next]
        if added and self._consumer.assignment():
            self._next.update((p, 0) for p in added)
            self._consumer.incremental_assign([TopicPartition(self._topic, p, 0) for p in added])
        return partitions

    def _classified(self, error: KafkaError) -> ResourceManagerError:
        if error.code() in _MISSING:
            return MissingTopic(f"topic {self._topic} does not exist")
        if error.code() in _DENIED:
            return ReadDenied(f"topic {self._topic} may not be read: {error.str()}")
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
            return Unreachable(
                f"no broker answered within {ANSWER_LIMIT_S:.0f} s for topic {self._topic}: {error.str()}"
            )
        return ResourceManagerError(f"topic {self._topic} cannot be read: {error.str()}")
