"""The way of Arrow rows into a Kafka producer: whole batches, or record by record where the library cannot be had."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lifecycle.errors import MissingTopic, RecordTooLarge, ResourceManagerError, SettingsError, Unreachable
from lifecycle.guarantees import DeliveryGuarantee
from resource_managers.kafka.connection import CALL_LIMIT_S, TOPIC_LIMIT_S, KafkaConnection
from resource_managers.kafka.librdkafka_batch import (
    ERR_MSG_SIZE_TOO_LARGE,
    PARTITION_UNASSIGNED,
    BatchPathUnavailable,
    BatchProducer,
)

log = logging.getLogger(__name__)

COLUMNS = frozenset({"key", "value"})
BYTES = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
DEFAULT_RECORD_BYTES = 1_000_000
"""librdkafka's message.max.bytes where it is not set."""
KEPT_BYTES = 16 << 20
"""Arrow buffers lent to librdkafka without a copy; beyond this much a flush gives them back, still in the cache."""

PRODUCER_DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    # Keys go to the partitions that Java clients, and so Spark's own sink, choose.
    "partitioner": "murmur2_random",
    # No reader waits for a single record: rows are seen at the commit, and a flush sends what lingers at once.
    "linger.ms": 100,
    # A request costs the broker about 0.3 ms besides its records; a message that has left the processor's cache while it
    # waited in a long queue costs librdkafka, which passes over each four times. So neither small requests nor a long queue.
    "batch.num.messages": 100_000,
    "batch.size": 512 << 10,
    "queue.buffering.max.messages": 40_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "max.in.flight.requests.per.connection": 2,
    "delivery.report.only.error": True,
    # The first connection goes to the bootstrap address; the second, to the same broker, would wait 100 ms by default.
    "reconnect.backoff.ms": 20,
    "log_level": 3,
}


class TransactionFailed(Exception):
    """librdkafka takes no more records: an earlier one failed, and with it the transaction."""


