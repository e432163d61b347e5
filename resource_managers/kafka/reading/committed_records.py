"""The records of a range of offsets as Arrow columns, as a read_committed reader gets them."""

from __future__ import annotations

import functools
import queue
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from kafka import errors as kafka_errors
from kafka.protocol.consumer.fetch import FetchRequest

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import MalformedRecord, RecordsGone, ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.answers import MISSING_ROW, NO_LEADER, BrokerAnswer, answer_of
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.reading.fetched_batches import FetchedBatch, batches_of, committed
from indoubt.resource_managers.kafka.reading.offset_range import OffsetRange
from indoubt.resource_managers.kafka.reading.record_columns import columns_of
from indoubt.resource_managers.kafka.wire import wire

FETCH_BYTES = 4 << 20
"""An answer has no more, unless one record batch is larger. Smaller ones cost more: each costs about 3 ms."""
FETCH_LIMIT_MS = 20_000
RETRY = Backoff(first_s=0.02, max_s=0.5)
_GONE = kafka_errors.OffsetOutOfRangeError.__name__
VERSION = 11
"""Of Fetch: the last one with lengths of fixed size; brokers know it since Kafka 2.3, and it may answer with zstd (10)."""
_READ_COMMITTED = 1
_HEAD = struct.Struct(">ihii")
"""Throttle time, error, session, number of topics."""
_PARTITION = struct.Struct(">iihqqqi")
"""Number of partitions; the partition, its error, high watermark, last stable offset, first offset, number of aborted ones."""
_ABORTED = struct.Struct(">qq")
_RECORDS = struct.Struct(">ii")
"""The replica to prefer, and the length of the records."""


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


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """What a partition's leader answered. ``aborted``: (producer id, first offset) of the aborted transactions in ``records``."""

    throttle_time_ms: int
    error_code: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview

    @classmethod
    def parse_header(cls, data: Any) -> _AnswerHeader:
        """Return the answer's header, as the parser of kafka-python's connections asks for it."""
        return _AnswerHeader(*struct.unpack(">i", data.read(4)))

    @classmethod
    def decode(cls, data: Any) -> Self:
        """Return the answer behind its header. Raises struct.error or ValueError for one that is cut off."""
        whole = memoryview(data)[data.tell() :]
        throttle_ms, error, _, topics = _HEAD.unpack_from(whole)
        if error or not topics:
            return cls(throttle_ms, error, (), whole[:0])
        (name_bytes,) = struct.unpack_from(">h", whole, _HEAD.size)
        place = _HEAD.size + 2 + name_bytes
        _, _, error, _, _, _, aborted = _PARTITION.unpack_from(whole, place)
        place += _PARTITION.size
        found = tuple(_ABORTED.unpack_from(whole, place + n * _ABORTED.size) for n in range(max(0, aborted)))
        place += len(found) * _ABORTED.size
        _, length = _RECORDS.unpack_from(whole, place)
        place += _RECORDS.size
        if place + max(0, length) > len(whole):
            raise ValueError("the answer is cut off")
        return cls(throttle_ms, error, found, whole[place : place + max(0, length)])


@dataclass(frozen=True, slots=True)
class _AnswerHeader:
    correlation_id: int


class _RequestHeader:
    """What kafka-python's parser asks of the header of a request that was sent."""

    def __init__(self, header: Any) -> None:
        self.correlation_id, self.api_key, self.api_version = header.correlation_id, FetchRequest.API_KEY, VERSION

    def get_response_class(self) -> type[FetchedRecords]:
        """Return what decodes the answer."""
        return FetchedRecords


class FetchCommitted(FetchRequest, init=False):  # type: ignore[misc,call-arg]
    """A read_committed Fetch from an offset on, answered at once with what is there. Answered by FetchedRecords."""

    def __init__(self, topic: str, partition: int, offset: int, most_bytes: int) -> None:
        wanted = FetchRequest.FetchTopic.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes
        )
        super().__init__(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=most_bytes,
            isolation_level=_READ_COMMITTED,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
            forgotten_topics_data=[],
            min_version=VERSION,
            max_version=VERSION,
        )

    @property
    def header(self) -> Any:
        """Return the header by which the answer is decoded."""
        return _RequestHeader(super().header)
