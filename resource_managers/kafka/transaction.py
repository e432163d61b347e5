"""One open Kafka transaction, written by one task: produce, flush, marker, handle."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lifecycle.clock import now_ms
from lifecycle.errors import Fenced, MissingTopic, RecordTooLarge, ResourceManagerError
from lifecycle.identity import Fingerprint, Handle, TransactionalId, marker_group
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.kafka.librdkafka_sender import CALL_LIMIT_S, LibrdkafkaSender, TransactionFailed
from resource_managers.kafka.missing_markers import Ended, MissingMarkers
from resource_managers.kafka.wire import wire
from resource_managers.protocol import SlotAttempt, nothing

log = logging.getLogger(__name__)

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_group_metadata: dict[tuple[int, str, str], Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Producer id and epoch that the coordinator gave to a transactional id.

    ``is_certain``: they are this writer's own; else another producer may have taken the id before the coordinator was asked.
    """

    producer_id: int
    producer_epoch: int
    is_certain: bool = False


class KafkaOpenTransaction:
    """The transaction of one slot's attempt; made by KafkaResourceManager.begin."""

    def __init__(
        self,
        connection: KafkaConnection,
        sender: LibrdkafkaSender,
        slot: SlotAttempt,
        identity: ProducerIdentity,
        missing: MissingMarkers,
        *,
        decisions_topic: str,
        timeout_ms: int,
    ) -> None:
        self._connection, self._sender, self._slot, self._identity = connection, sender, slot, identity
        self._missing, self._decisions_topic, self._timeout_ms = missing, decisions_topic, timeout_ms
        self._opened_at_ms: int | None = None
        self._ended = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows. Raises RecordTooLarge, Fenced, SettingsError, ResourceManagerError."""
        if rows.num_rows == 0:
            return
        self._opened_at_ms = self._opened_at_ms or now_ms()
        try:
            self._sender.write(rows)
        except (KafkaException, TransactionFailed) as error:
            raise self._classified(error if isinstance(error, KafkaException) else self._cause()) from error

    @property
    def provisional_handle(self) -> Handle:
        """Return the handle as it stands: not prepared yet, its fingerprint empty."""
        return self._handle("")

    def _handle(self, fingerprint: str) -> Handle:
        return Handle(
            resource_manager="kafka",
            transaction=str(self._id),
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            slot=self._slot.slot,
            rows=self._sender.rows,
            bytes=self._sender.bytes,
            fingerprint=fingerprint,
            opened_at_ms=self._opened_at_ms or now_ms(),
            prepared_at_ms=now_ms(),
            timeout_ms=self._timeout_ms,
        )

    @property
    def _id(self) -> TransactionalId:
        return TransactionalId.of(self._slot.prefix, self._slot.slot, self._slot.marker.batch)

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> Handle:
        """Flush, write the marker, return the handle, which carries ``fingerprint``.

        The marker call is the proof: it raises when any record failed, and when another producer took the id since
        ``begin`` asked the coordinator for producer id and epoch.
        """
        self._opened_at_ms = self._opened_at_ms or now_ms()
        try:
            self._sender.flush()
            flushed()
            self._send_marker()
        except KafkaException as error:
            raise self._classified(error) from error
        handle = self._handle(str(fingerprint))
        self._ended = True
        self._sender.close()
        return handle

    def _send_marker(self) -> None:
        marker = self._slot.marker
        offset = TopicPartition(self._decisions_topic, 0, marker.batch, marker.metadata())
        group = _metadata_of(self._connection, marker_group(self._slot.prefix, self._slot.slot))
        self._sender.producer.send_offsets_to_transaction([offset], group, CALL_LIMIT_S)

    def abort(self) -> None:
        """Undo it and free the client; safe to call twice. What cannot be undone now, recovery or the timeout undoes."""
        if self._ended:
            return
        self._ended = True
        reason = ""
        try:
            self._sender.producer.purge()
            self._sender.producer.abort_transaction(10.0)
        except KafkaException as error:
            reason = error.args[0].str()
        self._sender.close()
        if not self._identity.is_certain:
            # It may be a successor's, which may have prepared what is to be committed.
            if reason:
                log.warning("%s was not aborted by its task: %s", self._id, reason)
            return
        # librdkafka sends no EndTxn while the broker's answer to the first AddPartitionsToTxn is on its way: that
        # transaction would stay open until its timeout.
        item = (str(self._id), self._identity.producer_id, self._identity.producer_epoch)
        (answer,) = wire(self._connection).end_transactions([item], commit=False)
        if reason and not answer.is_done:
            log.warning("%s was not aborted by its task: %s; %s", self._id, reason, answer)
        self._missing.write([Ended(transaction=item[0], producer_id=item[1], epoch=item[2], commit=False)])

    def _cause(self) -> KafkaException:
        """Return why librdkafka gave the transaction up: only a call about the whole transaction tells it."""
        try:
            self._send_marker()
        except KafkaException as error:
            return error
        return KafkaException(KafkaError(KafkaError._STATE))

    def _classified(self, error: KafkaException) -> ResourceManagerError:
        cause: KafkaError = error.args[0]
        if cause.code() in FENCED:
            return Fenced(f"{self._id}: a newer producer took this transactional id ({cause.str()})")
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return RecordTooLarge(
                f"{self._id}: topic {self._sender.topic!r} refused a record: {cause.str()}; raise its max.message.bytes"
            )
        if cause.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return MissingTopic(
                f"{self._id}: topic {self._sender.topic!r} does not exist: create it, or name another sink"
            )
        return ResourceManagerError(
            f"{self._id}: not every record was delivered to {self._sender.topic!r}: {cause.str()}"
        )


def _metadata_of(connection: KafkaConnection, group: str) -> Any:
    # A consumer that never subscribes will do; only its group's name is wanted, so it is kept for the next batch.
    key = (os.getpid(), connection.bootstrap_servers, group)
    if key not in _group_metadata:
        consumer = Consumer(connection.for_librdkafka(**{"group.id": group, "log_level": 3}), logger=log)
        _group_metadata[key] = consumer.consumer_group_metadata()
        consumer.close()
    return _group_metadata[key]
