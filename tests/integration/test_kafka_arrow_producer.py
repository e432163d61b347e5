"""Rows that reach the broker as record batches of our own, read back by an independent read_committed consumer."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka.errors import InvalidTxnStateError, KafkaConnectionError

from demo.broker import Broker
from indoubt.lifecycle.errors import RecordTooLarge, ResourceManagerError, SettingsError, Unreachable
from indoubt.lifecycle.identity import Marker
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.kafka.answers import answer_of_error
from indoubt.resource_managers.kafka.batch_delivery import UNVERIFIED_TRIES, BatchDelivery, _Answered
from indoubt.resource_managers.kafka.compression import CODECS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration.kafka_fixtures import LIMIT_S, Sink, fingerprint_of, make_sink, rows

pytestmark = pytest.mark.integration

MARKER = Marker(batch=0, attempt=1, checkpoint_id="L")
FIRST_SEQUENCE = 53
"""Where a record batch holds the sequence number of its first record."""


def committed(sink: Sink) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return every committed (partition, key, value), in order within each partition."""
    own = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(sink.connection.for_librdkafka(**own, **{"enable.auto.commit": False}))
    partitions = list(consumer.list_topics(sink.topic, timeout=LIMIT_S).topics[sink.topic].partitions)
    consumer.assign([TopicPartition(sink.topic, partition, 0) for partition in partitions])
    found, ended = [], set()
    deadline = time.monotonic() + LIMIT_S
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"{sink.topic} was not read to its end in {LIMIT_S:.0f} s"
        for message in consumer.consume(1_000, 0.2):
            error = message.error()
            if error is None:
                found.append((message.partition(), message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    consumer.close()
    return sorted(found, key=lambda record: record[0])


def commit(sink: Sink, transaction) -> None:
    """Prepare and commit; nothing is seen before the commit."""
    handle = transaction.prepare(fingerprint_of())
    assert committed(sink) == []
    assert isinstance(sink.commit(handle), Committed)


def write(sink: Sink, *batches: pa.RecordBatch, **properties: str) -> None:
    """Write and commit one transaction."""
    transaction = sink.manager(**properties).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=MARKER))
    for batch in batches:
        transaction.write(batch)
    commit(sink, transaction)


def close_connections(sink: Sink) -> None:
    """Close every connection to the brokers that this process has, as a network that fails does."""
    manager = wire(sink.connection).admin._manager

    def close() -> None:
        for connection in list(manager._conns.values()):
            connection.close(KafkaConnectionError("closed by the test"))

    manager.run(close)


def mixed(count: int, type_: pa.DataType, seed: int = 3) -> pa.RecordBatch:
    """Return rows with nulls, empties and long ones, in columns that are slices."""
    chance = random.Random(seed)

    def column(lengths: list[int], nulls: float) -> pa.Array:
        values = [None if chance.random() < nulls else "é" * chance.choice(lengths) + "x" for _ in range(count + 3)]
        values[5] = ""
        return pa.array(values, pa.string()).cast(type_)[3:]

    return pa.record_batch({"key": column([0, 1, 6, 40], 0.2), "value": column([0, 1, 8, 100, 3_000], 0.1)})


def test_rows_without_keys_come_back_in_order(connection):
    sink = make_sink(connection, partitions=1)
    values = [b"%08d" % number for number in range(30_000)]
    write(sink, rows(*values[:20_000], key=None), rows(*values[20_000:], key=None))
    assert [value for _, _, value in committed(sink)] == values


def test_rows_without_keys_go_to_every_partition_batch_by_batch(connection):
    sink = make_sink(connection, partitions=3)
    write(sink, *(rows(*(b"%d-%d" % (batch, row) for row in range(100)), key=None) for batch in range(6)))
    assert Counter(partition for partition, _, _ in committed(sink)) == {0: 200, 1: 200, 2: 200}


@pytest.mark.parametrize(
    "type_",
    [
        pa.binary(),
        pa.large_string(),
        *[pytest.param(one, marks=pytest.mark.long) for one in (pa.string(), pa.large_binary())],
    ],
    ids=str,
)
def test_nulls_empties_and_long_rows_come_back_as_they_were(connection, type_):
    sink = make_sink(connection, partitions=7)
    batches = [mixed(3_000, type_, seed) for seed in range(3)]
    write(sink, *batches)
    table = pa.Table.from_batches(batches).cast(pa.schema([("key", pa.binary()), ("value", pa.binary())]))
    expected = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    assert Counter((key, value) for _, key, value in committed(sink)) == Counter(expected)


