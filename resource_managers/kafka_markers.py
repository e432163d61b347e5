"""Markers: offsets committed inside transactions, which prove later what was committed, whatever became of the ids."""

from __future__ import annotations

import time
from typing import Any

from kafka import errors as kafka_errors

from lifecycle.errors import ResourceManagerError
from lifecycle.identity import Handle, Marker, TransactionalId, marker_group
from lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Lost, RetryLater, Unknown
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_wire import ErrorClass, wire

SETTLING_S = 2.0
"""UNSTABLE is also the answer for a moment after EndTxn; only when it stays is some transaction really open."""
PAUSE_S = 0.01
ANYONE = -1


class KafkaMarkers:
    """Reads the markers of slots; stable reads only."""

    def __init__(self, connection: KafkaConnection, decisions_topic: str, timeout_ms: int) -> None:
        self._connection, self._topic, self._timeout_ms = connection, decisions_topic, timeout_ms

    def stable(self, prefix: str, slot: int, limit_s: float) -> Marker | None:
        """Return the slot's marker, None when it never committed any (or its retention has passed).

        While it stays UNSTABLE some transaction of the slot is open: both ids of the slot are then taken, which aborts
        it. Raises ResourceManagerError when it is unstable still after ``limit_s``.
        """
        started = time.monotonic()
        fenced = False
        while True:
            answer, offset, metadata = wire(self._connection).committed_offsets(
                [marker_group(prefix, slot)], self._topic, 0
            )[0]
            if answer is kafka_errors.NoError:
                return Marker.parse(offset, metadata) if offset >= 0 else None
            if issubclass(answer, kafka_errors.GroupIdNotFoundError):
                return None
            waited_s = time.monotonic() - started
            if waited_s > limit_s:
                raise ResourceManagerError(
                    f"the marker of slot {slot} of {prefix!r} could not be read in {limit_s:.0f} s: {answer.__name__}"
                )
            if answer is kafka_errors.UnstableOffsetCommitError and waited_s > SETTLING_S and not fenced:
                fenced = self._take_both_ids(prefix, slot)
            time.sleep(PAUSE_S)

    def _take_both_ids(self, prefix: str, slot: int) -> bool:
        ids = [str(TransactionalId(prefix=prefix, slot=slot, parity=parity)) for parity in (0, 1)]
        answers = wire(self._connection).init_producer_ids([(id_, ANYONE, ANYONE) for id_ in ids], self._timeout_ms)
        return all(answer is kafka_errors.NoError for answer in answers)


def judge(
    connection: KafkaConnection,
    markers: KafkaMarkers,
    handle: Handle,
    proof: Marker,
    answer: ErrorClass,
    limit_s: float,
) -> CommitOutcome:
    """Say how a decided transaction ended when EndTxn does not: by its marker, then by what its coordinator knows.

    ``proof`` is the marker inside the transaction, ``answer`` what EndTxn said.
    """
    parsed = TransactionalId.parse(handle.transaction)
    if parsed is None:
        return Unknown(handle=handle, reason=f"{handle.transaction!r} is not an id of ours, so it has no marker")
    try:
        found = markers.stable(parsed.prefix, parsed.slot, limit_s)
    except ResourceManagerError as error:
        return RetryLater(handle=handle, reason=str(error))
    if found is not None and found.covers(proof):
        return AlreadyCommitted(handle=handle)
    if found is not None and found.life != proof.life and found.attempt > proof.attempt:
        # Attempts are offsets of one log: a newer life wrote over the marker, so it proves nothing about ours.
        return Unknown(handle=handle, reason=f"its marker was overwritten by a newer life ({found.life})")
    if found is None and _is_gone(connection, handle):
        return Unknown(handle=handle, reason="its marker and its transactional id are both gone (retention has passed)")
    return Lost(
        handle=handle, reason=f"the broker aborted it: EndTxn answers {answer.__name__}, and its marker is not there"
    )


def _is_gone(connection: KafkaConnection, handle: Handle) -> bool:
    row: Any = wire(connection).describe_transactions([handle.transaction]).get(handle.transaction)
    return isinstance(row, type) and issubclass(row, kafka_errors.TransactionalIdNotFoundError)
