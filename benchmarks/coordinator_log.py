"""Fills ``__transaction_state`` and a lifecycle topic with the records of many transactions, as fast as a broker accepts them.

Only the admin client may write to an internal topic, and the broker recognizes it by the client's name. The coordinator does
not read its log again while it runs, so it does not know these transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.lifecycle.identity import Handle
from indoubt.resource_managers.kafka.connection import KafkaConnection

STATE_TOPIC = "__transaction_state"
FIRST_MS = 1_795_000_000_000
TIMEOUT_MS = 60_000
LIMIT_S = 300.0
ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, PREPARE_ABORT, COMPLETE_ABORT = 1, 2, 4, 3, 5
ABORTED_EVERY = 50
SLOTS = 8


def state(
    producer_id: int, epoch: int, status: int, update_ms: int, start_ms: int, partitions: tuple[int, ...] = ()
) -> bytes:
    """Return a value of the log as a Kafka 4 broker writes it, for a transaction that writes to one topic."""
    raw = struct.pack(">hqhib", 1, producer_id, epoch, TIMEOUT_MS, status)
    raw += b"\x02\x0eip_count_sink" + bytes([len(partitions) + 1]) if partitions else b"\x01"
    raw += struct.pack(f">{len(partitions)}i", *partitions) + (b"\0" if partitions else b"")
    return raw + struct.pack(">qq", update_ms, start_ms) + b"\2\0\x08" + struct.pack(">q", producer_id) + b"\2\2\0\2"


def states(transactions: int, ids: int, first_ms: int = FIRST_MS) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of four states of each transaction; ``ids`` transactional ids take turns, one of 50 aborts."""
    for number in range(transactions):
        producer, epoch = number % ids, number // ids % 32_000
        name = f"orders-{producer}-17".encode()
        key, start = struct.pack(">hh", 0, len(name)) + name, first_ms + number
        ends = (PREPARE_ABORT, COMPLETE_ABORT) if number % ABORTED_EVERY == 0 else (PREPARE_COMMIT, COMPLETE_COMMIT)
        first, second = producer % 4, (producer + 1) % 4
        yield key, state(producer, epoch, ONGOING, start, start, (first,))
        yield key, state(producer, epoch, ONGOING, start + 5, start, (first, second))
        yield key, state(producer, epoch + 1, ends[0], start + 900, start, (first, second))
        yield key, state(producer, epoch + 1, ends[1], start + 905, start)


def open_states(transactions: int, first_ms: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of transactions that stay open, each of an id of its own, begun one each millisecond."""
    for number in range(transactions):
        name = f"orders-{number}-17".encode()
        key, start = struct.pack(">hh", 0, len(name)) + name, first_ms + number
        yield key, state(number, 0, ONGOING, start, start, (number % 4,))


def events(batches: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of the events of a pipeline with 8 slots: 34 for each batch."""
    for batch in range(batches):
        at_ms = FIRST_MS + 1_000 * batch
        batch_attempt: dict[str, object] = {"pipeline": "ip-count", "checkpoint_id": "0a1b2c3d4e5f", "attempt": 12}
        batch_attempt["batch"] = batch

        def event(type_: EventType, after_ms: int, data: dict[str, object], at_ms: int = at_ms) -> bytes:
            subject = str(data.get("transaction", f"checkpoint {data['batch']}"))
            event = LifecycleEvent(
                type=type_, source="/pipeline/ip-count", subject=subject, at_ms=at_ms + after_ms, data=data
            )
            return encode(event)

        yield b"ip-count", event(EventType.CHECKPOINT_STARTED, 0, batch_attempt)
        for slot in range(SLOTS):
            name = f"ip-count-{slot}-{batch % 2}"
            which = {
                **batch_attempt,
                "slot": slot,
                "transaction": name,
                "producer_id": slot,
                "producer_epoch": batch % 32_000,
            }
            which |= {"resource_manager": "kafka"}
            handle = Handle(
                resource_manager="kafka",
                transaction=name,
                producer_id=slot,
                producer_epoch=batch % 32_000,
                slot=slot,
                rows=1_000,
                bytes=100_000,
                fingerprint="1000:00aa11bb22cc33dd",
                opened_at_ms=at_ms,
                prepared_at_ms=at_ms + 500,
                timeout_ms=TIMEOUT_MS,
            )
            key = name.encode()
            yield key, event(EventType.TRANSACTION_OPENED, 10, which)
            yield key, event(EventType.TRANSACTION_PREPARED, 500, which | {"handle": handle.to_json()})
            yield key, event(EventType.TRANSACTION_COMMIT_DECIDED, 600, which)
            yield key, event(EventType.TRANSACTION_COMMITTED, 700, which)
        completed = batch_attempt | {"rows": 8_000, "bytes": 800_000, "duration_ms": 800}
        yield b"ip-count", event(EventType.CHECKPOINT_COMPLETED, 800, completed)


def make_state_topic(connection: KafkaConnection) -> None:
    """Make the broker create its log, with a transactional producer that writes nothing."""
    producer = Producer(connection.for_librdkafka(**{"transactional.id": "first"}))
    producer.init_transactions(LIMIT_S)


def fill(connection: KafkaConnection, topic: str, records: Iterator[tuple[bytes, bytes]]) -> int:
    """Write records, partitioned by key; return how many the topic holds then. Raises TimeoutError."""
    settings = {"client.id": "__admin_client", "linger.ms": 50, "batch.size": 1 << 20, "acks": "all"}
    producer = Producer(connection.for_librdkafka(**settings, **{"queue.buffering.max.messages": 500_000}))
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(LIMIT_S):
        raise TimeoutError(f"the broker did not accept every record for {topic} within {LIMIT_S:.0f} s")
    return size_of(connection, topic)


def size_of(connection: KafkaConnection, topic: str) -> int:
    """Return how many records a topic has from which none was deleted."""
    admin = AdminClient(connection.for_librdkafka(log_level=2))
    partitions = admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    latest = OffsetSpec.latest()
    asked = admin.list_offsets({TopicPartition(topic, partition): latest for partition in partitions})
    return sum(int(future.result(LIMIT_S).offset) for future in asked.values())