@pytest.mark.parametrize("partitions", [3, *[pytest.param(number, marks=pytest.mark.long) for number in (1, 50)]])
def test_keys_go_to_the_partitions_that_librdkafka_chooses(connection, partitions):
    chance = random.Random(partitions)
    keys = [chance.randbytes(chance.choice([0, 1, 2, 3, 4, 5, 8, 16, 33, 200])) for _ in range(5_000)]
    numbers = [b"%d" % number for number in range(len(keys))]
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(numbers, pa.binary())})
    sink, other = make_sink(connection, partitions=partitions), make_sink(connection, partitions=partitions)
    write(sink, batch)
    producer = Producer(connection.for_librdkafka(**{"partitioner": "murmur2_random", "linger.ms": 50}))
    for key, number in zip(keys, numbers, strict=True):
        producer.produce(other.topic, number, key)
    assert producer.flush(LIMIT_S) == 0
    assert committed(sink) == committed(other)


def test_rows_of_one_key_stay_in_order_over_many_batches(connection):
    sink = make_sink(connection, partitions=3)
    count = 5_000
    keys = [b"k%d" % (number % 5) for number in range(count)]
    values = [b"%08d" % number for number in range(count)]
    batches = [
        pa.record_batch({"key": pa.array(keys[start : start + 500]), "value": pa.array(values[start : start + 500])})
        for start in range(0, count, 500)
    ]
    write(sink, *batches, **{"batch.size": "2000"})
    found = committed(sink)
    for number in range(5):
        assert [value for _, key, value in found if key == b"k%d" % number] == values[number::5]


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_are_read_by_other_clients(connection, codec):
    sink = make_sink(connection, partitions=2)
    noise = [random.Random(7).randbytes(200_000), b""]
    values = [b"%08d of the rows that are alike" % number for number in range(20_000)]
    write(sink, rows(*values, key=None), rows(*noise), **{"compression.type": codec})
    assert Counter(value for _, _, value in committed(sink)) == Counter(values + noise)


def test_headers_are_read_by_other_clients(connection):
    sink = make_sink(connection, partitions=2)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[{"key": "trace", "value": b"%d" % number}, {"key": "none", "value": None}] for number in range(50)]
    values = [b"%d" % number for number in range(50)]
    batch = pa.record_batch({"headers": pa.array([*headers, None], kind), "value": pa.array([*values, b"bare"])})
    taken = sink.manager().verify([(field.name, field.type) for field in batch.schema])
    assert taken == {"headers", "value"}
    write(sink, batch)
    own = {"group.id": "headers", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer(sink.connection.for_librdkafka(**own))
    consumer.subscribe([sink.topic])
    found: dict = {}
    deadline = time.monotonic() + LIMIT_S
    while len(found) < 51:
        assert time.monotonic() < deadline, f"{len(found)} of 51 rows were read in {LIMIT_S:.0f} s"
        found |= {message.value(): message.headers() for message in consumer.consume(100, 0.2) if not message.error()}
    consumer.close()
    assert found.pop(b"bare") is None
    assert found == {value: [("trace", value), ("none", None)] for value in values}


def test_no_batch_is_larger_than_was_set(connection):
    sink = make_sink(connection, partitions=2, **{"max.message.bytes": "4000"})
    values = [b"%04d" % number * (number % 200) for number in range(3_000)]
    write(sink, rows(*values), rows(*values, key=None), **{"batch.size": "4000", "message.max.bytes": "4000"})
    assert Counter(value for _, _, value in committed(sink)) == Counter(values * 2)


def test_rows_of_a_megabyte_have_batches_of_their_own(connection):
    sink = make_sink(connection, partitions=3)
    large = [bytes([number]) * 999_000 for number in range(40)]
    values = [value for pair in zip(large, [b"small"] * 40, strict=True) for value in pair]
    write(sink, rows(*values))
    assert Counter(value for _, _, value in committed(sink)) == Counter(values)


def test_no_row_is_lost_or_doubled_when_connections_close(connection, monkeypatch):
    sink = make_sink(connection, partitions=3)
    take, unanswered = BatchDelivery._take_one, []

    def count(delivery, batch, answer):
        unanswered.extend([] if answer.is_done else [answer.name])
        take(delivery, batch, answer)

    monkeypatch.setattr(BatchDelivery, "_take_one", count)
    transaction = sink.manager(**{"batch.size": "10000"}).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=MARKER))
    values = [b"%08d" % number for number in range(60_000)]
    keys = [b"k%d" % (number % 50) for number in range(len(values))]
    for start in range(0, len(values), 2_000):
        part = slice(start, start + 2_000)
        transaction.write(pa.record_batch({"key": pa.array(keys[part]), "value": pa.array(values[part])}))
        if start % 6_000 == 0:
            close_connections(sink)
    close_connections(sink)
    commit(sink, transaction)
    assert unanswered, "every batch was acknowledged before its connection closed: nothing was sent again"
    found = committed(sink)
    assert sorted(value for _, _, value in found) == values
    for number in range(50):
        assert [value for _, key, value in found if key == b"k%d" % number] == values[number::50]


