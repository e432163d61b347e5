"""A transaction by librdkafka: what the calls about the whole transaction are, and what their errors mean."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lifecycle.errors import Fenced, MissingTopic, RecordTooLarge, ResourceManagerError, Unreachable
from lifecycle.identity import Marker
from resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from resource_managers.kafka.librdkafka_sender import LibrdkafkaSender, TransactionFailed
from resource_managers.kafka.transaction import MAX_TIMEOUT_SETTING, ProducerIdentity

log = logging.getLogger(__name__)

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
ABORT_LIMIT_S = 10.0
_group_metadata: dict[tuple[int, str, str], Any] = {}


class LibrdkafkaTransaction:
    """Implements TransactionSender; ``sender`` gives rows to librdkafka."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        properties: Mapping[str, Any],
        *,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self._connection, self._id, self._timeout_ms = connection, transactional_id, timeout_ms
        self._marker: tuple[str, str, Marker] | None = None
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self.sender = LibrdkafkaSender(connection, topic, {**properties, **own}, client_id=transactional_id)

    @property
    def rows(self) -> int:
        """Return the rows written so far."""
        return self.sender.rows

    @property
    def bytes(self) -> int:
        """Return the bytes of keys and values written so far."""
        return self.sender.bytes

    @property
    def leaders(self) -> Mapping[int, int]:
        """Return the broker that leads each partition, as ``take_id`` found it; below 0: none did."""
        return self.sender.leaders

    def take_id(self) -> ProducerIdentity | None:
        """Connect and take the id; librdkafka does not tell as whom."""
        try:
            self.sender.connect()
            self.sender.producer.init_transactions(CALL_LIMIT_S)
        except KafkaException as error:
            raise self._not_begun(error.args[0]) from error
        return None

    def begin(self, decisions_topic: str, group: str, marker: Marker) -> None:
        """Begin; nothing is sent yet."""
        self._marker = (decisions_topic, group, marker)
        try:
            self.sender.producer.begin_transaction()
        except KafkaException as error:
            raise self._not_begun(error.args[0]) from error

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows, waiting while the queue is full."""
        try:
            self.sender.write(rows)
        except KafkaException as error:
            raise self._classified(error) from error
        except TransactionFailed as error:
            raise self._classified(self._cause()) from error

    def flush(self) -> None:
        """Wait until nothing is queued; that does not prove delivery, ``send_marker`` does."""
        try:
            self.sender.flush()
        except KafkaException as error:
            raise self._classified(error) from error

    def send_marker(self) -> None:
        """Write the marker; it fails when any record did, and when another producer took the id."""
        try:
            self._send_marker()
        except KafkaException as error:
            raise self._classified(error) from error

    def _send_marker(self) -> None:
        if self._marker is None:
            raise ResourceManagerError(f"{self._id}: no transaction was begun")
        topic, group, marker = self._marker
        offset = TopicPartition(topic, 0, marker.batch, marker.metadata())
        metadata = _metadata_of(self._connection, group)
        self.sender.producer.send_offsets_to_transaction([offset], metadata, CALL_LIMIT_S)

    def undo(self) -> str:
        """Abort by the client's own means; return why that failed, or an empty text."""
        try:
            self.sender.producer.purge()
            self.sender.producer.abort_transaction(ABORT_LIMIT_S)
        except KafkaException as error:
            return str(error.args[0].str())
        return ""

    def close(self) -> None:
        """Free the client; safe to call twice."""
        self.sender.close()

    def _cause(self) -> KafkaException:
        """Return why librdkafka gave the transaction up: only a call about the whole transaction tells it."""
        try:
            self._send_marker()
        except KafkaException as error:
            return error
        return KafkaException(KafkaError(KafkaError._STATE))

    def _classified(self, error: KafkaException) -> ResourceManagerError:
        cause: KafkaError = error.args[0]
        topic = self.sender.topic
        if cause.code() in FENCED:
            return Fenced(f"{self._id}: a newer producer took this transactional id ({cause.str()})")
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return RecordTooLarge(
                f"{self._id}: topic {topic!r} refused a record: {cause.str()}; raise its max.message.bytes"
            )
        if cause.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return MissingTopic(f"{self._id}: topic {topic!r} does not exist: create it, or name another sink")
        return ResourceManagerError(f"{self._id}: not every record was delivered to {topic!r}: {cause.str()}")

    def _not_begun(self, cause: KafkaError) -> ResourceManagerError:
        if cause.code() in FENCED:
            return Fenced(f"{self._id}: a newer producer took this transactional id ({cause.str()})")
        if cause.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return ResourceManagerError(
                f"{self._id}: transaction_timeout_ms is {self._timeout_ms}, above the broker's {MAX_TIMEOUT_SETTING}: "
                "lower it"
            )
        if cause.retriable() or cause.code() in (
            KafkaError._TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
        ):
            return Unreachable(f"{self._id} could not be taken in {CALL_LIMIT_S:.0f} s: {cause.str()}")
        return ResourceManagerError(f"{self._id} could not be taken: {cause.str()}")


def _metadata_of(connection: KafkaConnection, group: str) -> Any:
    # A consumer that never subscribes will do; only its group's name is wanted, so it is kept for the next batch.
    key = (os.getpid(), connection.bootstrap_servers, group)
    if key not in _group_metadata:
        consumer = Consumer(connection.for_librdkafka(**{"group.id": group, "log_level": 3}), logger=log)
        _group_metadata[key] = consumer.consumer_group_metadata()
        consumer.close()
    return _group_metadata[key]
