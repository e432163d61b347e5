"""Markers: offsets committed inside transactions, which prove later what was committed, whatever became of the ids."""

from __future__ import annotations

import time
from dataclasses import dataclass

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker, TransactionalId, marker_group
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Lost, RetryLater, Unknown
from indoubt.resource_managers.kafka.answers import DONE, AnswerKind, BrokerAnswer
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from indoubt.resource_managers.kafka.descriptions import (
    COMMITTED,
    ONGOING,
    OPEN_STATES,
    Described,
    is_over,
    number,
    word,
)
from indoubt.resource_managers.kafka.missing_markers import REMEDY, SETTLING_S
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.protocol import SlotAttempt

PAUSE_S = 0.01
MARKER_RETENTION_MINUTES = 7 * 24 * 60
"""Kafka's default of offsets.retention.minutes, taken where the broker's may not be read."""


class KafkaMarkers:
    """Reads the markers of slots. Reading aborts nothing; ``before_writing`` ends what the slot's other id has open."""

    def __init__(self, connection: KafkaConnection, decisions_topic: str) -> None:
        self._connection, self._topic = connection, decisions_topic

    def stable(self, prefix: str, slot: int, limit_s: float) -> Marker | None:
        """Return the slot's marker, None when it never committed any (or its retention has passed).

        Raises ResourceManagerError when a transaction of the slot is open still after ``limit_s``.
        """
        return self._wait(prefix, slot, limit_s, stable=True)

    def latest(self, prefix: str, slot: int, limit_s: float) -> Marker | None:
        """Return what the slot committed last, whatever it has open now. Raises ResourceManagerError."""
        return self._wait(prefix, slot, limit_s, stable=False)

    def _wait(self, prefix: str, slot: int, limit_s: float, *, stable: bool) -> Marker | None:
        deadline = time.monotonic() + limit_s
        while True:
            answer, found = self._read(prefix, slot, stable=stable)
            if answer.is_done:
                return found
            if time.monotonic() > deadline:
                raise ResourceManagerError(
                    f"the marker of slot {slot} of {prefix!r} could not be read in {limit_s:.0f} s: {answer}"
                )
            time.sleep(PAUSE_S)

    def before_writing(self, attempt: SlotAttempt) -> Marker | None:
        """Return the slot's marker for a writer that holds its own id already; a zombie disturbs no writer by asking.

        While the slot's other id has a transaction open, the latest marker tells whether this attempt was superseded (then
        it is returned). Only if not, the transaction that was open before the marker was read is aborted: an earlier writer
        left it. One of the next batch is opened behind a marker that says so. Raises ResourceManagerError when the marker
        stays unreadable.
        """
        deadline = time.monotonic() + CALL_LIMIT_S
        over_since: float | None = None
        other = str(TransactionalId.of(attempt.prefix, attempt.slot, attempt.marker.batch + 1))
        while True:
            answer, found = self._read(attempt.prefix, attempt.slot, stable=True)
            if answer.is_done:
                return found
            if time.monotonic() > deadline:
                raise ResourceManagerError(
                    f"the marker of slot {attempt.slot} of {attempt.prefix!r} could not be read in {CALL_LIMIT_S:.0f} s: "
                    f"{answer}"
                )
            # UNSTABLE is also the answer for a moment after a transaction ended.
            if answer.kind is AnswerKind.UNSTABLE_OFFSET:
                described = wire(self._connection).describe_transactions([other])[other]
                latest = self.latest(attempt.prefix, attempt.slot, CALL_LIMIT_S)
                if latest is not None and latest.covers(attempt.marker):
                    return latest
                over_since = None if self._end_open(other, described) else over_since or time.monotonic()
                if over_since is not None and time.monotonic() - over_since > SETTLING_S:
                    raise ResourceManagerError(
                        f"the offsets of slot {attempt.slot} of {attempt.prefix!r} have no end marker, and no coordinator has "
                        f"a transaction of it open: {REMEDY}"
                    )
            time.sleep(PAUSE_S)

    def _end_open(self, id_: str, described: Described) -> bool:
        """Abort what this id had open by its coordinator's word; say whether it had, or whether that is not known."""
        # By producer id and epoch, so that a transaction which began since is never hit.
        if isinstance(described, BrokerAnswer):
            return described.kind is not AnswerKind.UNKNOWN_ID
        if described.state == ONGOING:
            wire(self._connection).end_transactions([(id_, *described.producer)], commit=False)
        return described.state in OPEN_STATES

    def _read(self, prefix: str, slot: int, *, stable: bool) -> tuple[BrokerAnswer, Marker | None]:
        group = marker_group(prefix, slot)
        answer, offset, metadata = wire(self._connection).committed_offsets([group], self._topic, stable=stable)[0]
        if answer.kind is AnswerKind.UNKNOWN_GROUP:
            return DONE, None
        if not answer.is_done or offset < 0:
            return answer, None
        return answer, Marker.parse(offset, metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An outcome. ``commit``: how this very transaction ended, None where that is not proven.

    A marker of a later batch says that its own batch was committed, which a replay may have done.
    """

    outcome: CommitOutcome
    commit: bool | None = None


def judge(
    connection: KafkaConnection,
    markers: KafkaMarkers,
    handle: Handle,
    proof: Marker,
    answer: BrokerAnswer,
    limit_s: float,
) -> Judged:
    """Say how a decided transaction ended when EndTxn does not: by its marker, then by what its coordinator knows.

    ``proof`` is the marker inside the transaction, ``answer`` what EndTxn said. Nothing is aborted: what else is open in
    the slot may belong to a newer run.
    """
    parsed = TransactionalId.parse(handle.transaction)
    if parsed is None:
        reason = f"{handle.transaction!r} is not an id of ours, so it has no marker"
        return Judged(outcome=Unknown(handle=handle, reason=reason))
    try:
        described = _description_once_over(connection, handle, limit_s)
        if _says_committed(described, handle):
            return Judged(outcome=AlreadyCommitted(handle=handle), commit=True)
        found = _marker_once_ended(connection, markers, handle, parsed, limit_s)
    except ResourceManagerError as error:
        return Judged(outcome=RetryLater(handle=handle, reason=str(error)))
    if found == proof:
        return Judged(outcome=AlreadyCommitted(handle=handle), commit=True)
    if answer.kind is AnswerKind.WRONG_STATE:
        # The coordinator still has this very epoch: a later marker of the slot belongs to a replay.
        lost = Lost(handle=handle, reason="the broker aborted it: EndTxn answers InvalidTxnStateError")
        return Judged(outcome=lost, commit=False)
    outcome = _by_marker(connection, handle, described, proof, found, answer)
    return Judged(outcome=outcome, commit=False if isinstance(outcome, Lost) else None)


def _description_once_over(connection: KafkaConnection, handle: Handle, limit_s: float) -> Described:
    """Return what the coordinator says once it is done with this transaction. Raises ResourceManagerError."""
    deadline = time.monotonic() + min(SETTLING_S, limit_s)
    producer_id, epoch = number(handle.producer_id), number(handle.producer_epoch)
    while True:
        described = wire(connection).describe_transactions([handle.transaction])[handle.transaction]
        if is_over(described, producer_id, epoch):
            return described
        if time.monotonic() > deadline:
            raise ResourceManagerError(f"its coordinator is not done with it, and says {word(described)}")
        time.sleep(PAUSE_S)


def _says_committed(described: Described, handle: Handle) -> bool:
    """Say whether the coordinator has it as committed at its own epoch, as EndTxn 4 leaves it (EndTxn 5 then denies it)."""
    if isinstance(described, BrokerAnswer) or described.state != COMMITTED:
        return False
    return described.producer == (handle.producer_id, handle.producer_epoch)


def _marker_once_ended(
    connection: KafkaConnection, markers: KafkaMarkers, handle: Handle, parsed: TransactionalId, limit_s: float
) -> Marker | None:
    """Return the slot's marker, read when this transaction has ended on the offsets' partitions too.

    That its coordinator is done with it does not say so (KAFKA-20734): a commit whose end is missing there would look lost.
    A stable read does; where another transaction keeps the offsets unstable, the partitions' own leaders do.
    Raises ResourceManagerError.
    """
    try:
        return markers.stable(parsed.prefix, parsed.slot, min(SETTLING_S, limit_s))
    except ResourceManagerError:
        partitions = KafkaPartitions(connection, "")
        layout = partitions.layout([CONSUMER_OFFSETS])
        answers = partitions.open_producers([*layout.leaders, *layout.leaderless], layout)
        opened = {(p.producer_id, p.producer_epoch) for producers in answers.found.values() for p in producers}
        if answers.failed or (handle.producer_id, handle.producer_epoch) in opened:
            raise ResourceManagerError(
                f"its offsets have no end marker on {CONSUMER_OFFSETS}, or it is unknown whether they have: its marker "
                "says nothing yet: end it by an order of the collector, which offers the marker that is proven"
            ) from None
        return markers.latest(parsed.prefix, parsed.slot, limit_s)


def _by_marker(
    connection: KafkaConnection,
    handle: Handle,
    described: Described,
    proof: Marker,
    found: Marker | None,
    answer: BrokerAnswer,
) -> CommitOutcome:
    if found is not None and found.covers(proof):
        return AlreadyCommitted(handle=handle)
    if found is not None and found.checkpoint_id != proof.checkpoint_id and found.attempt > proof.attempt:
        # Attempts are offsets of one log: a newer checkpoint id wrote over the marker, so it proves nothing about ours.
        return Unknown(
            handle=handle, reason=f"its marker was overwritten by a newer checkpoint id ({found.checkpoint_id})"
        )
    if found is None and isinstance(described, BrokerAnswer):
        return Unknown(handle=handle, reason="its marker and its transactional id are both gone")
    if found is None and _may_have_expired(connection, handle):
        return Unknown(
            handle=handle, reason="its marker, had there been one, may have expired (offsets.retention.minutes)"
        )
    return Lost(handle=handle, reason=f"the broker aborted it: EndTxn answers {answer}, and its marker is not there")


def _may_have_expired(connection: KafkaConnection, handle: Handle) -> bool:
    minutes = int(connection.broker_setting("offsets.retention.minutes") or MARKER_RETENTION_MINUTES)
    age_ms = now_ms() - handle.prepared_at_ms
    # A tenth less: the task's clock and ours may differ.
    return age_ms > minutes * 60_000 * 0.9