def test_what_a_lost_answer_left_acknowledged_is_not_written_again(connection, monkeypatch):
    """The first answer to each batch is thrown away: it is sent again with its number, and the broker knows it."""
    sink = make_sink(connection, partitions=2)
    take, lost = BatchDelivery._take_one, []

    def lose(delivery, batch, answer):
        if batch.content not in lost and answer.is_done:
            lost.append(batch.content)
            answer = answer_of_error(KafkaConnectionError)
        take(delivery, batch, answer)

    monkeypatch.setattr(BatchDelivery, "_take_one", lose)
    values = [b"%08d" % number for number in range(3_000)]
    write(sink, rows(*values, key=None), **{"batch.size": "5000"})
    assert len(lost) > 5
    assert [value for _, _, value in committed(sink)] == values


def answer_as_unverified(monkeypatch, number: int, times: int) -> list[int]:
    """Have batches of this number refused as Kafka 3.6 does where it could not verify their partition; return their sequences.

    The request is asked of no broker: a refused batch is not written.
    """
    send, refused = BatchDelivery._send, []

    def refuse(delivery, node, batches):
        if batches[0].number != number or len(refused) == times:
            return send(delivery, node, batches)
        refused.append(struct.unpack_from(">i", batches[0].content, FIRST_SEQUENCE)[0])
        delivery._in_flight[node] = delivery._in_flight.get(node, 0) + 1
        answer = answer_of_error(InvalidTxnStateError)
        return delivery._answers.put(_Answered(node=node, batches=batches, response=answer))

    monkeypatch.setattr(BatchDelivery, "_send", refuse)
    return refused


def test_a_first_batch_that_the_broker_could_not_verify_is_sent_again_as_it_was(connection, monkeypatch):
    sink = make_sink(connection, partitions=1)
    refused = answer_as_unverified(monkeypatch, number=0, times=UNVERIFIED_TRIES)
    values = [b"%08d" % number for number in range(3_000)]
    write(sink, rows(*values, key=None), **{"batch.size": "5000"})
    assert refused == [0] * UNVERIFIED_TRIES
    assert [value for _, _, value in committed(sink)] == values


@pytest.mark.parametrize(
    ("number", "times", "tries"),
    [(0, 100, UNVERIFIED_TRIES + 1), (1, 100, 1)],
    ids=["again and again", "after another"],
)
def test_a_batch_that_stays_unverified_or_follows_another_fails_the_task(connection, monkeypatch, number, times, tries):
    sink = make_sink(connection, partitions=1)
    refused = answer_as_unverified(monkeypatch, number, times)
    transaction = sink.manager(**{"batch.size": "5000"}).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=MARKER))

    def write_all():
        """The answer is taken where more is given, or at the end."""
        transaction.write(rows(*(b"%08d" % number for number in range(3_000)), key=None))
        transaction.prepare(fingerprint_of())

    with pytest.raises(ResourceManagerError, match="InvalidTxnStateError"):
        write_all()
    transaction.abort()
    assert len(refused) == tries
    assert sink.manager().recover(sink.prefix) == []
    assert committed(sink) == []


