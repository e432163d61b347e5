"""The workload: keyed records with a serial number per key, from a plain producer that counts what it produced."""

from __future__ import annotations

import random
from collections import Counter
from uuid import uuid4

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.crash.judge import Record

LARGE_BYTES = 2_000_000
LARGEST_MESSAGE_BYTES = 4_000_000
"""The largest record of a run's topics and producers."""
DELIVERY_LIMIT_S = 180.0
FILLER_BYTES = 40


class NotDelivered(Exception):
    """The broker did not accept a record of the workload, so the run cannot be judged; the message says why."""


class Workload:
    """Produces into a topic. A key always belongs to the same source partition, so its order is defined."""

    def __init__(
        self, connection: KafkaConnection, topic: str, *, partitions: int, keys: int, dice: random.Random, words: bool
    ) -> None:
        """``words``: the value is only the key, for a job that counts words."""
        self._connection, self._topic, self._dice, self._words = connection, topic, dice, words
        self.partitions = partitions
        self._partition_of = {f"k{number:03d}": number % partitions for number in range(keys)}
        self._large: set[Record] = set()
        self.counts: Counter[str] = Counter()
        self._producer = self._connect()

    def produce(self, records: int) -> None:
        """Write records of random keys and wait until the broker has them. Raises NotDelivered."""
        keys = list(self._partition_of)
        self._write([self._next(self._dice.choice(keys)) for _ in range(records)])

    def produce_around_large(self, records: int) -> None:
        """Write records with a record of 2 MB in the middle. Raises NotDelivered."""
        keys = list(self._partition_of)
        before = [self._next(self._dice.choice(keys)) for _ in range(records // 2)]
        large = self._next(self._dice.choice(keys))
        self._large.add(large)
        after = [self._next(self._dice.choice(keys)) for _ in range(records - records // 2)]
        self._write([*before, large, *after])

    def produce_aborted(self, records: int) -> None:
        """Write records in a transaction and abort it: the source grows, but has no new readable record."""
        producer = Producer(
            self._connection.for_librdkafka(**{"transactional.id": f"aborted-{uuid4().hex}", "log_level": 0})
        )
        producer.init_transactions(DELIVERY_LIMIT_S)
        producer.begin_transaction()
        for number in range(records):
            producer.produce(self._topic, b"aborted", b"aborted", partition=number % self.partitions)
        if producer.flush(DELIVERY_LIMIT_S):
            raise NotDelivered(f"a transaction on {self._topic} was not written in {DELIVERY_LIMIT_S:.0f} s")
        producer.abort_transaction(DELIVERY_LIMIT_S)

    def add_partitions(self, more: int) -> None:
        """Add partitions to the topic, and keys of their own."""
        total = self.partitions + more
        admin = AdminClient(self._connection.for_librdkafka(log_level=0))
        admin.create_partitions([NewPartitions(self._topic, total)])[self._topic].result(DELIVERY_LIMIT_S)
        # The old producer would not know the new partitions for a while.
        self._producer = self._connect()
        known = len(self._partition_of)
        for number in range(4 * more):
            self._partition_of[f"k{known + number:03d}"] = self.partitions + number % more
        self.partitions = total

    def record_of(self, key: bytes | None, value: bytes | None) -> Record | None:
        """Return the record of these bytes if they are intact, or None if this workload did not produce them."""
        try:
            name, serial = (key or b"").decode(), int((value or b"").split(b":", 2)[1])
        except (ValueError, IndexError):
            return None
        record = (name, serial)
        return record if name in self._partition_of and self._value(record) == value else None

    def _connect(self) -> Producer:
        # Log level 0: reconnects while the broker is down are expected.
        return Producer(
            self._connection.for_librdkafka(
                **{"acks": "all", "enable.idempotence": True, "linger.ms": 5},
                **{"message.max.bytes": LARGEST_MESSAGE_BYTES, "log_level": 0},
            )
        )

    def _next(self, key: str) -> Record:
        serial = self.counts[key]
        self.counts[key] += 1
        return key, serial

    def _value(self, record: Record) -> bytes:
        key, serial = record
        if self._words:
            return key.encode()
        filler = bytes([97 + serial % 26])
        return b"%s:%06d:" % (key.encode(), serial) + filler * (LARGE_BYTES if record in self._large else FILLER_BYTES)

    def _write(self, records: list[Record]) -> None:
        failures: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error.str())

        for record in records:
            key = record[0]
            self._producer.produce(
                self._topic, self._value(record), key, partition=self._partition_of[key], on_delivery=delivered
            )
            self._producer.poll(0)
        left = self._producer.flush(DELIVERY_LIMIT_S)
        if failures or left:
            raise NotDelivered(f"{left + len(failures)} records for {self._topic}: {failures[:1] or 'no answer'}")
