"""One open Kafka transaction, written by one task: write, flush, marker, handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lifecycle.clock import now_ms
from lifecycle.identity import Fingerprint, Handle, Marker, TransactionalId
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.kafka.missing_markers import Ended, MissingMarkers
from resource_managers.kafka.wire import wire
from resource_managers.protocol import SlotAttempt, nothing

log = logging.getLogger(__name__)

MAX_TIMEOUT_SETTING = "transaction.max.timeout.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Producer id and epoch that the coordinator gave to a transactional id.

    ``is_certain``: they are this writer's own; else another producer may have taken the id before the coordinator was asked.
    """

    producer_id: int
    producer_epoch: int
    is_certain: bool = False


class TransactionSender(Protocol):
    """What sends a transaction's rows to the brokers. All but ``undo`` raise ResourceManagerError."""

    @property
    def rows(self) -> int:
        """Return the rows written so far."""

    @property
    def bytes(self) -> int:
        """Return the bytes of keys and values written so far."""

    @property
    def leaders(self) -> Mapping[int, int]:
        """Return the broker that leads each partition, as ``take_id`` found it; below 0: none did."""

    def take_id(self) -> ProducerIdentity | None:
        """Take the transactional id, shutting out its earlier writers; return as whom, None where the client does not tell.

        Raises MissingTopic, Fenced, Unreachable.
        """

    def begin(self, decisions_topic: str, group: str, marker: Marker) -> None:
        """Begin; the marker is an offset of partition 0 of this topic, committed by this consumer group."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows, or queue them. Raises RecordTooLarge, Fenced, Unreachable, SettingsError."""

    def flush(self) -> None:
        """Wait until nothing is queued. Raises Unreachable after the limit."""

    def send_marker(self) -> None:
        """Write the marker. It fails when any record was not delivered, and when another producer took the id: Fenced."""

    def undo(self) -> str:
        """Drop what is queued and abort by the client's own means; return why that failed, or an empty text."""

    def close(self) -> None:
        """Free the client; nothing is committed or aborted by this. Safe to call twice."""


class KafkaOpenTransaction:
    """The transaction of one slot's attempt; made by KafkaResourceManager.begin."""

    def __init__(
        self,
        connection: KafkaConnection,
        sender: TransactionSender,
        slot: SlotAttempt,
        identity: ProducerIdentity,
        missing: MissingMarkers,
        *,
        timeout_ms: int,
    ) -> None:
        self._connection, self._sender, self._slot, self._identity = connection, sender, slot, identity
        self._missing, self._timeout_ms = missing, timeout_ms
        self._opened_at_ms: int | None = None
        self._ended = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows. Raises RecordTooLarge, Fenced, SettingsError, ResourceManagerError."""
        if rows.num_rows == 0:
            return
        self._opened_at_ms = self._opened_at_ms or now_ms()
        self._sender.write(rows)

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
        self._sender.flush()
        flushed()
        self._sender.send_marker()
        handle = self._handle(str(fingerprint))
        self._ended = True
        self._sender.close()
        return handle

    def abort(self) -> None:
        """Undo it and free the client; safe to call twice. What cannot be undone now, recovery or the timeout undoes."""
        if self._ended:
            return
        self._ended = True
        reason = self._sender.undo()
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
