"""Reads short stretches of partitions as a read_committed consumer does, to tell transaction markers from records."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from indoubt.collector.verdicts.partition_state import TailWanted
from indoubt.lifecycle.errors import Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import Partition

READ_LIMIT_S = 1.0
MAX_FETCH = 65_536
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRead:
    """What a stretch holds: a record, or none up to ``read_to``."""

    wanted: TailWanted
    has_record: bool
    read_to: int


class TailReader:
    """One consumer without a group, made when it is first needed; for one thread."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._consumer: Consumer | None = None

    def read(self, wanted: Sequence[TailWanted]) -> list[TailRead]:
        """Return what was found within a second, one stretch per partition and call; the others come at the next.

        One record, or the end of what is stable, settles a stretch. Raises Unreachable.
        """
        left = {tail.partition: tail for tail in wanted}
        if not left:
            return []
        consumer = self._consumer = self._consumer or self._made()
        try:
            consumer.assign([TopicPartition(*tail.partition, tail.start) for tail in left.values()])
            return self._read(consumer, left)
        except KafkaException as error:
            raise Unreachable(f"partitions could not be read: {error.args[0].str()}") from None
        finally:
            consumer.unassign()

    def close(self) -> None:
        """End the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _read(self, consumer: Consumer, left: dict[Partition, TailWanted]) -> list[TailRead]:
        found: list[TailRead] = []
        deadline = time.monotonic() + READ_LIMIT_S
        while left and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is None:
                continue
            wanted = left.get((message.topic(), message.partition()))
            read = _tail_read(wanted, message) if wanted is not None else None
            if read is None:
                continue
            found.append(read)
            del left[read.wanted.partition]
            consumer.incremental_unassign([TopicPartition(*read.wanted.partition)])
        return found

    def _made(self) -> Consumer:
        settings = {
            # librdkafka asks for a group even where none is joined; nothing is ever committed to it.
            "group.id": "indoubt-collector",
            "enable.auto.commit": False,
            # An offset that was deleted: the next record there is answers as well.
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "fetch.message.max.bytes": MAX_FETCH,
            "socket.timeout.ms": 6_000,
            "log_level": 2,
        }
        return Consumer(self._connection.for_librdkafka(**settings), logger=log)


def _tail_read(wanted: TailWanted, message: Message) -> TailRead | None:
    error = message.error()
    if error is None:
        return TailRead(
            wanted=wanted, has_record=message.offset() < wanted.end, read_to=min(message.offset(), wanted.end)
        )
    if error.code() == KafkaError._PARTITION_EOF:
        # The last stable offset only grows, so the end of what is stable now is at or behind the end that is wanted.
        return TailRead(wanted=wanted, has_record=False, read_to=wanted.end)
    return None
