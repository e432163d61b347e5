"""Whole Arrow batches and record by record: the same records in the same order, on the real broker."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from lifecycle.errors import RecordTooLarge
from resource_managers.kafka.connection import LIBRDKAFKA, KafkaConnection
from resource_managers.kafka.librdkafka_batch import BatchPathUnavailable, BatchProducer
from resource_managers.kafka.librdkafka_sender import PRODUCER_DEFAULTS, LibrdkafkaSender
from tests.integration.kafka_fixtures import LIMIT_S, make_sink, rows

pytestmark = pytest.mark.integration

Record = tuple[int, bytes | None, bytes | None]


def records(connection: KafkaConnection, topic: str) -> list[Record]:
    """Return every (partition, key, value) of a topic, in order within each partition."""
    consumer = Consumer(
        connection.for_librdkafka(**{"group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False})
    )
    partitions = list(consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Record] = []
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"{topic} was not read to its end in {LIMIT_S:.0f} s"
        for message in consumer.consume(1_000, 0.2):
            error = message.error()
            if error is None:
                found.append((message.partition(), message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
    consumer.close()
    return sorted(found, key=lambda record: record[0])


def send(
    connection: KafkaConnection, topic: str, batches: list[pa.RecordBatch], *, whole: bool = True, **properties: Any
) -> LibrdkafkaSender:
    """Write batches through a LibrdkafkaSender and wait until the broker has them."""
    sender = LibrdkafkaSender(connection, topic, {**PRODUCER_DEFAULTS, **properties}, client_id="sender", batches=whole)
    sender.connect()
    assert sender.takes_batches is whole
    for batch in batches:
        sender.write(batch)
    sender.flush()
    sender.close()
    return sender


def mixed_batches(type_: pa.DataType) -> list[pa.RecordBatch]:
    """Return batches with nulls, empties, long rows, slices and uneven borders; every row has a key or is null."""
    chance = random.Random(3)
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_)

    def one(length: int) -> Any:
        content = "".join(chance.choice("abcdé") for _ in range(length))
        return content if text else content.encode()

    # Keyed rows only: librdkafka places rows without a key by chance.
    keys = [one(chance.randrange(1, 12)) for _ in range(3_000)]
    values = [None if chance.random() < 0.1 else one(chance.choice([0, 1, 8, 100, 3_000])) for _ in keys]
    whole = pa.record_batch({"key": pa.array(keys, type_), "value": pa.array(values, type_)})
    return [whole.slice(0, 1), whole.slice(1, 1_500), whole.slice(1_501, 0), whole.slice(1_501)]


@pytest.mark.parametrize(
    "type_",
    [
        pa.binary(),
        pa.large_string(),
        *[pytest.param(one, marks=pytest.mark.long) for one in (pa.string(), pa.large_binary())],
    ],
    ids=str,
)
def test_both_paths_give_the_same_records_in_the_same_order(connection, type_):
    batches = mixed_batches(type_)
    fast, slow = make_sink(connection, partitions=3), make_sink(connection, partitions=3)
    one = send(connection, fast.topic, batches)
    other = send(connection, slow.topic, batches, whole=False)
    found = records(connection, fast.topic)
    assert found == records(connection, slow.topic)
    assert (
        (one.rows, one.bytes) == (other.rows, other.bytes) == (3_000, sum(len(k) + len(v or b"") for _, k, v in found))
    )
    assert {value is None for _, _, value in found} == {True, False}
    assert b"" in {value for _, _, value in found}


def test_rows_without_a_key_column_and_with_null_keys_arrive(connection):
    sink = make_sink(connection)
    no_column = pa.record_batch({"value": pa.array([b"a", b"b"])})
    null_keys = pa.record_batch(
        {"key": pa.array([None, b"", b"k"], pa.binary()), "value": pa.array([b"c", b"d", b"e"])}
    )
    send(connection, sink.topic, [no_column, null_keys])
    found = sorted((value or b"", key) for _, key, value in records(connection, sink.topic))
    assert found == [(b"a", None), (b"b", None), (b"c", None), (b"d", b""), (b"e", b"k")]


@pytest.mark.parametrize("whole", [True, False], ids=["whole batches", "one by one"])
def test_a_full_queue_loses_doubles_and_reorders_nothing(connection, whole):
    sink = make_sink(connection, partitions=1)
    count = 20_000
    values = pa.array([b"%08d" % n for n in range(count)])
    batch = pa.record_batch({"key": pa.array([b"k"] * count), "value": values})
    send(connection, sink.topic, [batch], whole=whole, **{"queue.buffering.max.messages": 500, "linger.ms": 0})
    assert [value for _, _, value in records(connection, sink.topic)] == values.to_pylist()


def test_buffers_live_until_the_flush_though_nobody_else_holds_them(connection):
    sink = make_sink(connection, partitions=1)
    sender = LibrdkafkaSender(connection, sink.topic, {**PRODUCER_DEFAULTS, "linger.ms": 500}, client_id="sender")
    sender.connect()
    for start in range(0, 50_000, 1_000):
        sender.write(pa.record_batch({"value": pa.array([b"%08d" % n for n in range(start, start + 1_000)])}))
        pa.array([b"\xff" * 8] * 1_000)
    sender.flush()
    sender.close()
    assert sorted(v for _, _, v in records(connection, sink.topic)) == [b"%08d" % n for n in range(50_000)]


@pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "one by one"])
def test_an_oversized_record_is_named_and_ends_the_loop(connection, batches):
    sink = make_sink(connection)
    sender = LibrdkafkaSender(connection, sink.topic, dict(PRODUCER_DEFAULTS), client_id="sender", batches=batches)
    sender.connect()
    batch = pa.record_batch({"value": pa.array([b"small", b"x" * 2_000_000, b"small"])})
    with pytest.raises(RecordTooLarge, match=r"2,000,000 bytes.*1,000,000"):
        sender.write(batch)
    sender.close()


def test_a_producer_that_is_not_the_expected_one_is_never_followed(connection):
    producer = Producer(connection.for_librdkafka(**{"client.id": "somebody-else"}))
    with pytest.raises(BatchPathUnavailable, match="laid out differently"):
        BatchProducer(producer, "expected", "topic")


def test_the_ordinary_client_serves_where_the_library_is_not_to_be_had(connection, monkeypatch, caplog):
    def unavailable() -> None:
        raise BatchPathUnavailable("librdkafka 0x1000000 is not version 2")

    monkeypatch.setattr("resource_managers.kafka.librdkafka_batch._library", unavailable)
    sink = make_sink(connection, producer=LIBRDKAFKA)
    handle = sink.prepare(b"a", b"b")
    assert "one by one" in caplog.text
    sink.commit(handle)
    assert handle.rows == 2


def test_rows_without_keys_go_to_every_partition_batch_by_batch(connection):
    sink = make_sink(connection, partitions=3)
    sender = LibrdkafkaSender(connection, sink.topic, PRODUCER_DEFAULTS, client_id="keyless")
    sender.connect()
    for batch in range(6):
        sender.write(rows(*(b"%d-%d" % (batch, row) for row in range(100)), key=None))
    sender.flush()
    sender.close()
    found = Counter(partition for partition, _, _ in records(connection, sink.topic))
    assert found == {0: 200, 1: 200, 2: 200}
