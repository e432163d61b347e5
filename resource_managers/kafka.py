"""Kafka as a resource manager: begin on executors; check, commit, roll back and recover by handle from any process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka import errors as kafka_errors

from lifecycle.errors import Fenced, ResourceManagerError, Unreachable, ZombieWriter
from lifecycle.guarantees import DeliveryGuarantee
from lifecycle.identity import Handle, Marker, TransactionalId
from lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    RetryLater,
    RollbackOutcome,
    RolledBack,
)
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_markers import KafkaMarkers, judge
from resource_managers.kafka_transaction import (
    CALL_LIMIT_S,
    PRODUCER_DEFAULTS,
    KafkaOpenTransaction,
    Outlet,
    PlainWriter,
    ProducerIdentity,
)
from resource_managers.kafka_wire import ErrorClass, wire
from resource_managers.protocol import OpenTransactionView, Readiness, SlotAttempt

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
RETRY_PAUSE_S = 0.02
RETRY_PAUSE_MAX_S = 0.5

TAKEN = (
    kafka_errors.ProducerFencedError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.InvalidProducerIdMappingError,
)
"""Another producer took the id since, or the id expired: look at the marker before judging."""

REFUSED = (kafka_errors.AuthorizationError, kafka_errors.UnsupportedVersionError)
"""No retry will change these."""


class KafkaResourceManager:
    """Holds what all transactions of one sink share. Thread-safe: it keeps no state but its settings."""

    name = "kafka"

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        topic: str = "",
        transaction_timeout_ms: int = 900_000,
        decisions_topic: str = "transaction_decisions",
        producer_properties: Mapping[str, str] | None = None,
    ) -> None:
        self._connection, self._topic = connection, topic
        self._timeout_ms, self._decisions_topic = transaction_timeout_ms, decisions_topic
        self._properties: dict[str, Any] = {**PRODUCER_DEFAULTS, **(producer_properties or {})}

    def begin(self, slot: SlotAttempt) -> KafkaOpenTransaction:
        """Take the slot's id, fencing every earlier writer of it, and prove that this attempt was not overtaken.

        Raises ZombieWriter when the slot's marker is at this (batch, attempt) or beyond, Fenced, Unreachable.
        """
        id_ = str(TransactionalId.of(slot.prefix, slot.slot, slot.marker.batch))
        properties = {**self._properties, "transactional.id": id_, "transaction.timeout.ms": self._timeout_ms}
        outlet = Outlet(self._connection, self._topic, properties, client_id=id_)
        try:
            outlet.producer.init_transactions(CALL_LIMIT_S)
            found = self._markers().stable(slot.prefix, slot.slot, CALL_LIMIT_S)
            if found is not None and found.covers(slot.marker):
                raise ZombieWriter(
                    f"slot {slot.slot} of {slot.prefix!r} has committed batch {found.batch} of attempt {found.attempt} "
                    f"already: this task (batch {slot.marker.batch}, attempt {slot.marker.attempt}) was overtaken"
                )
            identity = self._identity(id_)
            outlet.producer.begin_transaction()
        except KafkaException as error:
            outlet.close()
            cause = error.args[0]
            if cause.fatal():
                raise Fenced(f"{id_}: {cause.str()}") from error
            raise Unreachable(f"{id_} could not be taken: {cause.str()}") from error
        except BaseException:
            outlet.close()
            raise
        return KafkaOpenTransaction(
            self._connection,
            outlet,
            slot,
            identity,
            decisions_topic=self._decisions_topic,
            timeout_ms=self._timeout_ms,
        )

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> PlainWriter:
        """Return a writer for at_least_once or none."""
        return PlainWriter(self._connection, self._topic, self._properties, guarantee)

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether its transaction is still open at its epoch, and for how long."""
        rows = wire(self._connection).describe_transactions([handle.transaction for handle in handles])
        return [_readiness(handle, rows.get(handle.transaction)) for handle in handles]

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared transactions, pipelined; one outcome per handle, in order. ``markers``: the proofs inside them.

        Transient answers are retried until ``limit_s`` has passed, then reported as RetryLater.
        """
        proofs = dict(zip((handle.key for handle in handles), markers, strict=True))

        def settled(handle: Handle, answer: ErrorClass) -> CommitOutcome | None:
            if answer is kafka_errors.NoError:
                return Committed(handle=handle)
            if issubclass(answer, (*TAKEN, kafka_errors.InvalidTxnStateError)):
                return judge(self._connection, self._markers(), handle, proofs[handle.key], answer, limit_s)
            return None

        return self._end(handles, limit_s, commit=True, settled=settled)

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions, never a later one of the same id; one outcome per handle, in order."""

        def settled(handle: Handle, answer: ErrorClass) -> RollbackOutcome | None:
            if answer is kafka_errors.NoError or issubclass(answer, TAKEN):
                return RolledBack(handle=handle)
            if issubclass(answer, kafka_errors.InvalidTxnStateError):
                return AlreadyCommitted(handle=handle)
            return None

        return self._end(handles, limit_s, commit=False, settled=settled)

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return the transactions that this prefix has open (not those being completed), ids parsed whole."""
        return [
            view
            for view in self.list_transactions()
            if view.state == "Ongoing"
            and (parsed := TransactionalId.parse(view.transaction))
            and parsed.prefix == prefix
        ]

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open transactions and shut out their writers; return an error text per transaction, empty = done.

        InitProducerId with the expected producer id and epoch: a newer transaction of the same id is never hit.
        """
        deadline = time.monotonic() + limit_s
        left = dict(enumerate(transactions))
        errors = [""] * len(transactions)
        pause_s = RETRY_PAUSE_S
        connection = wire(self._connection)
        while left:
            # Producer id 0 is one like any other; -1, -1 would take the id from whoever has it.
            items = [
                (v.transaction, -1, -1)
                if v.producer_id is None or v.producer_epoch is None
                else (v.transaction, v.producer_id, v.producer_epoch)
                for v in left.values()
            ]
            answers = connection.init_producer_ids(items, self._timeout_ms)
            rows = connection.describe_transactions([view.transaction for view in left.values()])
            for (index, view), answer in zip(list(left.items()), answers, strict=True):
                errors[index] = f"{view.transaction}: {answer.__name__}"
                if not _is_open(view, rows.get(view.transaction)):
                    errors[index] = ""
                    del left[index]
                elif issubclass(answer, REFUSED):
                    del left[index]
            if left:
                if time.monotonic() > deadline:
                    break
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_PAUSE_MAX_S)
        return errors

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every transaction on the cluster that is open or being completed, ours and foreign."""
        connection = wire(self._connection)
        try:
            listed = connection.list_transactions(OPEN_STATES)
        except kafka_errors.KafkaError as error:
            raise Unreachable(f"transactions could not be listed: {error}") from error
        return self.describe([row.transactional_id for row in listed])

    def describe(self, ids: Sequence[str]) -> list[OpenTransactionView]:
        """Return how these transactional ids stand at their coordinators, ended ones too; ids that nobody knows are left out."""
        rows = wire(self._connection).describe_transactions(ids) if ids else {}
        return [_view(id_, row) for id_, row in rows.items() if not isinstance(row, type)]

    def read_markers(
        self, prefix: str, slots: Sequence[int], limit_s: float = CALL_LIMIT_S
    ) -> dict[int, Marker | None]:
        """Return the stable marker of each slot, None where there is none. Takes both ids of a slot that stays unstable."""
        return {slot: self._markers().stable(prefix, slot, limit_s) for slot in slots}

    def abort_on_partition(
        self, topic: str, partition: int, producer_id: int, epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an abort marker to one partition: for a hanging transaction only, which no coordinator knows."""
        try:
            wire(self._connection).write_abort_marker((topic, partition), producer_id, epoch, coordinator_epoch)
        except kafka_errors.KafkaError as error:
            raise ResourceManagerError(f"{topic}-{partition}: no abort marker was written: {error}") from error

    def broker_max_transaction_timeout_ms(self) -> int | None:
        """Return the broker's transaction.max.timeout.ms, or None where it may not be read."""
        admin = AdminClient(self._connection.for_librdkafka())
        try:
            brokers = admin.list_topics(timeout=CALL_LIMIT_S).brokers
            resource = ConfigResource(ResourceType.BROKER, str(next(iter(brokers))))
            settings = admin.describe_configs([resource])[resource].result(CALL_LIMIT_S)
        except KafkaException:
            return None
        return int(settings["transaction.max.timeout.ms"].value)

    def _markers(self) -> KafkaMarkers:
        return KafkaMarkers(self._connection, self._decisions_topic, self._timeout_ms)

    def _identity(self, id_: str) -> ProducerIdentity:
        # Asked of the coordinator after init_transactions. Should another producer have taken the id in between, this
        # is that one's; but then our marker call fails, so a wrong handle is never handed out.
        row = wire(self._connection).describe_transactions([id_]).get(id_)
        if row is None or isinstance(row, type):
            raise ResourceManagerError(f"{id_}: its coordinator does not describe it: {getattr(row, '__name__', row)}")
        return ProducerIdentity(producer_id=row.producer_id, producer_epoch=row.producer_epoch)

    def _end(
        self,
        handles: Sequence[Handle],
        limit_s: float,
        *,
        commit: bool,
        settled: Callable[[Handle, ErrorClass], Any],
    ) -> list[Any]:
        deadline = time.monotonic() + limit_s
        outcomes: dict[int, Any] = {}
        left = dict(enumerate(handles))
        pause_s = RETRY_PAUSE_S
        while left:
            items = [(h.transaction, h.producer_id or 0, h.producer_epoch or 0) for h in left.values()]
            answers = wire(self._connection).end_transactions(items, commit=commit)
            for (index, handle), answer in zip(list(left.items()), answers, strict=True):
                outcome = settled(handle, answer)
                if outcome is None and (issubclass(answer, REFUSED) or time.monotonic() > deadline):
                    outcome = RetryLater(handle=handle, reason=answer.__name__)
                if outcome is not None:
                    outcomes[index] = outcome
                    del left[index]
            if left:
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_PAUSE_MAX_S)
        return [outcomes[index] for index in range(len(handles))]


