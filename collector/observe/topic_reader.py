"""Reads every partition of a Kafka topic from given offsets, with little delay, and notices when no broker answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription
from numpy.typing import NDArray

from indoubt.lifecycle.errors import MissingTopic, ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.lost_connections import LostConnections
from indoubt.resource_managers.kafka.stalled_partitions import StalledPartitions

ANSWER_LIMIT_S = 5.0
CHECK_EVERY_S = 2.0
CERTAIN_FOR_S = 0.1
"""How long after a poll the topic is taken for the same: it cannot be deleted, made and filled beyond its end in less."""
BATCH = 10_000
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
log = logging.getLogger(__name__)


class ReadDenied(ResourceManagerError):
    """The collector's user may not read a topic; the message names it."""


class TopicRecreated(ResourceManagerError):
    """Another topic has taken the name of the one that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records in the order in which they arrived: each partition's by offset."""

    messages: Sequence[Message]
    partition: NDArray[np.int64]
    offset: NDArray[np.int64]

    @property
    def next_offsets(self) -> dict[int, int]:
        """Return partition -> the offset behind its last record here."""
        return {int(p): int(self.offset[self.partition == p].max()) + 1 for p in np.unique(self.partition)}


def _records(messages: Sequence[Message]) -> Records:
    return Records(
        messages=messages,
        partition=np.array([message.partition() for message in messages], np.int64),
        offset=np.array([message.offset() for message in messages], np.int64),
    )


def _grows(records: Records) -> bool:
    """Say whether the offsets of each partition grow."""
    order = np.argsort(records.partition, kind="stable")
    is_next = np.diff(records.partition[order]) == 0
    return bool((np.diff(records.offset[order])[is_next] > 0).all())


class SharedClient:
    """The client that all readers of a cluster ask with: each client has threads and connections of its own.

    ``of`` gives the same one until it ``failed``: what it read of files when it was made, such as certificates, may be old.
    """

    _made: ClassVar[dict[KafkaConnection, SharedClient]] = {}
    _making = threading.Lock()

    def __init__(self, connection: KafkaConnection) -> None:
        self.lost = LostConnections()
        settings = {"log_level": 2, "socket.timeout.ms": 6_000, "error_cb": self.lost.note}
        self.admin = AdminClient(connection.for_librdkafka(**settings), logger=log)

    @classmethod
    def of(cls, connection: KafkaConnection) -> SharedClient:
        """Return the client of a cluster."""
        with cls._making:
            if connection not in cls._made:
                cls._made[connection] = cls(connection)
            return cls._made[connection]

    def failed(self, connection: KafkaConnection, error: object) -> str:
        """Have the next reader ask with a new client; return why connections of this one were lost, else the error itself."""
        self.admin.poll(0)
        with self._making:
            if self._made.get(connection) is self:
                del self._made[connection]
        return self.lost.instead_of(error)


