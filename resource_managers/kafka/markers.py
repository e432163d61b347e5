"""Markers: offsets committed inside transactions, which prove later what was committed, whatever became of the ids."""

from __future__ import annotations

import time
from typing import Any

from kafka import errors as kafka_errors

from lifecycle.errors import ResourceManagerError
from lifecycle.identity import Handle, Marker, TransactionalId, marker_group
from lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Lost, RetryLater, Unknown
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_descriptions import OPEN_STATES
from resource_managers.kafka_missing_markers import write_missing_markers
from resource_managers.kafka_wire import ErrorClass, wire
from resource_managers.protocol import SlotAttempt

SETTLING_S = 2.0
"""UNSTABLE is also the answer for a moment after a transaction ended; only when it stays is another one open."""
PAUSE_S = 0.01
MARKER_RETENTION_MINUTES = 7 * 24 * 60
"""Kafka's default of offsets.retention.minutes, taken where the broker's may not be read."""

_COMPLETING = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


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
            if answer is kafka_errors.NoError:
                return found
            if time.monotonic() > deadline:
                raise ResourceManagerError(
                    f"the marker of slot {slot} of {prefix!r} could not be read in {limit_s:.0f} s: {answer.__name__}"
                )
            time.sleep(PAUSE_S)

    def before_writing(self, attempt: SlotAttempt, limit_s: float, topic: str) -> Marker | None:
        """Return the slot's marker for a writer that holds its own id already; a zombie disturbs nobody by asking.

        While the slot's other id has a transaction open, the latest marker tells first whether this attempt was
        overtaken (then it is returned). Only if not, that very transaction is aborted: an earlier writer left it. One
        whose coordinator has completed it without its markers is given them, here and on ``topic``.
        Raises ResourceManagerError when the marker stays unreadable.
        """
        deadline = time.monotonic() + limit_s
        settled_by = time.monotonic() + SETTLING_S
        other = str(TransactionalId.of(attempt.prefix, attempt.slot, attempt.marker.batch + 1))
        while True:
            answer, found = self._read(attempt.prefix, attempt.slot, stable=True)
            if answer is kafka_errors.NoError:
                return found
            if time.monotonic() > deadline:
                raise ResourceManagerError(
                    f"the marker of slot {attempt.slot} of {attempt.prefix!r} could not be read in {limit_s:.0f} s: "
                    f"{answer.__name__}"
                )
            if answer is kafka_errors.UnstableOffsetCommitError:
                latest = self.latest(attempt.prefix, attempt.slot, limit_s)
                if latest is not None and latest.covers(attempt.marker):
                    return latest
                self._abort_open(other)
                if time.monotonic() > settled_by:
                    write_missing_markers(self._connection, [other], [topic])
                    settled_by = time.monotonic() + SETTLING_S
            time.sleep(PAUSE_S)

    def _abort_open(self, id_: str) -> None:
        # By producer id and epoch, so that a transaction which begins in between is never hit.
        row = wire(self._connection).describe_transactions([id_]).get(id_)
        if row is not None and not isinstance(row, type) and row.transaction_state == "Ongoing":
            wire(self._connection).end_transactions([(id_, row.producer_id, row.producer_epoch)], commit=False)

    def _read(self, prefix: str, slot: int, *, stable: bool) -> tuple[ErrorClass, Marker | None]:
        group = marker_group(prefix, slot)
        answer, offset, metadata = wire(self._connection).committed_offsets([group], self._topic, 0, stable=stable)[0]
        if issubclass(answer, kafka_errors.GroupIdNotFoundError):
            return kafka_errors.NoError, None
        if answer is not kafka_errors.NoError or offset < 0:
            return answer, None
        return answer, Marker.parse(offset, metadata)


