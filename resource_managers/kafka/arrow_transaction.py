"""A transaction by requests of our own: Arrow columns become Kafka's record batches, and no library sees a single record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from lifecycle.errors import MissingTopic, ResourceManagerError, SettingsError, Unreachable
from lifecycle.identity import Marker
from resource_managers.kafka.batch_builder import BatchBuilder
from resource_managers.kafka.batch_delivery import BatchDelivery
from resource_managers.kafka.connection import TOPIC_LIMIT_S, KafkaConnection
from resource_managers.kafka.librdkafka_sender import DEFAULT_RECORD_BYTES
from resource_managers.kafka.partitions import KafkaPartitions
from resource_managers.kafka.record_batch import Codec, Producer, codec_named
from resource_managers.kafka.transaction import ProducerIdentity
from resource_managers.kafka.transaction_requests import TransactionRequests

ABORT_LIMIT_S = 10.0
BATCH_BYTES = 990_000
"""Brokers take 1,048,588 bytes unless told otherwise; each batch and request costs them and us the same, whatever its size."""
_ONLY = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "partitioner": ("murmur2_random",),
}
"""Properties of librdkafka that have one value here."""
_NUMBERS = ("batch.size", "message.max.bytes")
_CODEC = ("compression.type", "compression.codec")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowProperties:
    """What may be set of the way rows are sent, under librdkafka's names."""

    batch_bytes: int
    record_bytes: int
    codec: Codec

    @classmethod
    def read(cls, properties: Mapping[str, Any]) -> Self:
        """Return them with their defaults. Raises SettingsError for one that is not taken."""
        known = (*_ONLY, *_NUMBERS, *_CODEC)
        for name, value in properties.items():
            if name not in known:
                raise SettingsError(
                    f"producer property {name!r} is not one of kafka_producer=arrow, which takes {', '.join(known)}: "
                    "leave it out, or set kafka_producer to librdkafka, which takes all of librdkafka's"
                )
            if name in _ONLY and str(value).lower() not in _ONLY[name]:
                raise SettingsError(
                    f"producer property {name} is {value!r}; kafka_producer=arrow takes {_ONLY[name][0]}: "
                    "leave it out, or set kafka_producer to librdkafka"
                )
            if name in _NUMBERS and not (str(value).isdigit() and int(value) > 0):
                raise SettingsError(f"producer property {name} is {value!r}; it takes a whole number above 0")
        named = [str(properties[name]) for name in _CODEC if name in properties]
        return cls(
            batch_bytes=int(properties.get("batch.size", BATCH_BYTES)),
            record_bytes=int(properties.get("message.max.bytes", DEFAULT_RECORD_BYTES)),
            codec=codec_named(named[0] if named else "none"),
        )


class ArrowTransaction:
    """Implements TransactionSender."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        properties: ArrowProperties,
        *,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self._connection, self._topic, self._properties = connection, topic, properties
        self._requests = TransactionRequests(
            connection=connection, transactional_id=transactional_id, timeout_ms=timeout_ms
        )
        self._identity: ProducerIdentity | None = None
        self._marker: tuple[str, str, Marker] | None = None
        self.leaders: Mapping[int, int] = {}
        self._builder: BatchBuilder | None = None
        self._delivery: BatchDelivery | None = None

    @property
    def rows(self) -> int:
        """Return the rows written so far."""
        return self._builder.rows if self._builder is not None else 0

    @property
    def bytes(self) -> int:
        """Return the bytes of keys and values written so far."""
        return self._builder.bytes if self._builder is not None else 0

    def take_id(self) -> ProducerIdentity:
        """Find the topic's partitions and take the id."""
        self.leaders = self._find_leaders()
        self._identity = self._requests.take_id()
        return self._identity

    def _find_leaders(self) -> Mapping[int, int]:
        deadline = time.monotonic() + TOPIC_LIMIT_S
        while True:
            error: ResourceManagerError
            try:
                layout = KafkaPartitions(self._connection, "").layout([self._topic])
                found = {partition: node for (_, partition), node in layout.leaders.items()}
                found |= {partition: -1 for _, partition in layout.leaderless}
                if found:
                    return found
                error = MissingTopic(f"topic {self._topic!r} does not exist: create it, or name another sink")
            except Unreachable as late:
                # One late answer of a busy broker does not fail the task.
                error = late
            if time.monotonic() > deadline:
                raise error
            time.sleep(0.05)

    def begin(self, decisions_topic: str, group: str, marker: Marker) -> None:
        """Begin; nothing is sent yet."""
        if self._identity is None:
            raise ResourceManagerError(f"{self._requests.transactional_id}: its id was not taken")
        self._marker = (decisions_topic, group, marker)
        identity, properties = self._identity, self._properties
        self._builder = BatchBuilder(
            self._topic,
            self.leaders,
            Producer(producer_id=identity.producer_id, producer_epoch=identity.producer_epoch),
            batch_bytes=properties.batch_bytes,
            record_bytes=properties.record_bytes,
            codec=properties.codec,
        )
        self._delivery = BatchDelivery(self._connection, self._topic, self._requests, identity, self.leaders)

    def write(self, rows: pa.RecordBatch) -> None:
        """Send what is complete with these rows, and keep the rest."""
        builder, delivery = self._begun()
        for batch in builder.add(rows):
            delivery.give(batch)

    def flush(self) -> None:
        """Send everything and wait until all of it is acknowledged."""
        builder, delivery = self._begun()
        for batch in builder.finish():
            delivery.give(batch)
        delivery.flush()

    def send_marker(self) -> None:
        """Write the marker. The coordinator refuses it when another producer took the id, or it timed out."""
        if self._identity is None or self._marker is None:
            raise ResourceManagerError(f"{self._requests.transactional_id}: no transaction was begun")
        self._requests.write_marker(self._identity, *self._marker)

    def undo(self) -> str:
        """Send nothing more; the transaction is ended by whoever calls this, since its identity is certain."""
        if self._delivery is not None:
            self._delivery.drop(ABORT_LIMIT_S)
        return ""

    def close(self) -> None:
        """Let go of the batches: the connection is the process's own."""
        self._delivery = None

    def _begun(self) -> tuple[BatchBuilder, BatchDelivery]:
        if self._builder is None or self._delivery is None:
            raise ResourceManagerError(f"{self._requests.transactional_id}: no transaction is open")
        return self._builder, self._delivery