def _readiness(handle: Handle, row: Any) -> Readiness:
    reason = ""
    if row is None or isinstance(row, type):
        reason = f"its coordinator does not describe it: {getattr(row, '__name__', 'no answer')}"
    elif (row.producer_id, row.producer_epoch) != (handle.producer_id, handle.producer_epoch):
        reason = f"another producer took the id (epoch {row.producer_epoch}, ours was {handle.producer_epoch})"
    elif row.transaction_state != "Ongoing":
        reason = f"it is {row.transaction_state}, not Ongoing"
    if reason:
        return Readiness(handle=handle, ready=False, time_left_ms=0, reason=reason)
    ends_ms = row.transaction_start_time_ms + row.transaction_timeout_ms
    return Readiness(handle=handle, ready=True, time_left_ms=max(0, ends_ms - time.time_ns() // 1_000_000))


def _is_open(view: OpenTransactionView, row: Any) -> bool:
    if row is None or isinstance(row, type):
        return not (isinstance(row, type) and issubclass(row, kafka_errors.TransactionalIdNotFoundError))
    if row.transaction_state not in OPEN_STATES or row.producer_id != view.producer_id:
        return False
    # Same start: still this transaction, whatever the epoch that completing it has now.
    return bool(row.transaction_start_time_ms == view.started_at_ms)


def _view(id_: str, row: Any) -> OpenTransactionView:
    return OpenTransactionView(
        resource_manager="kafka",
        transaction=id_,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        state=row.transaction_state,
        started_at_ms=row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        timeout_ms=row.transaction_timeout_ms,
        partitions=tuple((topic.topic, partition) for topic in row.topics for partition in topic.partitions),
    )
