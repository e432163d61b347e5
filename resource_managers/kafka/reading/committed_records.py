"""The records of a range of offsets as Arrow columns, as a read_committed reader gets them."""

from __future__ import annotations

import functools
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from kafka import errors as kafka_errors

from lifecycle.backoff import Backoff
from lifecycle.errors import MalformedRecord, RecordsGone, ResourceManagerError, Unreachable
from resource_managers.kafka.answers import MISSING_ROW, NO_LEADER, BrokerAnswer, answer_of
from resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from resource_managers.kafka.partitions import KafkaPartitions
from resource_managers.kafka.reading.fetch_request import FetchCommitted, FetchedRecords
from resource_managers.kafka.reading.fetched_batches import FetchedBatch, batches_of, committed
from resource_managers.kafka.reading.record_columns import columns_of
from resource_managers.kafka.wire import wire

FETCH_BYTES = 4 << 20
"""An answer has no more, unless one record batch is larger. Smaller ones cost more: each costs about 3 ms."""
FETCH_LIMIT_MS = 20_000
RETRY = Backoff(first_s=0.02, max_s=0.5)
_GONE = kafka_errors.OffsetOutOfRangeError.__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The records of a partition from offset ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, offsets {self.start} to {self.end}"


def read_committed(connection: KafkaConnection, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``key`` and ``value`` of the range's records, in order of their offsets.

    The range must end at or before the last stable offset. Raises RecordsGone where retention deleted some of them,
    MalformedRecord, Unreachable after 60 s without any, ResourceManagerError.
    """
    return _Reader(connection, wanted).read()


@functools.cache
def _leaders(connection: KafkaConnection) -> dict[tuple[str, int], int]:
    """Return where partitions were led when last asked, which a task does not ask again for each of its ranges.

    A process that is forked begins with what its parent knew. An answer that says that a leader moved has it asked again.
    """
    return {}


class _Reader:
    def __init__(self, connection: KafkaConnection, wanted: OffsetRange) -> None:
        self._connection, self._wanted = connection, wanted
        self._answers: queue.Queue[Any] = queue.Queue()
        self._position = wanted.start
        self._leader = _leaders(connection).get((wanted.topic, wanted.partition), -1)

    def read(self) -> Iterator[pa.RecordBatch]:
        end = self._wanted.end
        if self._position < end:
            self._ask()
        try:
            while self._position < end:
                answer, batches = self._next()
                self._position = batches[-1].last_offset + 1
                if self._position < end:
                    # The broker answers while these records are read.
                    self._ask()
                yield from columns_of(committed(answer.records, batches, answer.aborted), self._wanted.start, end)
        except MalformedRecord as error:
            raise MalformedRecord(f"{self._wanted}: {error}") from None

    def _next(self) -> tuple[FetchedRecords, list[FetchedBatch]]:
        """Return the next answer with records, and its batches. Raises as ``read_committed``."""
        deadline = time.monotonic() + CALL_LIMIT_S
        for pause_s in RETRY.pauses():
            try:
                response = self._answers.get(timeout=CALL_LIMIT_S)
            except queue.Empty:
                raise self._late(MISSING_ROW) from None
            answer = answer_of(response)
            if answer.is_done and (batches := batches_of(response.records)):
                return response, batches
            if not answer.is_done and not answer.may_pass:
                raise self._failure(answer)
            if time.monotonic() > deadline:
                raise self._late(answer)
            time.sleep(pause_s)
            if not answer.is_done:
                self._leader = -1
            self._ask()
        raise AssertionError("the pauses have no end")

    def _ask(self) -> None:
        wanted = self._wanted
        if self._leader < 0:
            self._leader = self._find_leader()
        if self._leader < 0:
            self._answers.put(NO_LEADER)
            return
        request = FetchCommitted(wanted.topic, wanted.partition, self._position, FETCH_BYTES)
        wire(self._connection).post(self._leader, request, FETCH_LIMIT_MS, self._answers.put)

    def _find_leader(self) -> int:
        try:
            layout = KafkaPartitions(self._connection, "").layout([self._wanted.topic])
        except Unreachable:
            return -1
        known = _leaders(self._connection)
        known |= layout.leaders
        return known.get((self._wanted.topic, self._wanted.partition), -1)

    def _late(self, answer: BrokerAnswer) -> Unreachable:
        why = f"the leader has no record at offset {self._position}" if answer.is_done else str(answer)
        return Unreachable(f"{self._wanted}: not read in {CALL_LIMIT_S:.0f} s: {why}")

    def _failure(self, answer: BrokerAnswer) -> ResourceManagerError:
        if answer.name == _GONE:
            return RecordsGone(
                f"{self._wanted}: the record at offset {self._position} is gone: retention deleted it before it was read, or "
                "the topic was created again. What is gone cannot be written; to go on without it, start with a new checkpoint "
                "directory and prefix"
            )
        return ResourceManagerError(f"{self._wanted}: not read from offset {self._position}: {answer}")