class TopicReader(AbstractContextManager["TopicReader"]):
    """A consumer without a group: offsets are the caller's. For one thread; use it as a context manager."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self.topic_id = ""
        """Kafka's own id of the topic, which a new topic of the same name does not have; empty where brokers report none."""
        self._next: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        """Partition -> where its end was when it was reached last."""
        self._asked: Future[TopicDescription] | None = None
        self._asked_s = self._confirmed_s = time.monotonic()
        """When the topic's id was asked for last, and when that was asked to which the last answer came."""
        self._shared = SharedClient.of(connection)
        self._admin = self._shared.admin
        self._stalled = StalledPartitions(self._admin, topic)
        self._consumer = self._made()

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def has_reached_end(self) -> bool:
        """True when every partition was read to where its end was, and is read on: not while what came seconds ago is unread."""
        return len(self._ends) == len(self._next) and not self.is_behind

    @property
    def is_behind(self) -> bool:
        """True while records are unread that were there some seconds ago."""
        return self._stalled.is_behind(self._read_to())

    @property
    def next_offsets(self) -> dict[int, int]:
        """Return partition -> the offset that is read next."""
        return dict(self._next)

    def find(self) -> None:
        """Learn the topic's id. Raises MissingTopic, ReadDenied, Unreachable, ResourceManagerError."""
        self.topic_id = self._topic_id()

    def read(self, limit_s: float) -> Records:
        """Return the records that arrived, each once, at the latest after ``limit_s``; none when none did.

        Raises MissingTopic, ReadDenied, Unreachable, TopicRecreated, ResourceManagerError.
        """
        # consume() alone waits until its batch is full or its time is over; this returns with the first record.
        first = self._consumer.poll(limit_s)
        arrived = [] if first is None else [first, *self._consumer.consume(BATCH, 0)]
        found = self._taken(arrived)
        if len(arrived) >= BATCH:
            self._stalled.look(self._read_to())
        elif stalled := self._stalled.found(self._read_to()):
            self._go_on_by_another(stalled)
        if found.messages:
            self._make_certain(time.monotonic())
        elif time.monotonic() - self._confirmed_s > CHECK_EVERY_S:
            self._check_topic()
        return found

    def _read_to(self) -> dict[int, int]:
        return {partition: max(at, self._ends.get(partition, at)) for partition, at in self._next.items()}

    def _go_on_by_another(self, stalled: Sequence[int]) -> None:
        numbers = ", ".join(map(str, stalled))
        log.warning("%s: nothing of partition %s is read any more: a new consumer reads on", self._topic, numbers)
        self._consumer.close()
        self._consumer = self._made()
        self._consumer.assign([TopicPartition(self._topic, partition, at) for partition, at in self._next.items()])

    def _taken(self, arrived: list[Message]) -> Records:
        messages = [message for message in arrived if message.error() is None]
        if len(messages) < len(arrived):
            for message in arrived:
                if (error := message.error()) is not None:
                    self._note(error, message)
        found = _records(messages)
        if not messages:
            return found
        floor = np.zeros(int(found.partition.max()) + 1, np.int64)
        for partition in self._next.keys() & set(np.unique(found.partition).tolist()):
            floor[partition] = self._next[partition]
        if not (found.offset >= floor[found.partition]).all() or not _grows(found):
            found = _records([message for message in messages if self._is_next(message)])
        self._next.update(found.next_offsets)
        return found

    def _note(self, error: KafkaError, message: Message) -> None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise self._classified(error)
        self._ends[message.partition()] = message.offset()

    def _is_next(self, message: Message) -> bool:
        """Say whether a record was not read before, and count it as read."""
        partition, offset = message.partition(), message.offset()
        if offset < self._next[partition]:
            return False
        self._next[partition] = offset + 1
        return True

    def _make_certain(self, read_s: float) -> None:
        """Return once records that were read at ``read_s`` are known to be of this topic.

        What is asked after they were read proves it, and what was asked shortly before. So while records come without a pause
        the broker is asked in good time: they need not wait for its answer.
        """
        if read_s - self._confirmed_s > CERTAIN_FOR_S / 2 and self._under_way().done():
            self._confirm_topic()
        while read_s - self._confirmed_s > CERTAIN_FOR_S:
            self._confirm_topic()

    def _check_topic(self) -> None:
        """Make sure that a broker answers, that no partition was added, and that it still is the same topic."""
        self._confirm_topic()
        self._partitions()

    def _confirm_topic(self) -> None:
        """Wait for what the broker says the topic's id is. Raises TopicRecreated when another topic has the name."""
        if self._topic_id() != self.topic_id:
            raise TopicRecreated(f"topic {self._topic} was recreated")
        self._confirmed_s = self._asked_s

    def _under_way(self) -> Future[TopicDescription]:
        """Return the question for the topic's id that is not answered or heard yet, asked now where there is none."""
        if self._asked is None:
            self._asked_s = time.monotonic()
            asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=ANSWER_LIMIT_S)
            self._asked = asked[self._topic]
        return self._asked

    def _topic_id(self) -> str:
        self._admin.poll(0)  # what it says of lost connections would pile up
        asked, self._asked = self._under_way(), None
        try:
            return str(asked.result(2 * ANSWER_LIMIT_S).topic_id)
        except TimeoutError:
            raise self._unreachable(2 * ANSWER_LIMIT_S, "no answer") from None
        except KafkaException as error:
            raise self._classified(error.args[0]) from None

    def start(self, offsets: Mapping[int, int], again_from: Mapping[int, int] | None = None) -> None:
        """Begin to read, each partition from the offset given for it, else from its first record.

        ``again_from``: where to begin a partition instead, if that is before. Raises MissingTopic, ReadDenied, Unreachable,
        ResourceManagerError.
        """
        self._next = dict(offsets)
        begin: list[TopicPartition] = []
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
                    "records of it were lost; it is read on once it is longer than that"
                )
            wanted = min(wanted, (again_from or {}).get(partition, wanted))
            if wanted < low:
                log.warning("%s-%d: offsets %d to %d were deleted unread", self._topic, partition, wanted, low - 1)
            self._next[partition] = max(wanted, low)
            begin.append(TopicPartition(self._topic, partition, self._next[partition]))
        self._consumer.assign(begin)

    def _made(self) -> Consumer:
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
            "error_cb": self._shared.lost.note,
        }
        return Consumer(self._connection.for_librdkafka(**settings), logger=log)

    def _partitions(self) -> list[int]:
        """Ask a broker for the topic's partitions: proof that one answers. New ones are assigned too."""
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
        if error.code() in MISSING:
            return MissingTopic(f"topic {self._topic} does not exist")
        if error.code() in _DENIED:
            return ReadDenied(f"topic {self._topic} may not be read: {error.str()}")
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
            return self._unreachable(ANSWER_LIMIT_S, error.str())
        return ResourceManagerError(f"topic {self._topic} cannot be read: {error.str()}")

    def _unreachable(self, limit_s: float, said: str) -> Unreachable:
        why = self._shared.failed(self._connection, said)
        return Unreachable(f"no broker answered within {limit_s:.0f} s for topic {self._topic}: {why}")
