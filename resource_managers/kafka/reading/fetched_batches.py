"""The record batches (format 2) of a Fetch's answer: which of them count for a read_committed reader, and their records."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.kafka.compression import CODECS
from indoubt.resource_managers.kafka.record_batch import HEADER_BYTES

Octets = npt.NDArray[np.uint8]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_MAGIC = 2
_LENGTH_FROM = 12
"""A batch's length counts from here, its checksum from CHECKSUM_FROM."""
_CHECKSUM_FROM = 21
_CODEC_BITS, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_CODECS = {codec.number: codec for codec in CODECS.values()}
_ABORT = struct.Struct(">hh")
"""The key of an end marker: its version, and its type, 0 where it aborts."""


class FetchedBatch(NamedTuple):
    """A batch as it lies in an answer: the fields of its header, and from where to where it goes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    largest_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: int
    start: int
    end: int

    @property
    def last_offset(self) -> int:
        """Return the offset of its last record, also where compaction took that away."""
        return self.base_offset + self.last_offset_delta


@dataclass(slots=True)
class Section:
    """The records of a batch, uncompressed: what lies in ``octets`` between ``start`` and ``end``."""

    octets: Octets
    start: int
    end: int
    base_offset: int
    last_offset: int
    count: int


def batches_of(answer: memoryview) -> list[FetchedBatch]:
    """Return the whole batches of an answer, whose last one may be cut off.

    Raises MalformedRecord for another format and for a wrong checksum.
    """
    found = []
    start, size = 0, len(answer)
    octets = pa.py_buffer(answer)
    while start + HEADER_BYTES <= size:
        header = _HEADER.unpack_from(answer, start)
        end = start + _LENGTH_FROM + header[1]
        if header[3] != _MAGIC:
            raise MalformedRecord(
                f"the record batch at offset {header[0]} has format {header[3]}, of Kafka before 0.11: copy the topic with a "
                "newer producer, or read it with Spark's own Kafka source in a job of your own"
            )
        if end > size:
            break
        if google_crc32c.value(octets[start + _CHECKSUM_FROM : end]) != header[4]:
            raise MalformedRecord(f"the record batch at offset {header[0]} is damaged: its checksum is wrong")
        found.append(FetchedBatch._make((*header, start, end)))
        start = end
    return found


def committed(
    answer: memoryview, batches: Sequence[FetchedBatch], aborted: Sequence[tuple[int, int]]
) -> Iterator[Section]:
    """Yield the records of the batches that a read_committed reader gets, in order.

    ``aborted``: (producer id, first offset) of each aborted transaction of which records are in the answer.
    """
    octets = np.frombuffer(answer, np.uint8)
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1][1] <= batch.last_offset:
            aborting.add(waiting.pop()[0])
        if batch.attributes & _CONTROL:
            # Compaction may have taken the marker out of its batch.
            if batch.records and batch.producer_id in aborting and _is_abort(_section(octets, batch)):
                aborting.discard(batch.producer_id)
        elif batch.records and not (batch.attributes & _TRANSACTIONAL and batch.producer_id in aborting):
            yield _section(octets, batch)


def _section(octets: Octets, batch: FetchedBatch) -> Section:
    start, end = batch.start + HEADER_BYTES, batch.end
    number = batch.attributes & _CODEC_BITS
    if number:
        if number not in _CODECS:
            raise MalformedRecord(
                f"the record batch at offset {batch.base_offset} is compressed in a way that is not known ({number})"
            )
        try:
            octets = np.frombuffer(_CODECS[number].decompress(pa.py_buffer(octets[start:end])), np.uint8)
        except OSError as error:
            raise MalformedRecord(
                f"the record batch at offset {batch.base_offset} cannot be decompressed: {error}"
            ) from None
        start, end = 0, len(octets)
    return Section(octets, start, end, batch.base_offset, batch.last_offset, batch.records)


def _is_abort(marker: Section) -> bool:
    # One record: its length, attributes, time and offset are a byte each, and so is the key's length, before the key.
    return bool(_ABORT.unpack_from(marker.octets.data, marker.start + 5)[1] == 0)
