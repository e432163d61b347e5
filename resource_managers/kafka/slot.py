"""Taking the id of a slot: fence its earlier writers, know for certain who we are, and prove that nothing older is open."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from lifecycle.errors import Fenced, ResourceManagerError, Unreachable, ZombieWriter
from lifecycle.identity import Marker, TransactionalId
from resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.kafka.descriptions import ONGOING, OPEN_STATES, Described, word
from resource_managers.kafka.librdkafka_sender import CALL_LIMIT_S, LibrdkafkaSender
from resource_managers.kafka.markers import KafkaMarkers
from resource_managers.kafka.missing_markers import Ended, MissingMarkers
from resource_managers.kafka.transaction import FENCED, KafkaOpenTransaction, ProducerIdentity
from resource_managers.kafka.wire import wire
from resource_managers.protocol import SlotAttempt

MAX_TIMEOUT_SETTING = "transaction.max.timeout.ms"
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
        self._id = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch))
        self._other_id = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch + 1))
        self._missing = MissingMarkers(connection, topic, decisions_topic)
        self._markers = KafkaMarkers(connection, decisions_topic)

    def begin(self, properties: Mapping[str, Any]) -> KafkaOpenTransaction:
        """Return the open transaction. Raises as KafkaResourceManager.begin."""
        own = {"transactional.id": self._id, "transaction.timeout.ms": self._timeout_ms}
        sender = LibrdkafkaSender(self._connection, self._topic, {**properties, **own}, client_id=self._id)
        try:
            # It connects meanwhile, on threads of its own.
            before = self._described_between_transactions()
            sender.connect()
            sender.producer.init_transactions(CALL_LIMIT_S)
            self._require_may_write(self._markers.before_writing(self._slot, CALL_LIMIT_S))
            identity = self._identity(self._id)
            # Both ids, after the one is ours and before the first row: see missing_markers.py.
            self._missing.require_nothing_left_open([self._id, self._other_id], sender.leaders, CALL_LIMIT_S)
            sender.producer.begin_transaction()
        except KafkaException as error:
            sender.close()
            raise self._not_begun(error.args[0]) from error
        except BaseException:
            sender.close()
            raise
        return KafkaOpenTransaction(
            self._connection,
            sender,
            self._slot,
            replace(identity, is_certain=is_next(before, identity)),
            self._missing,
            decisions_topic=self._decisions_topic,
            timeout_ms=self._timeout_ms,
        )

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
        return described

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


def is_next(before: Described, identity: ProducerIdentity) -> bool:
    """Say whether an id was taken exactly once since the coordinator said ``before``: then it was taken by us.

    Each take moves the epoch on by one, or begins a new producer id at 0.
    """
    if isinstance(before, BrokerAnswer):
        return before.kind is AnswerKind.UNKNOWN_ID and identity.producer_epoch == 0
    if before.producer_id == identity.producer_id:
        return before.producer_epoch + 1 == identity.producer_epoch
    return identity.producer_epoch == 0