def judge(
    connection: KafkaConnection,
    markers: KafkaMarkers,
    handle: Handle,
    proof: Marker,
    answer: ErrorClass,
    limit_s: float,
) -> CommitOutcome:
    """Say how a decided transaction ended when EndTxn does not: by its marker, then by what its coordinator knows.

    ``proof`` is the marker inside the transaction, ``answer`` what EndTxn said. Nothing is aborted: what else is open in
    the slot may belong to a newer run.
    """
    parsed = TransactionalId.parse(handle.transaction)
    if parsed is None:
        return Unknown(handle=handle, reason=f"{handle.transaction!r} is not an id of ours, so it has no marker")
    try:
        if issubclass(answer, kafka_errors.InvalidTxnStateError):
            # The coordinator still has this very epoch and says that it did not commit; a later marker of the slot
            # belongs to a replay.
            if markers.latest(parsed.prefix, parsed.slot, limit_s) == proof:
                return AlreadyCommitted(handle=handle)
            return Lost(handle=handle, reason="the broker aborted it: EndTxn answers InvalidTxnStateError")
        found = _marker_once_over(connection, markers, handle, parsed, limit_s)
        return _by_marker(connection, handle, proof, found, answer)
    except ResourceManagerError as error:
        return RetryLater(handle=handle, reason=str(error))


def _marker_once_over(
    connection: KafkaConnection, markers: KafkaMarkers, handle: Handle, parsed: TransactionalId, limit_s: float
) -> Marker | None:
    """Return the slot's marker, read when this transaction is surely over.

    A coordinator gives an id to another producer only after every partition, the marker's too, has the end of the
    earlier transaction. So what is open in the slot then is not ours, and the latest marker is as good as a stable one.
    Where no coordinator has anything open in the slot, an end was passed by, and might be ours: then nothing is said.
    """
    try:
        return markers.stable(parsed.prefix, parsed.slot, min(SETTLING_S, limit_s))
    except ResourceManagerError:
        if not _is_over(connection, handle):
            raise
        if not _slot_is_in_use(connection, parsed):
            raise ResourceManagerError(
                f"the offsets of slot {parsed.slot} of {parsed.prefix!r} have no end marker, and no coordinator has a "
                "transaction of it open: end what hangs on their partition first"
            ) from None
        return markers.latest(parsed.prefix, parsed.slot, limit_s)


def _by_marker(
    connection: KafkaConnection, handle: Handle, proof: Marker, found: Marker | None, answer: ErrorClass
) -> CommitOutcome:
    if found is not None and found.covers(proof):
        return AlreadyCommitted(handle=handle)
    if found is not None and found.life != proof.life and found.attempt > proof.attempt:
        # Attempts are offsets of one log: a newer life wrote over the marker, so it proves nothing about ours.
        return Unknown(handle=handle, reason=f"its marker was overwritten by a newer life ({found.life})")
    if found is None and _is_gone(connection, handle):
        return Unknown(handle=handle, reason="its marker and its transactional id are both gone")
    if found is None and _may_have_expired(connection, handle):
        return Unknown(
            handle=handle, reason="its marker, had there been one, may have expired (offsets.retention.minutes)"
        )
    return Lost(
        handle=handle, reason=f"the broker aborted it: EndTxn answers {answer.__name__}, and its marker is not there"
    )


def _slot_is_in_use(connection: KafkaConnection, parsed: TransactionalId) -> bool:
    ids = [str(TransactionalId.of(parsed.prefix, parsed.slot, parity)) for parity in (0, 1)]
    rows = wire(connection).describe_transactions(ids).values()
    return any(getattr(row, "transaction_state", "") in OPEN_STATES for row in rows)


def _is_over(connection: KafkaConnection, handle: Handle) -> bool:
    row: Any = wire(connection).describe_transactions([handle.transaction]).get(handle.transaction)
    if row is None or isinstance(row, type):
        return row is not None and issubclass(row, kafka_errors.TransactionalIdNotFoundError)
    if row.producer_id != handle.producer_id:
        return True
    ahead = row.producer_epoch - (handle.producer_epoch or 0)
    # One epoch ahead it may be ours, being completed.
    return bool(ahead > 1 or (ahead == 1 and row.transaction_state not in _COMPLETING))


def _is_gone(connection: KafkaConnection, handle: Handle) -> bool:
    row: Any = wire(connection).describe_transactions([handle.transaction]).get(handle.transaction)
    return isinstance(row, type) and issubclass(row, kafka_errors.TransactionalIdNotFoundError)


def _may_have_expired(connection: KafkaConnection, handle: Handle) -> bool:
    minutes = int(connection.broker_setting("offsets.retention.minutes") or MARKER_RETENTION_MINUTES)
    age_ms = time.time_ns() // 1_000_000 - handle.prepared_at_ms
    # A tenth less: the task's clock and ours may differ.
    return age_ms > minutes * 60_000 * 0.9
