"""One task's Kafka transaction: its slot's id is taken, rows are written and flushed, the marker comes last.

Taking the id fences earlier writers of the slot, and proves that we were not superseded and that nothing older is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.errors import Unreachable, ZombieWriter
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker, TransactionalId, marker_group
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from indoubt.resource_managers.kafka.descriptions import ONGOING, OPEN_STATES, word
from indoubt.resource_managers.kafka.markers import KafkaMarkers
from indoubt.resource_managers.kafka.missing_markers import Ended, MissingMarkers
from indoubt.resource_managers.kafka.producer_requests import ProducerRequests
from indoubt.resource_managers.kafka.record_batch import Producer
from indoubt.resource_managers.kafka.row_sender import RowSender, find_leaders
from indoubt.resource_managers.kafka.sink_input import ProducerProperties
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.protocol import SlotAttempt, nothing

ABORT_LIMIT_S = 10.0
PAUSE_S = 0.01


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


class KafkaSlot:
    """One task's way to its transaction."""

    def __init__(
        self, connection: KafkaConnection, slot: SlotAttempt, *, topic: str, decisions_topic: str, timeout_ms: int
    ) -> None:
        self._connection, self._slot, self._topic = connection, slot, topic
        self._decisions_topic = decisions_topic
        self._id = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch))
        self._other_id = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch + 1))
        self._requests = ProducerRequests(connection=connection, transactional_id=self._id, timeout_ms=timeout_ms)
        self._missing = MissingMarkers(connection, topic, decisions_topic)
        self._markers = KafkaMarkers(connection, decisions_topic)

    def begin(self, properties: ProducerProperties) -> KafkaOpenTransaction:
        """Return the open transaction; nothing is sent yet. Raises as KafkaResourceManager.begin."""
        self._end_what_is_open()
        leaders = find_leaders(self._connection, self._topic)
        producer = self._requests.take_id()
        self._require_may_write(self._markers.before_writing(self._slot))
        # Both ids, after the one is ours and before the first row: see missing_markers.py.
        self._missing.require_nothing_left_open([self._id, self._other_id], leaders)
        sender = RowSender(self._requests, self._topic, producer, leaders, properties)
        return KafkaOpenTransaction(self._requests, sender, self._slot, producer, self._missing, self._decisions_topic)

    def _require_may_write(self, found: Marker | None) -> None:
        slot = self._slot
        if found is not None and found.covers(slot.marker):
            raise ZombieWriter(
                f"slot {slot.slot} of {slot.prefix!r} has committed batch {found.batch} of attempt {found.attempt} "
                f"already: this task (batch {slot.marker.batch}, attempt {slot.marker.attempt}) was superseded"
            )
        if found is not None and (found.checkpoint_id, found.batch) == (slot.marker.checkpoint_id, slot.marker.batch):
            slot.require_decided(found.attempt, "kafka")

    def _end_what_is_open(self) -> None:
        """Return once the id has no transaction; one that an earlier writer left is aborted.

        InitProducerId would abort it too, also a successor's. Raises ZombieWriter where it is a successor's for certain,
        DecisionMissing, Unreachable.
        """
        deadline = time.monotonic() + CALL_LIMIT_S
        aborted: Ended | None = None
        while True:
            described = wire(self._connection).describe_transactions([self._id])[self._id]
            if not isinstance(described, BrokerAnswer):
                if described.state not in OPEN_STATES:
                    break
                if described.state == ONGOING:
                    self._require_may_write(self._markers.latest(self._slot.prefix, self._slot.slot, CALL_LIMIT_S))
                    item = (self._id, *described.producer)
                    (answer,) = wire(self._connection).end_transactions([item], commit=False)
                    if answer.is_done:
                        aborted = Ended(transaction=item[0], producer_id=item[1], epoch=item[2], commit=False)
            elif described.is_refusal or described.kind is AnswerKind.UNKNOWN_ID:
                break
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"{self._id}: its coordinator did not settle it in {CALL_LIMIT_S:.0f} s: {word(described)}"
                )
            time.sleep(PAUSE_S)
        if aborted is not None:
            self._missing.write([aborted])
