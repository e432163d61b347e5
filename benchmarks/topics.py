"""Topics of a benchmark: fills them, watches their growth, and counts the records of an independent read_committed reader.

A record is 100 bytes without a key, unless another size is given: microseconds since the epoch (8 bytes, big endian), a
serial number from 0 (8 bytes, big endian), padding. Every side gets the same bytes.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.figures import Mark
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.kafka.connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 4
VALUE_BYTES = 100
STAMP = struct.Struct(">qq")
ADMIN_LIMIT_S = 60.0
READ_LIMIT_S = 300.0
WATCH_PAUSE_S = 0.05
CHUNK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A read_committed reader's counts of a topic: all records, and different serial numbers."""

    records: int
    distinct: int

    def require(self, expected: int, what: str) -> None:
        """Check that the records 0 to ``expected`` - 1 are there once each, and no others. Raises AssertionError."""
        if (self.records, self.distinct) != (expected, expected):
            raise AssertionError(
                f"{what}: {self.records:,} records, {self.distinct:,} different ones are visible; {expected:,} expected"
            )


def _admin(connection: KafkaConnection) -> AdminClient:
    # Keep the client until its answers have arrived: they end with it. Its log lines are off, because failures raise.
    return AdminClient(connection.for_librdkafka(log_level=2))


def make_topic(connection: KafkaConnection, topic: str, partitions: int = PARTITIONS) -> None:
    """Create a topic with one replica. Raises KafkaException, also if the topic exists."""
    admin = _admin(connection)
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(ADMIN_LIMIT_S)
    # A new topic is not known at once: a client that asks a moment later may get no partition.
    deadline = time.monotonic() + ADMIN_LIMIT_S
    while not ((known := admin.list_topics(topic, timeout=ADMIN_LIMIT_S).topics.get(topic)) and known.partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the broker created topic {topic!r}, but does not list its partitions after {ADMIN_LIMIT_S:.0f} s"
            )
        time.sleep(WATCH_PAUSE_S)


def delete_topic(connection: KafkaConnection, topic: str) -> None:
    """Delete a topic. Raises KafkaException."""
    admin = _admin(connection)
    admin.delete_topics([topic])[topic].result(ADMIN_LIMIT_S)


def end_offset(connection: KafkaConnection, topic: str, isolation: IsolationLevel, partitions: int = PARTITIONS) -> int:
    """Return the sum of the partitions' end offsets; for read_committed, the sum of the last stable offsets."""
    admin = _admin(connection)
    latest = OffsetSpec.latest()
    wanted = {TopicPartition(topic, partition): latest for partition in range(partitions)}
    return sum(
        future.result(ADMIN_LIMIT_S).offset for future in admin.list_offsets(wanted, isolation_level=isolation).values()
    )


def value_of(serial: int, at_us: int, padding: bytes | None = None) -> bytes:
    """Return the bytes of a record: 100, or as the padding makes them."""
    return STAMP.pack(at_us, serial) + (_PADDING if padding is None else padding)


def padding_of(value_bytes: int) -> bytes:
    """Return what is behind time and serial number in records of this size."""
    return bytes(ord("a") + n * 7 % 26 for n in range(value_bytes - STAMP.size))


_PADDING = padding_of(VALUE_BYTES)


def fill(connection: KafkaConnection, topic: str, records: int, value_bytes: int = VALUE_BYTES) -> None:
    """Write records with the serial numbers 0 to ``records`` - 1, in equal parts to every partition.

    Raises TimeoutError if the broker does not accept them.
    """
    partitions = len(_admin(connection).list_topics(topic, timeout=ADMIN_LIMIT_S).topics[topic].partitions)
    padding, size = padding_of(value_bytes), _chunk(value_bytes)

    def chunks() -> Iterator[tuple[int, list[bytes]]]:
        for number, start in enumerate(range(0, records, size)):
            now_us = time.time_ns() // 1000
            chunk = [value_of(n, now_us, padding) for n in range(start, min(start + size, records))]
            yield number % partitions, chunk

    produce(connection, topic, chunks())


