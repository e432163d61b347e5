"""Taking the id of a slot: fence its earlier writers, and prove that we were not superseded and that nothing older is open."""

from __future__ import annotations

import time

from lifecycle.errors import Unreachable, ZombieWriter
from lifecycle.identity import Marker, TransactionalId
from resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from resource_managers.kafka.descriptions import ONGOING, OPEN_STATES, word
from resource_managers.kafka.markers import KafkaMarkers
from resource_managers.kafka.missing_markers import Ended, MissingMarkers
from resource_managers.kafka.producer_requests import ProducerRequests
from resource_managers.kafka.row_sender import RowSender, find_leaders
from resource_managers.kafka.sink_input import ProducerProperties
from resource_managers.kafka.transaction import KafkaOpenTransaction
from resource_managers.kafka.wire import wire
from resource_managers.protocol import SlotAttempt

PAUSE_S = 0.01


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
        self._require_may_write(self._markers.before_writing(self._slot, CALL_LIMIT_S))
        # Both ids, after the one is ours and before the first row: see missing_markers.py.
        self._missing.require_nothing_left_open([self._id, self._other_id], leaders, CALL_LIMIT_S)
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
