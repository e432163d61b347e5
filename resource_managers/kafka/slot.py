"""Taking the id of a slot: fence its earlier writers, know for certain who we are, and prove that nothing older is open."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from lifecycle.errors import Unreachable, ZombieWriter
from lifecycle.identity import Marker, TransactionalId, marker_group
from resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from resource_managers.kafka.descriptions import ONGOING, OPEN_STATES, Described, word
from resource_managers.kafka.markers import KafkaMarkers
from resource_managers.kafka.missing_markers import Ended, MissingMarkers
from resource_managers.kafka.transaction import KafkaOpenTransaction, ProducerIdentity, TransactionSender
from resource_managers.kafka.wire import wire
from resource_managers.protocol import SlotAttempt

PAUSE_S = 0.01


class KafkaSlot:
    """One task's way to its transaction. ``identity``: asks the coordinator who has an id."""

    def __init__(
        self,
        connection: KafkaConnection,
        slot: SlotAttempt,
        *,
        topic: str,
        decisions_topic: str,
        timeout_ms: int,
        identity: Callable[[str], ProducerIdentity],
    ) -> None:
        self._connection, self._slot, self._topic = connection, slot, topic
        self._decisions_topic, self._timeout_ms, self._identity = decisions_topic, timeout_ms, identity
        self.transactional_id = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch))
        self._other_id = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch + 1))
        self._missing = MissingMarkers(connection, topic, decisions_topic)
        self._markers = KafkaMarkers(connection, decisions_topic)

    def begin(self, sender: TransactionSender) -> KafkaOpenTransaction:
        """Return the open transaction, which closes ``sender`` at its end. Raises as KafkaResourceManager.begin."""
        slot = self._slot
        try:
            # A client with threads of its own connects meanwhile.
            before = self._described_between_transactions()
            own = sender.take_id()
            self._require_may_write(self._markers.before_writing(slot, CALL_LIMIT_S))
            if own is None:
                asked = self._identity(self.transactional_id)
                own = replace(asked, is_certain=is_next(before, asked))
            # Both ids, after the one is ours and before the first row: see missing_markers.py.
            self._missing.require_nothing_left_open(
                [self.transactional_id, self._other_id], sender.leaders, CALL_LIMIT_S
            )
            sender.begin(self._decisions_topic, marker_group(slot.prefix, slot.slot), slot.marker)
        except BaseException:
            sender.close()
            raise
        return KafkaOpenTransaction(self._connection, sender, slot, own, self._missing, timeout_ms=self._timeout_ms)

    def _require_may_write(self, found: Marker | None) -> None:
        slot = self._slot
        if found is not None and found.covers(slot.marker):
            raise ZombieWriter(
                f"slot {slot.slot} of {slot.prefix!r} has committed batch {found.batch} of attempt {found.attempt} "
                f"already: this task (batch {slot.marker.batch}, attempt {slot.marker.attempt}) was superseded"
            )
        if found is not None and (found.checkpoint_id, found.batch) == (slot.marker.checkpoint_id, slot.marker.batch):
            slot.require_decided(found.attempt, "kafka")

    def _described_between_transactions(self) -> Described:
        """Return what the coordinator says of the id while it has no transaction; one that an earlier writer left is aborted.

        init_transactions would abort it too, and hide by that which epoch is ours. Raises ZombieWriter where it is a
        successor's for certain, DecisionMissing, Unreachable.
        """
        deadline = time.monotonic() + CALL_LIMIT_S
        aborted: Ended | None = None
        while True:
            described = wire(self._connection).describe_transactions([self.transactional_id])[self.transactional_id]
            if not isinstance(described, BrokerAnswer):
                if described.state not in OPEN_STATES:
                    break
                if described.state == ONGOING:
                    self._require_may_write(self._markers.latest(self._slot.prefix, self._slot.slot, CALL_LIMIT_S))
                    item = (self.transactional_id, *described.producer)
                    (answer,) = wire(self._connection).end_transactions([item], commit=False)
                    if answer.is_done:
                        aborted = Ended(transaction=item[0], producer_id=item[1], epoch=item[2], commit=False)
            elif described.is_refusal or described.kind is AnswerKind.UNKNOWN_ID:
                break
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"{self.transactional_id}: its coordinator did not settle it in {CALL_LIMIT_S:.0f} s: {word(described)}"
                )
            time.sleep(PAUSE_S)
        if aborted is not None:
            self._missing.write([aborted])
        return described


def is_next(before: Described, identity: ProducerIdentity) -> bool:
    """Say whether an id was taken exactly once since the coordinator said ``before``: then it was taken by us.

    Each take moves the epoch on by one, or begins a new producer id at 0.
    """
    if isinstance(before, BrokerAnswer):
        return before.kind is AnswerKind.UNKNOWN_ID and identity.producer_epoch == 0
    if before.producer_id == identity.producer_id:
        return before.producer_epoch + 1 == identity.producer_epoch
    return identity.producer_epoch == 0
