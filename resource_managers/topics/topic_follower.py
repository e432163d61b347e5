"""Reads a topic's committed records from its beginning, or from an offset, and notices when nothing is read any more."""

from __future__ import annotations

import logging

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from indoubt.lifecycle.errors import Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.stalled_partitions import StalledPartitions

CALL_LIMIT_S = 10.0
ASK_LIMIT_S = 2.0
log = logging.getLogger(__name__)


class TopicFollower:
    """A context manager; ``begin``: the first offset to read of each partition, or ``since_ms``: from which time (epoch ms)."""

    def __init__(
        self, connection: KafkaConnection, topic: str, group: str, begin: int = 0, since_ms: int | None = None
    ) -> None:
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        settings |= {"enable.partition.eof": True, "isolation.level": "read_committed"}
        self._consumer = Consumer(connection.for_librdkafka(**settings, log_level=2), logger=log)
        self._topic, self._begin, self._since_ms = topic, begin, since_ms
        self._admin = AdminClient(connection.for_librdkafka(log_level=2), logger=log)
        self._stalled = StalledPartitions(self._admin, topic, IsolationLevel.READ_COMMITTED)
        self._read_to: dict[int, int] = {}

    def __enter__(self) -> TopicFollower:
        try:
            found = self._consumer.list_topics(self._topic, timeout=CALL_LIMIT_S).topics[self._topic].partitions
            begins = [TopicPartition(self._topic, number, self._begin) for number in found]
            if self._since_ms is not None:
                times = [TopicPartition(self._topic, number, self._since_ms) for number in found]
                begins = self._consumer.offsets_for_times(times, CALL_LIMIT_S)
        except KafkaException as error:
            self._consumer.close()
            raise Unreachable(f"topic {self._topic!r} cannot be read: {error.args[0].str()}") from None
        if not found:
            self._consumer.close()
            raise Unreachable(f"topic {self._topic!r} is not known to its broker yet")
        self._read_to = {each.partition: max(each.offset, 0) for each in begins}
        self._consumer.assign(begins)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self, limit_s: float) -> Message | None:
        """Return the next record within ``limit_s``. Raises Unreachable."""
        message = self._consumer.poll(limit_s)
        if message is None:
            if stalled := self._stalled.found(self._read_to):
                raise Unreachable(f"nothing of partition {stalled} of topic {self._topic!r} is read any more")
            return None
        is_end = (error := message.error()) is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not is_end:
            raise Unreachable(f"topic {self._topic!r} cannot be read: {error.str()}")
        self._read_to[message.partition()] = message.offset() + (0 if is_end else 1)
        return None if is_end else message

    def is_at_end(self) -> bool:
        """Ask the brokers whether everything that is committed now was read. Raises Unreachable."""
        wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in self._read_to}
        asked = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ASK_LIMIT_S
        )
        try:
            return all(
                self._read_to[at.partition] >= answer.result(2 * ASK_LIMIT_S).offset for at, answer in asked.items()
            )
        except (KafkaException, TimeoutError) as error:
            raise Unreachable(f"the end of topic {self._topic!r} is not known: {error}") from None