class LibrdkafkaSender:
    """A producer and the fastest way into it that this machine has: whole Arrow batches, or record by record."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        properties: Mapping[str, Any],
        *,
        client_id: str,
        batches: bool = True,
    ) -> None:
        self.topic = topic
        self.producer = Producer(connection.for_librdkafka(**{"client.id": client_id, **properties}), logger=log)
        self.rows = 0
        self.bytes = 0
        self._given_back_bytes = 0
        self._limit_bytes = int(properties.get("message.max.bytes", DEFAULT_RECORD_BYTES))
        self._batches: BatchProducer | None = None
        self.leaders: dict[int, int] = {}
        """The broker that leads each partition, as ``connect`` found it; below 0: none did."""
        self._turn: Iterator[int] | None = None
        self._spreads = str(properties.get("partitioner", "")).endswith("random")
        if batches:
            try:
                self._batches = BatchProducer(self.producer, client_id, topic)
            except BatchPathUnavailable as reason:
                log.warning("records go one by one into librdkafka: %s", reason)

    @property
    def takes_batches(self) -> bool:
        """Say whether whole Arrow batches go in at once."""
        return self._batches is not None

    def connect(self) -> None:
        """Wait until a broker is connected. Raises MissingTopic, and KafkaException when no broker answers.

        Without one init_transactions waits for librdkafka's coordinator timer, 500 ms, in a third of all cases, and an
        idempotent producer's first record for as long. The first answer comes over the bootstrap connection, the second
        over the broker's own.
        """
        deadline = time.monotonic() + TOPIC_LIMIT_S
        self.producer.list_topics(self.topic, timeout=CALL_LIMIT_S)
        while True:
            found = self.producer.list_topics(self.topic, timeout=CALL_LIMIT_S).topics.get(self.topic)
            if found is not None and found.partitions:
                self.leaders = {
                    partition: batch_attempt.leader for partition, batch_attempt in sorted(found.partitions.items())
                }
                # One without a leader would hold its rows back until it has one.
                partitions = [partition for partition, leader in self.leaders.items() if leader >= 0]
                if self._spreads and partitions:
                    first = random.randrange(len(partitions))
                    self._turn = itertools.cycle(partitions[first:] + partitions[:first])
                return
            if time.monotonic() > deadline:
                raise MissingTopic(f"topic {self.topic!r} does not exist: create it, or name another sink")
            time.sleep(0.05)

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows, waiting while the queue is full. Raises RecordTooLarge, SettingsError, ResourceManagerError."""
        key, value = columns(rows)
        size = _payload_bytes(value) + (_payload_bytes(key) if key is not None else 0)
        if self._batches is not None:
            self._check(self._batches.produce(key, value, self._partition(key)), key, value)
        else:
            self._write_one_by_one(key, value)
        self.rows += len(value)
        self.bytes += size
        if self._batches is not None and self.bytes - self._given_back_bytes > KEPT_BYTES:
            self.flush()

    def _partition(self, key: pa.Array | None) -> int:
        """Return the partition whose turn it is where no row has a key, else leave each row to the partitioner.

        A whole Arrow batch into one partition is what the sticky partitioner does (KIP-480), without a call per record.
        """
        return next(self._turn) if key is None and self._turn is not None else PARTITION_UNASSIGNED

    def flush(self, limit_s: float = CALL_LIMIT_S) -> None:
        """Wait until nothing is queued. Raises Unreachable after the limit; 0 left does not prove delivery."""
        left = self.producer.flush(limit_s)
        if left:
            raise Unreachable(
                f"{left} records for topic {self.topic!r} were not taken by the broker in {limit_s:.0f} s"
            )
        if self._batches is not None:
            self._batches.keep.clear()
        self._given_back_bytes = self.bytes

    def fatal_error(self) -> str:
        """Return why the producer can deliver nothing more, or an empty text while it can."""
        return self._batches.fatal_error() if self._batches is not None else ""

    def close(self) -> None:
        """Drop what is queued and free the client; nothing is committed or aborted by this. Safe to call twice.

        Not Producer.close(): that aborts an open transaction, and so a prepared one (seen with confluent-kafka 2.16).
        """
        with contextlib.suppress(KafkaException):
            self.producer.purge()
            self.producer.flush(1.0)
        if self._batches is not None:
            self._batches.close()

    def _write_one_by_one(self, key: pa.Array | None, value: pa.Array) -> None:
        keys = key.to_pylist() if key is not None else [None] * len(value)
        for one_key, one_value in zip(keys, value.to_pylist(), strict=True):
            while True:
                try:
                    self.producer.produce(self.topic, one_value, one_key)
                    break
                except BufferError:
                    self.producer.poll(0.05)
                except KafkaException as error:
                    self._check(error.args[0].code(), key, value, error.args[0].str())
        self.producer.poll(0)

    def _check(self, code: int, key: pa.Array | None, value: pa.Array, reason: str = "") -> None:
        if code == 0:
            return
        if code == ERR_MSG_SIZE_TOO_LARGE:
            raise too_large(self.topic, max(_sizes(key, value)), self._limit_bytes)
        if code in (KafkaError._STATE, KafkaError._FATAL):
            raise TransactionFailed(KafkaError(code).str())
        raise ResourceManagerError(f"topic {self.topic!r} refused a record: {reason or KafkaError(code).str()}")