def produce(connection: KafkaConnection, topic: str, chunks: Iterable[tuple[int, Sequence[bytes]]]) -> None:
    """Write (partition, values) of records without keys. Raises TimeoutError if the broker does not accept them."""
    properties = {"linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000, "acks": "all"}
    producer = Producer(connection.for_librdkafka(**properties))
    for partition, values in chunks:
        chunk = [{"value": value} for value in values]
        while chunk:
            taken = producer.produce_batch(topic, chunk, partition=partition)
            chunk = chunk[taken:]
            producer.poll(0.1 if chunk else 0)
    if producer.flush(READ_LIMIT_S):
        raise TimeoutError(f"the broker did not accept every record for {topic} in {READ_LIMIT_S:.0f} s")


def _chunk(value_bytes: int) -> int:
    """Return how many records of a size are as many bytes as CHUNK records of 100 bytes."""
    return max(1, CHUNK * VALUE_BYTES // value_bytes)


def count_committed(connection: KafkaConnection, topic: str, expected: int, value_bytes: int = VALUE_BYTES) -> Counted:
    """Count every record that a read_committed reader gets, with two processes of half of the partitions each."""
    partitions = _admin(connection).list_topics(topic, timeout=ADMIN_LIMIT_S).topics[topic]
    numbers = sorted(partitions.partitions)
    command = [
        sys.executable,
        "-m",
        "benchmarks.topics",
        connection.bootstrap_servers,
        topic,
        str(expected),
        str(value_bytes),
    ]
    readers = [
        subprocess.Popen([*command, *map(str, half)], cwd=ROOT, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        for half in (numbers[::2], numbers[1::2])
        if half
    ]
    records, seen = 0, np.zeros(expected, bool)
    for reader in readers:
        answer, _ = reader.communicate(timeout=READ_LIMIT_S)
        if reader.returncode != 0:
            raise RuntimeError(f"a reader of {topic} ended with code {reader.returncode}; read its error above")
        records += int.from_bytes(answer[:8], "big")
        seen |= np.unpackbits(np.frombuffer(answer[8:], np.uint8), count=expected).astype(bool)
    return Counted(records=records, distinct=int(seen.sum()))


def read_serials(
    connection: KafkaConnection, topic: str, partitions: Sequence[int], expected: int, value_bytes: int = VALUE_BYTES
) -> tuple[int, bytes]:
    """Return (records, bitmap of the serial numbers seen) of these partitions, read_committed, from start to end.

    Raises TimeoutError, KafkaException, and ValueError for a record that no benchmark wrote.
    """
    settings = {"group.id": "count", "isolation.level": "read_committed", "enable.partition.eof": True}
    settings |= {"enable.auto.commit": False, "fetch.queue.backoff.ms": 5, "queued.min.messages": 500_000}
    consumer = Consumer(connection.for_librdkafka(**settings))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    records, ended, deadline = 0, 0, time.monotonic() + READ_LIMIT_S
    seen = np.zeros(expected, bool)
    while ended < len(partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the reader did not reach the end of {topic} in {READ_LIMIT_S:.0f} s")
        values = []
        for message in consumer.consume(_chunk(value_bytes), 1.0):
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise KafkaException(error)
        records += len(values)
        octets = np.frombuffer(b"".join(values), np.uint8).reshape(-1, value_bytes)[:, 8:16]
        serials = np.ascontiguousarray(octets).view(">i8").ravel()
        seen[serials[serials < expected]] = True
    consumer.close()
    return records, np.packbits(seen).tobytes()


class Watcher:
    """Asks every 50 ms, in a thread, how many records of a topic are visible, and keeps a mark whenever the number grew.

    ``isolation``: read_committed tells the last stable offset, so what is in doubt does not count. Each commit adds
    one control record a partition to the number. The topic may be created after the watch has begun.
    """

    def __init__(self, connection: KafkaConnection, topic: str, partitions: int = PARTITIONS) -> None:
        self._connection = connection
        latest = OffsetSpec.latest()
        self._wanted = {TopicPartition(topic, partition): latest for partition in range(partitions)}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.marks: list[Mark] = []

    def _watch(self) -> None:
        admin = _admin(self._connection)
        while not self._stopping.wait(WATCH_PAUSE_S):
            asked = admin.list_offsets(self._wanted, isolation_level=IsolationLevel.READ_COMMITTED)
            try:
                visible = sum(future.result(ADMIN_LIMIT_S).offset for future in asked.values())
            except KafkaException:
                continue  # not created yet, or deleted at the end
            if visible > (self.marks[-1].records if self.marks else 0):
                self.marks.append(Mark(at_s=time.time(), records=visible))

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def main() -> int:
    """Read some partitions for ``count_committed``: the number of records (8 bytes) and the bitmap on stdout."""
    bootstrap_servers, topic, expected, value_bytes, *partitions = sys.argv[1:]
    records, bitmap = read_serials(
        KafkaConnection(bootstrap_servers),
        topic,
        [int(number) for number in partitions],
        int(expected),
        int(value_bytes),
    )
    sys.stdout.buffer.write(records.to_bytes(8, "big") + bitmap)
    return 0


if __name__ == "__main__":
    sys.exit(main())