def test_batches_right_after_their_topic_was_made_are_taken(connection):
    """Brokers become leaders of the partitions while the first batches arrive: Kafka 3.6 refuses some of them."""
    values = [b"%d" % number for number in range(5_000)]
    batch = pa.record_batch({"key": pa.array(values), "value": pa.array(values)})
    for _ in range(3):
        sink = make_sink(connection, partitions=50)
        write(sink, batch)
        assert Counter(value for _, _, value in committed(sink)) == Counter(values)


def test_rows_for_a_partition_without_a_leader_wait_until_it_has_one(connection):
    sink = make_sink(connection, partitions=1)
    transaction = sink.begin()
    transaction._sender._delivery._leaders = {}
    transaction.write(rows(b"a"))
    commit(sink, transaction)
    assert [value for _, _, value in committed(sink)] == [b"a"]


def test_rows_for_a_partition_that_never_has_a_leader_fail(connection, monkeypatch):
    monkeypatch.setattr("indoubt.resource_managers.kafka.batch_delivery.CALL_LIMIT_S", 1.0)
    monkeypatch.setattr(BatchDelivery, "_ask_for_leaders", lambda delivery: None)
    sink = make_sink(connection, partitions=1)
    transaction = sink.begin()
    transaction._sender._delivery._leaders = {}
    transaction.write(rows(b"a"))
    with pytest.raises(Unreachable, match="1 batches"):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert committed(sink) == []


def test_nothing_follows_a_partitions_first_batch_before_its_answer(connection, monkeypatch):
    """A broker takes whatever number it sees first of a producer: the second batch, where the first found no leader."""
    sink = make_sink(connection, partitions=2)
    take, on_their_way = BatchDelivery._take_one, []

    def note(delivery, batch, answer):
        if batch.number == 0:
            on_their_way.append(len(delivery._partitions[batch.partition].sent))
        take(delivery, batch, answer)

    monkeypatch.setattr(BatchDelivery, "_take_one", note)
    write(sink, rows(*(b"%08d" % number for number in range(3_000)), key=None), **{"batch.size": "2000"})
    assert set(on_their_way) == {1}


def test_a_gap_in_the_numbers_fails_the_task(connection):
    sink = make_sink(connection, partitions=1)
    transaction = sink.begin()
    transaction.write(rows(b"a"))
    transaction._sender.flush()
    transaction._sender._builder._open[0].records += 1
    transaction.write(rows(b"b"))
    with pytest.raises(ResourceManagerError, match="OutOfOrderSequenceNumberError"):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert sink.manager().recover(sink.prefix) == []
    assert committed(sink) == []


def test_a_record_that_the_topic_refuses_is_named(connection):
    sink = make_sink(connection, **{"max.message.bytes": "2000"})
    transaction = sink.begin()
    transaction.write(rows(b"x" * 5_000))
    with pytest.raises(RecordTooLarge, match=sink.topic):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert committed(sink) == []


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"linger.ms": "5"}, "linger.ms"),
        ({"acks": "1"}, "acks"),
        ({"partitioner": "random"}, "partitioner"),
        ({"compression.type": "brotli"}, "brotli"),
        ({"batch.size": "much"}, "batch.size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_property_that_is_not_taken_is_refused_by_name(connection, properties, named):
    sink = Sink(connection=connection, topic="any", prefix="any")
    with pytest.raises(SettingsError, match=named):
        sink.manager(**properties)


@pytest.mark.long
def test_a_broker_that_restarts_loses_and_doubles_no_row(tmp_path):
    with Broker(tmp_path) as broker:
        sink = make_sink(KafkaConnection(broker.bootstrap_servers), partitions=3)
        transaction = sink.begin()
        values = [b"%08d" % number for number in range(40_000)]
        transaction.write(rows(*values[:20_000], key=None))
        broker.kill()
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(transaction.write, rows(*values[20_000:], key=None))
            broker.start()
            writing.result(LIMIT_S)
        commit(sink, transaction)
        assert sorted(value for _, _, value in committed(sink)) == values