class PlainWriter:
    """Writes without a transaction: at_least_once waits for every record, none for nothing."""

    def __init__(
        self, connection: KafkaConnection, topic: str, properties: Mapping[str, Any], guarantee: DeliveryGuarantee
    ):
        self._failed: list[str] = []
        plain = dict(properties)
        if guarantee is DeliveryGuarantee.NONE:
            plain |= {"enable.idempotence": False, "acks": 0}
        else:
            # Whole batches have no report for each record. This makes the loss of any one a fatal error of the producer,
            # but for one that timed out, which is dropped without a word: so none does, and the flush's limit tells.
            plain |= {"enable.gapless.guarantee": True, "message.timeout.ms": 0, "on_delivery": self._on_delivery}
        self._sender = LibrdkafkaSender(connection, topic, plain, client_id=f"indoubt-{os.getpid()}")
        try:
            self._sender.connect()
        except KafkaException as error:
            self._sender.close()
            raise Unreachable(f"topic {topic!r}: {error.args[0].str()}") from error
        except BaseException:
            self._sender.close()
            raise

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(f"{error.str()} (partition {message.partition()})")

    @property
    def rows(self) -> int:
        """Return the rows written so far."""
        return self._sender.rows

    @property
    def bytes(self) -> int:
        """Return the bytes of keys and values written so far."""
        return self._sender.bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows. Raises RecordTooLarge, SettingsError, ResourceManagerError."""
        try:
            self._sender.write(rows)
        except (TransactionFailed, KafkaException) as error:
            reason = self._sender.fatal_error() or error
            raise ResourceManagerError(
                f"the producer for {self._sender.topic!r} takes no more records: {reason}"
            ) from error

    def finish(self) -> None:
        """Wait until all rows are delivered (none: sent, whatever becomes of them). Raises ResourceManagerError."""
        try:
            self._sender.flush()
        except KafkaException as error:
            raise self._undelivered(str(error)) from error
        # Raised by flush only if it happened during it; but it stays to be asked for.
        if reason := self._sender.fatal_error():
            raise self._undelivered(reason)
        if self._failed:
            raise ResourceManagerError(
                f"{len(self._failed)} records were not delivered to {self._sender.topic!r}: {self._failed[0]}"
            )

    def _undelivered(self, reason: str) -> ResourceManagerError:
        return ResourceManagerError(f"not every record was delivered to {self._sender.topic!r}: {reason}")

    def abort(self) -> None:
        """Drop what is queued."""
        self._sender.close()


def too_large(topic: str, largest: int, limit_bytes: int) -> RecordTooLarge:
    """Return the error for a record of ``largest`` bytes (key and value) that the producer does not take."""
    return RecordTooLarge(
        f"a record of {largest:,} bytes for topic {topic!r} is larger than the producer takes (message.max.bytes = "
        f"{limit_bytes:,}): raise it in producer_properties, and max.message.bytes of the topic with it"
    )


def columns(rows: pa.RecordBatch) -> tuple[pa.Array | None, pa.Array]:
    """Return (key, None where no row has one; value); other columns belong to other sinks.

    Raises SettingsError as ``check_columns`` does.
    """
    names = check_columns([(field.name, field.type) for field in rows.schema])
    key = rows.column("key") if "key" in names else None
    return (key if key is not None and key.null_count < len(key) else None), rows.column("value")


def check_columns(columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
    """Return those of these columns that go to a topic. Raises SettingsError when ``value`` is missing or a type is wrong."""
    kinds = {name: kind for name, kind in columns if name in COLUMNS}
    if "value" not in kinds:
        raise SettingsError(
            f"the Kafka sink takes the columns key (optional) and value, not {[name for name, _ in columns]}"
        )
    for name, kind in kinds.items():
        if not any(is_kind(kind) for is_kind in BYTES):
            raise SettingsError(f"column {name!r} of the Kafka sink is string or binary, not {kind}: cast it before")
    return frozenset(kinds)


def _payload_bytes(column: pa.Array) -> int:
    _, offsets, _ = column.buffers()
    if offsets is None or len(column) == 0:
        return 0
    width = "<i8" if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type) else "<i4"
    view = np.frombuffer(offsets, width)
    return int(view[column.offset + len(column)] - view[column.offset])


def _sizes(key: pa.Array | None, value: pa.Array) -> list[int]:
    keys = key.to_pylist() if key is not None else [None] * len(value)
    return [len(k or b"") + len(v or b"") for k, v in zip(keys, value.to_pylist(), strict=True)]
