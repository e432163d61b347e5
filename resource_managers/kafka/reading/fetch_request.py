"""A Fetch of one partition, whose answer shows its records where they were received.

kafka-python would copy an answer three times before its records can be read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Self

from kafka.protocol.consumer.fetch import FetchRequest

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
