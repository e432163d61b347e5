"""Ranges of offsets read as columns, compared with what an independent read_committed consumer gets of them."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaConnectionError
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from demo.broker import Broker
from indoubt.lifecycle.errors import RecordsGone, Unreachable
from indoubt.resource_managers.kafka import answers
from indoubt.resource_managers.kafka.compression import CODECS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.reading import committed_records
from indoubt.resource_managers.kafka.reading.committed_records import FETCH_BYTES, OffsetRange, read_committed
from indoubt.resource_managers.kafka.wire import wire
from tests.integration.certificates import make_authority, tls_client, tls_listener
from tests.integration.committed_topics import (
    Row,
    columns,
    compare,
    end_of,
    judged,
    make_topic,
    many,
    produce,
    producer_to,
    rows_of,
)
from tests.integration.kafka_fixtures import LIMIT_S, make_sink, rows, wait_until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("compressed_by", ["librdkafka", "the broker"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_are_read(connection, codec, compressed_by):
    # A broker compresses with Kafka's Java code what a topic wants to have compressed.
    by_broker = compressed_by == "the broker"
    topic = make_topic(connection, **({"compression_type": codec.replace("none", "uncompressed")} if by_broker else {}))
    written = many(3_000)
    producer = producer_to(connection, **{"compression.type": "none" if by_broker else codec})
    produce(producer, topic, *written)
    produce(producer, topic, *written[:200], headers=[("trace", b"abc"), ("none", None)])
    assert list(compare(connection, topic).values()) == [*written, *written[:200]]


@pytest.mark.parametrize("fetch_bytes", [1, FETCH_BYTES])
def test_only_committed_ones_of_interleaved_transactions_are_read(connection, fetch_bytes, monkeypatch):
    monkeypatch.setattr(committed_records, "FETCH_BYTES", fetch_bytes)
    topic = make_topic(connection)
    writers = [producer_to(connection, id_, **{"linger.ms": 0}) for id_ in ("a", "b", "c")]
    plain = producer_to(connection, **{"linger.ms": 0})
    chance, kept = random.Random(5), []
    for round_ in range(4):
        for writer in writers:
            writer.begin_transaction()
        commits = [(number + round_) % 3 > 0 for number in range(3)]
        for step in range(3):
            for number, writer in enumerate(writers):
                own = [(b"%d" % number, b"%d.%d.%d" % (round_, step, n)) for n in range(chance.randrange(4))]
                produce(writer, topic, *own)
                kept += own if commits[number] else []
            produce(plain, topic, (None, b"plain %d.%d" % (round_, step)))
            kept.append((None, b"plain %d.%d" % (round_, step)))
        for commit, writer in zip(commits, writers, strict=True):
            writer.commit_transaction(LIMIT_S) if commit else writer.abort_transaction(LIMIT_S)
    found = compare(connection, topic)
    assert list(found.values()) == kept
    assert end_of(connection, topic) > len(found) + 12, "there are aborted records and markers"


def test_rows_of_our_own_producer_are_read(connection):
    sink = make_sink(connection, partitions=1)
    values = [b"%08d" % number for number in range(20_000)]
    for batch in range(2):
        transaction = sink.begin(batch=batch)
        transaction.write(rows(*values))
        handle = transaction.prepare(None)
        sink.commit(handle, batch=batch)
    assert [value for _, value in compare(connection, sink.topic, ranges=5).values()] == values * 2


def test_a_range_in_which_nothing_is_visible_has_no_rows(connection):
    topic = make_topic(connection)
    writer = producer_to(connection, "aborts")
    for _ in range(3):
        writer.begin_transaction()
        produce(writer, topic, *many(10))
        writer.abort_transaction(LIMIT_S)
    for _ in range(2):
        writer.begin_transaction()
        produce(writer, topic, (None, b"seen"))
        writer.commit_transaction(LIMIT_S)
    end = end_of(connection, topic)
    assert compare(connection, topic) == {end - 4: (None, b"seen"), end - 2: (None, b"seen")}
    assert list(columns(connection, topic, 0, end - 4)) == []
    assert list(columns(connection, topic, end - 3, end - 2)) == [], "only a marker"
    assert list(columns(connection, topic, end, end)) == list(columns(connection, topic, 7, 7)) == []


def test_a_record_larger_than_an_answer_is_read(connection):
    topic = make_topic(connection, max_message_bytes="12000000")
    large = random.Random(1).randbytes(FETCH_BYTES + 1_000_000)
    written: list[Row] = [(b"a", b"small"), (b"b", large), (b"c", b"small"), (large, None), (b"d", b"small")]
    for row in written:
        produce(producer_to(connection), topic, row)
    assert list(compare(connection, topic, ranges=0).values()) == written


def test_fifty_megabytes_are_read_in_several_answers(connection):
    topic = make_topic(connection)
    noise = random.Random(2).randbytes(1_100_000)
    written: list[Row] = [(b"%06d" % n, noise[n : n + 1_000 + n % 2]) for n in range(50_000)]
    produce(producer_to(connection, **{"queue.buffering.max.kbytes": 200_000}), topic, *written)
    batches = list(columns(connection, topic, 0, end_of(connection, topic)))
    assert len(batches) >= 50_000_000 // FETCH_BYTES
    assert rows_of(iter(batches)) == written


def test_records_that_were_deleted_are_gone(connection):
    topic = make_topic(connection)
    produce(producer_to(connection), topic, *many(50))
    admin = AdminClient(connection.for_librdkafka())
    place = TopicPartition(topic, 0, 40)
    admin.delete_records([place])[place].result(LIMIT_S)
    with pytest.raises(RecordsGone, match=f"^{topic}-0, offsets 10 to 90: the record at offset 10 is gone"):
        list(columns(connection, topic, 10, 90))
    assert rows_of(columns(connection, topic, 40, 90)) == many(50)[40:90]
    with pytest.raises(RecordsGone, match=r"offset 101 is gone: .* or the topic was created again"):
        list(columns(connection, topic, 101, 110))


def test_records_that_are_deleted_while_they_are_read_are_gone(connection, monkeypatch):
    monkeypatch.setattr(committed_records, "FETCH_BYTES", 1)
    topic = make_topic(connection)
    for row in many(5):
        produce(producer_to(connection), topic, row)
    reading = columns(connection, topic, 0, 10)
    # The answer behind this one is on its way already; the one after that is not asked for.
    found = rows_of(iter([next(reading)]))
    admin = AdminClient(connection.for_librdkafka())
    place = TopicPartition(topic, 0, 9)
    admin.delete_records([place])[place].result(LIMIT_S)
    with pytest.raises(RecordsGone, match=rf"^{topic}-0, offsets 0 to 10: the record at offset [12] is gone"):
        found += rows_of(reading)


def test_a_range_beyond_the_end_is_unreachable_when_its_time_is_over(connection, monkeypatch):
    monkeypatch.setattr(committed_records, "CALL_LIMIT_S", 1.0)
    topic = make_topic(connection)
    produce(producer_to(connection), topic, *many(5))
    reading = columns(connection, topic, 0, 11)
    assert rows_of(iter([next(reading)])) == many(5)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=f"^{topic}-0, offsets 0 to 11: not read in 1 s: .* no record at offset 10"):
        next(reading)
    assert time.monotonic() - began < LIMIT_S / 2


def test_records_of_an_open_transaction_are_waited_for(connection, monkeypatch):
    topic = make_topic(connection)
    writer = producer_to(connection, "open")
    writer.begin_transaction()
    produce(writer, topic, *many(5))
    with monkeypatch.context() as patch:
        patch.setattr(committed_records, "CALL_LIMIT_S", 0.5)
        with pytest.raises(Unreachable, match="no record at offset 0"):
            next(columns(connection, topic, 0, 10))
    # The pauses between the questions are where the transaction ends.
    asked = committed_records._Reader._ask

    def commit_before_the_third(reader: committed_records._Reader) -> None:
        times.append(time.monotonic())
        if len(times) == 3:
            writer.commit_transaction(LIMIT_S)
        asked(reader)

    times: list[float] = []
    monkeypatch.setattr(committed_records._Reader, "_ask", commit_before_the_third)
    assert rows_of(columns(connection, topic, 0, 10)) == many(5)
    assert len(times) >= 3


@pytest.mark.parametrize("partition", [0, 7])
def test_a_partition_that_is_not_there_is_named(connection, partition, monkeypatch):
    monkeypatch.setattr(committed_records, "CALL_LIMIT_S", 1.0)
    topic = make_topic(connection) if partition else "not-there"
    wanted = OffsetRange(topic=topic, partition=partition, start=0, end=5)
    with pytest.raises(Unreachable, match=f"{topic}-{partition}, offsets 0 to 5"):
        list(read_committed(connection, wanted))


def test_no_record_is_lost_or_doubled_when_connections_close(connection, monkeypatch):
    monkeypatch.setattr(committed_records, "FETCH_BYTES", 50_000)
    topic = make_topic(connection)
    written = many(10_000)
    produce(producer_to(connection, **{"batch.size": 40_000}), topic, *written)
    end = end_of(connection, topic)
    manager = wire(connection).admin._manager
    closed = []

    def close() -> None:
        for each in list(manager._conns.values()):
            each.close(KafkaConnectionError("closed by the test"))
            closed.append(each)

    found = []
    for number, batch in enumerate(columns(connection, topic, 0, end)):
        found += rows_of(iter([batch]))
        if number % 40 == 0:
            manager.run(close)
    assert found == written
    assert len(closed) >= 3


def test_a_leader_that_moved_is_asked_for_again(connection):
    topic = make_topic(connection)
    produce(producer_to(connection), topic, *many(5))
    committed_records._leaders(connection)[topic, 0] = 99
    assert rows_of(columns(connection, topic, 0, 10)) == many(5)
    assert committed_records._leaders(connection)[topic, 0] != 99


def set_quota(connection: KafkaConnection, bytes_per_s: float | None) -> None:
    """Hold every client back to so many bytes/s that it reads; None: no longer."""
    entry = AlterClientQuotasRequest.EntryData
    entity = entry.EntityData(entity_type="client-id", entity_name=None)
    change = entry.OpData(key="consumer_byte_rate", value=bytes_per_s or 0.0, remove=bytes_per_s is None)
    request = AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=[change])], validate_only=False)
    (response,) = wire(connection).send([(None, request)])
    assert [row.error_code for row in response.entries] == [0]


@pytest.mark.long
def test_a_reader_that_is_held_back_gets_all(connection, monkeypatch):
    topic = make_topic(connection)
    noise = random.Random(4).randbytes(100_000)
    written: list[Row] = [(b"%05d" % n, noise[n : n + 1_000]) for n in range(7_000)]
    produce(producer_to(connection), topic, *written)
    end = end_of(connection, topic)
    take, held_back = answers.answer_of, []

    def note(response: object) -> answers.BrokerAnswer:
        held_back.append(getattr(response, "throttle_time_ms", 0))
        return take(response)

    monkeypatch.setattr(committed_records, "answer_of", note)

    def is_held_back() -> bool:
        assert rows_of(columns(connection, topic, 0, end)) == written
        return max(held_back) > 0

    # A broker lets ten seconds' worth of it pass at once: less than the first answer has. It hears of it after the controller.
    set_quota(connection, 350_000)
    try:
        wait_until("an answer that says that the reader is held back", is_held_back, LIMIT_S)
    finally:
        set_quota(connection, None)


@pytest.mark.long
def test_what_compaction_left_is_read(tmp_path):
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
    with Broker(tmp_path, settings=settings) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        topic = make_topic(connection, cleanup_policy="compact", segment_ms="200", delete_retention_ms="0")
        writers = [producer_to(connection, id_, **{"linger.ms": 5}) for id_ in ("commits", "aborts")]
        for round_ in range(5):
            for writer in writers:
                writer.begin_transaction()
                produce(writer, topic, *[(b"%d" % (n % 700), b"%d.%d" % (round_, n)) for n in range(1_000)])
            writers[0].commit_transaction(LIMIT_S)
            writers[1].abort_transaction(LIMIT_S)
        plain = producer_to(connection)

        def seen() -> int:
            # A segment is closed by the first record after its time.
            produce(plain, topic, (b"last", b"%d" % time.monotonic_ns()))
            return len(judged(connection, topic, end_of(connection, topic)))

        wait_until("the older records are cleaned away", lambda: seen() < 1_000, 4 * LIMIT_S)

        def compared() -> dict[int, Row] | None:
            before = judged(connection, topic, end_of(connection, topic))
            try:
                return compare(connection, topic, ranges=40)
            except AssertionError:
                # The cleaner may take records between two readings. Where it took none, they differ for another reason.
                if judged(connection, topic, end_of(connection, topic)) == before:
                    raise
                return None

        found = wait_until("a comparison during which nothing is cleaned away", compared, 4 * LIMIT_S)
        assert {key for key, _ in found.values()} >= {b"%d" % n for n in range(700)}


@pytest.mark.long
def test_megabytes_are_read_over_tls(tmp_path):
    authority = make_authority(tmp_path)
    settings, client = tls_listener(authority), tls_client(authority)
    with Broker(tmp_path / "broker", settings=settings, client=client) as broker:
        connection = KafkaConnection(broker.bootstrap_servers, client)
        topic = make_topic(connection)
        noise = random.Random(3).randbytes(100_000)
        written: list[Row] = [(b"%05d" % n, noise[n : n + n % 2_000]) for n in range(20_000)]
        produce(producer_to(connection), topic, *written)
        assert list(compare(connection, topic, ranges=2).values()) == written
