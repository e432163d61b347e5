"""Independent readers: a live read_committed consumer that keeps what it read, and a scan from the start."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from indoubt.resource_managers.kafka.stalled_partitions import StalledPartitions

LIMIT_S = 60.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as a consumer got it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class NotRead(Exception):
    """A reader failed or did not reach the topic's end within the limit; the message names the topic."""


class LiveReader:
    """Reads a topic read_committed from its start, in a thread of its own, while its context is open."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._bootstrap_servers, self._topic = bootstrap_servers, topic
        self._records: list[Record] = []
        self._failure: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"live-reader-{topic}", daemon=True)

    def __enter__(self) -> LiveReader:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S)

    def records(self) -> list[Record]:
        """Return the records so far, in the order of arrival. Raises NotRead if the consumer failed."""
        if self._failure is not None:
            raise NotRead(f"the live reader of {self._topic} stopped: {self._failure}")
        return list(self._records)

    def _run(self) -> None:
        try:
            admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 2})
            while not self._stop.is_set():
                self._read_on(StalledPartitions(admin, self._topic, IsolationLevel.READ_COMMITTED))
        except KafkaException as error:
            self._failure = str(error)

    def _read_on(self, stalled: StalledPartitions) -> None:
        """Read until stopped, or until the consumer has ceased to read a partition: another one goes on with it."""
        behind = {record.partition: record.offset + 1 for record in self._records}
        with _consumer(self._bootstrap_servers, "read_committed", eof=True) as consumer:
            begin = _partitions(consumer, self._topic)
            read_to = {at.partition: behind.get(at.partition, 0) for at in begin}
            for at in begin:
                at.offset = behind.get(at.partition, at.offset)
            consumer.assign(begin)
            while not self._stop.is_set():
                messages = consumer.consume(1000, timeout=POLL_S)
                for message in messages:
                    if _is_record(message):
                        self._records.append(_record(message))
                        read_to[message.partition()] = message.offset() + 1
                    else:
                        read_to[message.partition()] = message.offset()
                if not messages and stalled.found(read_to):
                    return


def scan(bootstrap_servers: str, topic: str, *, committed_only: bool = True) -> list[Record]:
    """Return every record of the topic up to its end, by partition and offset. Raises NotRead after 60 s.

    ``committed_only``: up to the last stable offset and without aborted rows; otherwise everything that was written.
    """
    isolation = "read_committed" if committed_only else "read_uncommitted"
    records: list[Record] = []
    with _consumer(bootstrap_servers, isolation, eof=True) as consumer:
        partitions = _partitions(consumer, topic)
        unread = {partition.partition for partition in partitions}
        consumer.assign(partitions)
        deadline = time.monotonic() + LIMIT_S
        while unread:
            if time.monotonic() > deadline:
                raise NotRead(f"partitions {sorted(unread)} of {topic} were not read to their end in {LIMIT_S:.0f} s")
            for message in consumer.consume(1000, timeout=POLL_S):
                if _is_record(message):
                    records.append(_record(message))
                else:
                    unread.discard(message.partition())
    return sorted(records, key=lambda record: (record.partition, record.offset))


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """Return the high watermark of each partition."""
    with _consumer(bootstrap_servers, "read_uncommitted", eof=False) as consumer:
        return {
            partition.partition: consumer.get_watermark_offsets(partition, timeout=LIMIT_S)[1]
            for partition in _partitions(consumer, topic)
        }


def _consumer(bootstrap_servers: str, isolation: str, *, eof: bool) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            # The consumer never joins the group: it assigns its own partitions and commits no offset.
            "group.id": "indoubt-demo-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": eof,
            "fetch.wait.max.ms": 100,
            # Reconnects while the broker is down must not fill the demo's terminal.
            "log_level": 2,
        }
    )


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    known = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic]
    if known.error is not None:
        raise KafkaException(known.error)
    return [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in sorted(known.partitions)]


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() == KafkaError._PARTITION_EOF:
        return False
    raise KafkaException(error)


def _record(message: Message) -> Record:
    return Record(partition=message.partition(), offset=message.offset(), key=message.key(), value=message.value())
