"""Kafka as a resource manager: begin on executors; check, commit, roll back and recover by handle from any process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indoubt.lifecycle.errors import MissingTopic, SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Handle, Marker, TransactionalId
from indoubt.lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    RetryLater,
    RollbackOutcome,
    RolledBack,
)
from indoubt.lifecycle.resource_manager_kinds import KAFKA
from indoubt.resource_managers.kafka.answers import NO_LEADER, AnswerKind, BrokerAnswer, MarkerNotWritten
from indoubt.resource_managers.kafka.connection import MAX_TIMEOUT_SETTING, KafkaConnection
from indoubt.resource_managers.kafka.descriptions import (
    OPEN_STATES,
    Described,
    is_open,
    is_transient,
    readiness,
    why_not_aborted,
    why_not_committed,
)
from indoubt.resource_managers.kafka.end_rounds import RETRY, in_rounds, producer_of
from indoubt.resource_managers.kafka.markers import KafkaMarkers, judge
from indoubt.resource_managers.kafka.missing_markers import LEFT_OPEN, Ended, MissingMarkers, ends_of
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Partition
from indoubt.resource_managers.kafka.sink_input import ProducerProperties, check_columns
from indoubt.resource_managers.kafka.wire import KafkaWire, wire
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness, SlotAttempt

if TYPE_CHECKING:
    from indoubt.resource_managers.kafka.row_sender import KafkaPlainWriter
    from indoubt.resource_managers.kafka.transaction import KafkaOpenTransaction

CHECK_LIMIT_S = 10.0


class KafkaResourceManager:
    """Holds what all transactions of one sink share. Thread-safe: it keeps no state but its settings."""

    name = KAFKA.name

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
        self._properties = ProducerProperties.read(producer_properties or {})

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return those of these columns that go to the topic: ``value`` and, where they are, ``key`` and ``headers``.

        Raises SettingsError for a missing topic, wrong columns, a timeout above the broker's maximum, or when it may not be
        told whether an earlier transaction is left open; Unreachable.
        """
        taken = check_columns(columns)
        try:
            self._connection.require_topics([self._topic])
        except MissingTopic as error:
            raise SettingsError(str(error)) from None
        maximum_ms = self.broker_max_transaction_timeout_ms()
        if maximum_ms is not None and self._timeout_ms > maximum_ms:
            raise SettingsError(
                f"transaction_timeout_ms is {self._timeout_ms}, above the broker's {MAX_TIMEOUT_SETTING} ({maximum_ms}): "
                "the broker would refuse every transaction"
            )
        if refusal := self._missing().refusal():
            raise SettingsError(
                f"who has transactions open on topic {self._topic!r} may not be asked ({refusal}): give its user Read on it"
            )
        return taken

    def identity(self) -> str:
        """Return the topic's id, empty where the broker has none (before 2.8). Raises Unreachable, ResourceManagerError."""
        return self._connection.topic_ids([self._topic])[self._topic]

    def begin(self, slot: SlotAttempt) -> KafkaOpenTransaction:
        """Take the slot's id, fencing every earlier writer of it, and prove that this attempt was not superseded.

        Raises ZombieWriter when the slot's marker is at this (batch, attempt) or beyond, DecisionMissing when it is at this
        batch and the log does not say so, Fenced, Unreachable, and ResourceManagerError when an older transaction of the slot
        is left open on a partition.
        """
        # Here, because the collector makes no batches and does without the checksum's package.
        from indoubt.resource_managers.kafka.transaction import KafkaSlot

        taking = KafkaSlot(
            self._connection,
            slot,
            topic=self._topic,
            decisions_topic=self._decisions_topic,
            timeout_ms=self._timeout_ms,
        )
        return taking.begin(self._properties)

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> KafkaPlainWriter:
        """Return a writer for at_least_once or none. Raises MissingTopic, Unreachable, ResourceManagerError."""
        from indoubt.resource_managers.kafka.row_sender import KafkaPlainWriter

        return KafkaPlainWriter(self._connection, self._topic, self._properties, guarantee)

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether its transaction is still open at its epoch, and for how long."""
        ids = [handle.transaction for handle in handles]
        deadline = time.monotonic() + CHECK_LIMIT_S
        rows = wire(self._connection).describe_transactions(ids) if ids else {}
        while any(is_transient(row) for row in rows.values()) and time.monotonic() < deadline:
            time.sleep(RETRY.first_s)
            rows |= wire(self._connection).describe_transactions([id_ for id_ in rows if is_transient(rows[id_])])
        return [readiness(handle, rows[handle.transaction]) for handle in handles]

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared transactions, pipelined; one outcome per handle, in order. ``markers``: the proofs inside them.

        Transient answers are retried until ``limit_s`` has passed, then reported as RetryLater. End markers that a
        coordinator has passed by are written.
        """
        proofs = dict(zip((handle.key for handle in handles), markers, strict=True))
        proven: list[Ended] = []

        def settled(handle: Handle, answer: BrokerAnswer) -> CommitOutcome | None:
            if answer.is_done:
                proven.extend(ends_of([handle], commit=True))
                return Committed(handle=handle)
            if answer.kind not in (AnswerKind.FENCED, AnswerKind.WRONG_STATE):
                return None
            judged = judge(self._connection, self._markers(), handle, proofs[handle.key], answer, limit_s)
            if judged.commit is not None:
                proven.extend(ends_of([handle], commit=judged.commit))
            return judged.outcome

        outcomes = self._end(handles, limit_s, commit=True, settled=settled)
        self._missing().write(proven)
        return outcomes

    def complete(self, handles: Sequence[Handle]) -> None:
        """Write end markers that coordinators have passed by, of transactions that are known to be committed."""
        self._missing().write(ends_of(handles, commit=True))

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions, never a later one of the same id; one outcome per handle, in order."""

        def settled(handle: Handle, answer: BrokerAnswer) -> RollbackOutcome | None:
            if answer.kind in (AnswerKind.DONE, AnswerKind.FENCED):
                return RolledBack(handle=handle)
            if answer.kind is AnswerKind.WRONG_STATE:
                return AlreadyCommitted(handle=handle)
            return None

        outcomes = self._end(handles, limit_s, commit=False, settled=settled)
        self._missing().write(ends_of([o.handle for o in outcomes if isinstance(o, RolledBack)], commit=False))
        return outcomes

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return the transactions that this prefix has open (not those being completed), ids parsed whole.

        With those that are over for their coordinator and left open on a partition (``LeftOpen``).
        """
        ids = [
            id_ for id_ in self._partitions().listed_ids(()) if (p := TransactionalId.parse(id_)) and p.prefix == prefix
        ]
        ongoing = [view for view in self.describe(ids) if view.state == "Ongoing"]
        return ongoing + self._missing().views(ids)

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open transactions of ours and shut out their writers; return an error text per transaction, empty = done.

        What they leave open on partitions is ended there. None of them may be in a commit decision that counts.
        """
        left = [view for view in transactions if view.state == LEFT_OPEN]
        others = [view for view in transactions if view.state != LEFT_OPEN]
        errors = dict(zip((view.key for view in others), self._abort(others, limit_s, undecided=True), strict=True))
        aborted = [view for view in others if not errors[view.key]]
        reasons = self._missing().write(ends_of([*left, *aborted], commit=False))
        errors |= dict(zip((view.key for view in left), reasons, strict=False))
        return [errors[view.key] for view in transactions]

    def abort_open(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open transactions, ours or foreign, and shut out their writers; an error text per transaction, empty = done.

        EndTxn(abort) with that very producer id and epoch. InitProducerId, even with an expected epoch, would not do:
        while a transaction is open the broker compares the producer id only (seen on 4.3) and so aborts a newer one.
        """
        return self._abort(transactions, limit_s, undecided=False)

    def _abort(self, transactions: Sequence[OpenTransactionView], limit_s: float, *, undecided: bool) -> list[str]:
        aborted: set[str] = set()

        def judged(view: OpenTransactionView, answer: BrokerAnswer, described: Described) -> tuple[str, bool]:
            if answer.is_done:
                aborted.add(view.key)
            if is_open(view, described) and not answer.is_refusal:
                return f"{view.transaction}: {answer}, still open after {limit_s:.0f} s", False
            error = why_not_aborted(view, described, answer, aborted=view.key in aborted, undecided=undecided)
            if not error:
                self._move_epoch(view, described)
            return error, True

        return self._end_open(transactions, limit_s, commit=False, judged=judged)

    def commit_open(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit open transactions of anybody; return an error text per transaction, empty = it is committed.

        EndTxn(commit) with that very producer id and epoch. The caller has proof that its owner counts it as written.
        """

        def judged(view: OpenTransactionView, answer: BrokerAnswer, described: Described) -> tuple[str, bool]:
            error = "" if answer.is_done else why_not_committed(view, described, answer)
            return error, answer.is_done or answer.is_refusal or not is_open(view, described)

        return self._end_open(transactions, limit_s, commit=True, judged=judged)

    def _end_open(
        self,
        transactions: Sequence[OpenTransactionView],
        limit_s: float,
        *,
        commit: bool,
        judged: Callable[[OpenTransactionView, BrokerAnswer, Described], tuple[str, bool]],
    ) -> list[str]:
        """Send EndTxn until ``judged`` says of each that its error text is final; it is given the answer and what is open then."""

        def end(connection: KafkaWire, left: Sequence[OpenTransactionView]) -> list[tuple[str, bool]]:
            answers = connection.end_transactions([producer_of(view) for view in left], commit=commit)
            rows = connection.describe_transactions([view.transaction for view in left])
            return [judged(view, answer, rows[view.transaction]) for view, answer in zip(left, answers, strict=True)]

        return in_rounds(
            self._connection, transactions, limit_s, end, lambda view, reason: f"{view.transaction}: {reason}"
        )

    def _move_epoch(self, view: OpenTransactionView, described: Described) -> None:
        """Move the epoch on where ending the transaction did not (brokers with transaction.version below 2)."""
        if isinstance(described, BrokerAnswer):
            return
        if described.producer == (view.producer_id, view.producer_epoch):
            wire(self._connection).init_producer_ids([(view.transaction, *described.producer)], self._timeout_ms)

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every transaction on the cluster that is open or being completed, ours and foreign."""
        return self.describe(self._partitions().listed_ids(OPEN_STATES))

    def describe(self, ids: Sequence[str]) -> list[OpenTransactionView]:
        """Return how these transactional ids stand at their coordinators, ended ones too; unknown ids are left out."""
        rows = wire(self._connection).describe_transactions(ids) if ids else {}
        return [described.view() for described in rows.values() if not isinstance(described, BrokerAnswer)]

    def end_on_partition(
        self, partition: Partition, producer: tuple[int, int], coordinator_epoch: int, *, commit: bool
    ) -> None:
        """Write an end marker to one partition: for a hanging transaction only, which no coordinator will end.

        ``producer``: producer id and epoch. Raises MarkerNotWritten, Unreachable.
        """
        leader = self._partitions().layout([partition[0]]).leaders.get(partition)
        answer = NO_LEADER
        if leader is not None:
            answer = wire(self._connection).write_marker(leader, partition, producer, coordinator_epoch, commit=commit)
        if not answer.is_done:
            raise MarkerNotWritten(f"{partition[0]}-{partition[1]}: no end marker was written: {answer}", answer)

    def broker_max_transaction_timeout_ms(self) -> int | None:
        """Return the broker's transaction.max.timeout.ms, or None where it may not be read."""
        found = self._connection.broker_setting(MAX_TIMEOUT_SETTING)
        return int(found) if found is not None else None

    def _partitions(self) -> KafkaPartitions:
        return KafkaPartitions(self._connection, self._decisions_topic)

    def _markers(self) -> KafkaMarkers:
        return KafkaMarkers(self._connection, self._decisions_topic)

    def _missing(self) -> MissingMarkers:
        return MissingMarkers(self._connection, self._topic, self._decisions_topic)

    def _end(
        self,
        handles: Sequence[Handle],
        limit_s: float,
        *,
        commit: bool,
        settled: Callable[[Handle, BrokerAnswer], Any],
    ) -> list[Any]:
        def end(connection: KafkaWire, left: Sequence[Handle]) -> list[tuple[Any, bool]]:
            answers = connection.end_transactions([producer_of(handle) for handle in left], commit=commit)
            made = []
            for handle, answer in zip(left, answers, strict=True):
                outcome = settled(handle, answer) or RetryLater(handle=handle, reason=answer.name)
                made.append((outcome, answer.is_refusal or not isinstance(outcome, RetryLater)))
            return made

        return in_rounds(
            self._connection, handles, limit_s, end, lambda handle, reason: RetryLater(handle=handle, reason=reason)
        )
