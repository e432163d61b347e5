"""One open Kafka transaction, written by one task: write, flush, marker, handle."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lifecycle.clock import now_ms
from lifecycle.identity import Fingerprint, Handle, marker_group
from resource_managers.kafka.missing_markers import Ended, MissingMarkers
from resource_managers.kafka.producer_requests import ProducerRequests
from resource_managers.kafka.record_batch import Producer
from resource_managers.kafka.row_sender import RowSender
from resource_managers.kafka.wire import wire
from resource_managers.protocol import SlotAttempt, nothing

ABORT_LIMIT_S = 10.0


class KafkaOpenTransaction:
    """The transaction of one slot's attempt, whose id ``producer`` has taken; made by KafkaSlot.begin."""

    def __init__(
        self,
        requests: ProducerRequests,
        sender: RowSender,
        slot: SlotAttempt,
        producer: Producer,
        missing: MissingMarkers,
        decisions_topic: str,
    ) -> None:
        self._requests, self._sender, self._slot, self._producer = requests, sender, slot, producer
        self._missing, self._decisions_topic = missing, decisions_topic
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
            transaction=self._requests.transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            slot=self._slot.slot,
            rows=self._sender.rows,
            bytes=self._sender.bytes,
            fingerprint=fingerprint,
            opened_at_ms=self._opened_at_ms or now_ms(),
            prepared_at_ms=now_ms(),
            timeout_ms=self._requests.timeout_ms,
        )

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> Handle:
        """Flush, write the marker, return the handle, which carries ``fingerprint``.

        It raises when any record failed, and when another producer took the id: the coordinator refuses the marker then.
        """
        self._opened_at_ms = self._opened_at_ms or now_ms()
        self._sender.flush()
        flushed()
        group = marker_group(self._slot.prefix, self._slot.slot)
        self._requests.write_marker(self._producer, self._decisions_topic, group, self._slot.marker)
        self._ended = True
        return self._handle(str(fingerprint))

    def abort(self) -> None:
        """Undo it; safe to call twice. What cannot be undone now, recovery or the timeout undoes."""
        if self._ended:
            return
        self._ended = True
        self._sender.drop(ABORT_LIMIT_S)
        item = (self._requests.transactional_id, self._producer.producer_id, self._producer.producer_epoch)
        wire(self._requests.connection).end_transactions([item], commit=False)
        self._missing.write([Ended(transaction=item[0], producer_id=item[1], epoch=item[2], commit=False)])
