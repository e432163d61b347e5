"""Topics that are written for a reader of committed records, and what an independent read_committed consumer gets of them."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.reading.committed_records import OffsetRange, read_committed
from tests.integration.kafka_fixtures import LIMIT_S, wait_until

Row = tuple[bytes | None, bytes | None]


def make_topic(connection: KafkaConnection, **config: str) -> str:
    """Create a topic of one partition; return its name."""
    name = f"read-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name, 1, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([new])[name].result(LIMIT_S)
    return name


def producer_to(connection: KafkaConnection, id_: str = "", **properties: object) -> Producer:
    """Return a producer; one with an id writes transactions."""
    own: dict[str, object] = {"linger.ms": 20, "message.max.bytes": 20_000_000, **properties}
    if id_:
        own |= {"transactional.id": f"{id_}-{uuid.uuid4().hex[:8]}"}
    producer = Producer(connection.for_librdkafka(**own))
    if id_:
        producer.init_transactions(LIMIT_S)
    return producer


def produce(
    producer: Producer, topic: str, *wanted: Row, headers: list[tuple[str, bytes | None]] | None = None
) -> None:
    """Write rows, and wait until they are there."""
    for key, value in wanted:
        producer.produce(topic, value, key, headers=headers)
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0


def end_of(connection: KafkaConnection, topic: str) -> int:
    """Return the partition's end, once the markers of all transactions that were ended are written."""
    admin, place = AdminClient(connection.for_librdkafka()), TopicPartition(topic, 0)

    def latest(level: IsolationLevel) -> int:
        asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level, request_timeout=LIMIT_S)
        return int(asked[place].result(LIMIT_S).offset)

    end = latest(IsolationLevel.READ_UNCOMMITTED)
    wait_until("no transaction is open", lambda: latest(IsolationLevel.READ_COMMITTED) >= end)
    return latest(IsolationLevel.READ_UNCOMMITTED)


def judged(connection: KafkaConnection, topic: str, end: int) -> dict[int, Row]:
    """Return offset and row of all records before ``end``, as librdkafka's read_committed consumer gets them."""
    own = {"group.id": "judge", "isolation.level": "read_committed", "enable.partition.eof": True}
    own |= {"enable.auto.commit": False, "fetch.wait.max.ms": 20}
    consumer = Consumer(connection.for_librdkafka(**own))
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, Row] = {}
    deadline = time.monotonic() + LIMIT_S
    try:
        while True:
            assert time.monotonic() < deadline, f"{topic} was not read to its end in {LIMIT_S:.0f} s"
            for message in consumer.consume(10_000, 0.05):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                if message.offset() >= end:
                    return found
                found[message.offset()] = (message.key(), message.value())
    finally:
        consumer.close()


def columns(connection: KafkaConnection, topic: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Return what is tested."""
    return read_committed(connection, OffsetRange(topic=topic, partition=0, start=start, end=end))


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    """Return keys and values of valid batches, none of which is empty."""
    found: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows
        found += zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return found


def compare(connection: KafkaConnection, topic: str, ranges: int = 20) -> dict[int, Row]:
    """Fail unless the whole partition and ranges of it are read as they should; return its records."""
    end = end_of(connection, topic)
    expected = judged(connection, topic, end)
    chance = random.Random(end)
    bounds = [(0, end), *(sorted((chance.randint(0, end), chance.randint(0, end))) for _ in range(ranges))]
    for first, last in bounds:
        found = rows_of(columns(connection, topic, first, last))
        assert found == [row for offset, row in expected.items() if first <= offset < last], (first, last)
    return expected


def many(count: int) -> list[Row]:
    """Return rows of equal sizes, then rows of all sizes, with nulls and empties."""
    chance = random.Random(count)
    equal: list[Row] = [(b"%06d" % n, b"value %010d" % n) for n in range(count)]
    keys, values = (b"", None, b"k", b"key" * 30), (b"", None, b"v", b"v" * 3_000)
    return equal + [(chance.choice(keys), chance.choice(values) if n % 3 else b"%d" % n) for n in range(count)]
