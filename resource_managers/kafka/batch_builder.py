"""Arrow rows into record batches: the partition of each row, and batches that keep the limits of their size."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.errors import RecordTooLarge, Unreachable
from indoubt.resource_managers.kafka.murmur2 import partitions_of
from indoubt.resource_managers.kafka.record_batch import (
    HEADER_BYTES,
    MOST_OVERHEAD_BYTES,
    MOST_RECORDS,
    NO_HEADERS,
    EqualRows,
    Octets,
    Producer,
    encode_records,
    frame_batch,
)
from indoubt.resource_managers.kafka.sink_input import HEADERS, ProducerProperties, check_columns
from indoubt.resource_managers.record_parts import Sizes, encode_headers, running_total, sizes

SLICE_BYTES = 8 << 20
"""So much is encoded at a time: its parts lie in the processor's cache, and no offset of Arrow's overflows."""
FEW_ROWS = 128
"""Of so few rows of a partition it costs less to encode those of all partitions together, equal or not."""
SEQUENCES = 1 << 31


@dataclass(slots=True, kw_only=True, eq=False)
class Batch:
    """A batch of one partition, as it is sent and, if need be, sent again. ``number`` counts the partition's batches."""

    partition: int
    number: int
    count: int
    parts: Sequence[Octets]
    """What is sent, in pieces: they are copied once, into the request."""
    size: int
    given_at_s: float = 0.0
    """When it was given to be delivered, by the monotonic clock."""

    @property
    def content(self) -> bytes:
        """Return the batch in one piece."""
        return b"".join(self.parts)


@dataclass(slots=True)
class _Open:
    """The batch of a partition that takes more records, and what the partition has had."""

    sections: list[Octets] = field(default_factory=list)
    count: int = 0
    bytes: int = HEADER_BYTES
    batches: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Rows ``start`` to ``end`` go into the partition's open batch, from ``place`` on.

    It is complete then with ``complete`` records; 0: not.
    """

    partition: int
    start: int
    end: int
    place: int
    complete: int


class BatchBuilder:
    """Takes rows, hands out complete batches; ``finish`` those that are not full. ``leaders`` by partition, below 0: none."""

    def __init__(
        self,
        topic: str,
        leaders: Mapping[int, int],
        producer: Producer,
        properties: ProducerProperties,
    ) -> None:
        self._topic, self._producer, self._codec = topic, producer, properties.codec
        self._record_bytes = properties.record_bytes
        self._batch_bytes = min(properties.batch_bytes, properties.record_bytes)
        self._partitions = len(leaders)
        self._open: dict[int, _Open] = {}
        # One without a leader would hold its rows back until it has one.
        led = [partition for partition, leader in sorted(leaders.items()) if leader >= 0]
        first = random.randrange(len(led)) if led else 0
        self._turn = itertools.cycle(led[first:] + led[:first])
        self.rows = 0
        self.bytes = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[Batch]:
        """Yield the batches that these rows complete. Raises RecordTooLarge, SettingsError, Unreachable."""
        names = check_columns([(field.name, field.type) for field in rows.schema])
        key, value = rows.column("key") if "key" in names else None, rows.column("value")
        if key is not None and key.null_count == len(key):
            key = None
        headers = encode_headers(rows.column(HEADERS)) if HEADERS in names else None
        turn = next(self._turn, -1)
        if turn < 0:
            raise Unreachable(f"no partition of topic {self._topic!r} has a leader: rows cannot be sent")
        payload = np.maximum(sizes(value), 0)
        if key is not None:
            payload += np.maximum(sizes(key), 0)
        total = int(payload.sum(dtype=np.int64))
        if headers is not None:
            payload += sizes(headers)
        largest = int(payload.max(initial=0))
        if largest + MOST_OVERHEAD_BYTES + HEADER_BYTES > self._record_bytes:
            raise RecordTooLarge(
                f"a record of {largest:,} bytes for topic {self._topic!r} is larger than the producer takes "
                f"(message.max.bytes = {self._record_bytes:,}): raise it in producer_properties, and max.message.bytes of the "
                "topic with it"
            )
        ends = running_total(payload)
        start = 0
        while start < len(value):
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + SLICE_BYTES, side="right")))
            part = slice(start, end)
            own_key, own_headers = (None if column is None else column[part] for column in (key, headers))
            yield from self._add(own_key, value[part], own_headers, payload[part], turn)
            start = end
        self.rows += len(value)
        self.bytes += total

    def finish(self) -> Iterator[Batch]:
        """Yield the batches that were waiting for more rows."""
        for partition, open_ in self._open.items():
            if open_.count:
                yield self._sealed(partition, open_, open_.count)
                open_.count, open_.bytes = 0, HEADER_BYTES

    def _add(
        self, key: pa.Array | None, value: pa.Array, headers: pa.Array | None, payload: Sizes, turn: int
    ) -> Iterator[Batch]:
        key, value = None if key is None else _binary(key), _binary(value)
        rows = None if headers is not None else EqualRows.of(key, value)
        runs = [(turn, 0, len(value))]
        if key is not None:
            chosen = partitions_of(key, self._partitions)
            if key.null_count:
                chosen[pc.is_null(key).to_numpy(zero_copy_only=False)] = turn
            order = np.argsort(chosen.astype(np.uint16 if self._partitions <= 1 << 16 else np.int32), kind="stable")
            counts = np.bincount(chosen, minlength=self._partitions)
            ends = np.cumsum(counts)
            runs = [(int(p), int(ends[p] - counts[p]), int(ends[p])) for p in np.flatnonzero(counts)]
            if rows is not None and len(runs) * FEW_ROWS <= len(value):
                rows = rows.take(order)
            else:
                places, rows = pa.array(order), None
                key, value, payload = key.take(places), value.take(places), payload[order]
                headers = None if headers is None else headers.take(places)
        spans = [span for run in runs for span in self._spans(*run, payload)]
        sections: Iterator[Octets]
        if rows is not None:
            sections = (rows.encode(span.start, span.end, span.place) for span in spans)
        else:
            sections = _sections(key, value, NO_HEADERS if headers is None else headers, spans)
        for span, section in zip(spans, sections, strict=True):
            open_ = self._open[span.partition]
            if len(section):
                open_.sections.append(section)
            if span.complete:
                yield self._sealed(span.partition, open_, span.complete)

    def _spans(self, partition: int, start: int, end: int, payload: Sizes) -> Iterator[_Span]:
        """Yield which rows of a run go into which batch."""
        open_ = self._open.setdefault(partition, _Open())
        needed = running_total(payload[start:end], MOST_OVERHEAD_BYTES)
        done = before = 0
        while done < len(needed):
            room = self._batch_bytes - open_.bytes
            fit = int(np.searchsorted(needed, before + room, side="right"))
            if open_.count == 0:
                # A record that is larger than a batch should be has one of its own.
                fit = max(fit, done + 1)
            fit = min(fit, done + MOST_RECORDS - open_.count)
            place = open_.count
            open_.count += fit - done
            is_last = fit == len(needed)
            yield _Span(
                partition=partition,
                start=start + done,
                end=start + fit,
                place=place,
                complete=0 if is_last else open_.count,
            )
            after = int(needed[fit - 1]) if fit else 0
            open_.bytes += after - before
            if not is_last:
                open_.count, open_.bytes = 0, HEADER_BYTES
            done, before = fit, after

    def _sealed(self, partition: int, open_: _Open, count: int) -> Batch:
        parts = frame_batch(
            open_.sections,
            count,
            producer=self._producer,
            sequence=open_.records % SEQUENCES if self._producer.producer_id >= 0 else -1,
            timestamp_ms=now_ms(),
            codec=self._codec,
        )
        batch = Batch(partition=partition, number=open_.batches, count=count, parts=parts, size=sum(map(len, parts)))
        open_.sections = []
        open_.batches += 1
        open_.records += count
        return batch


def _binary(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _sections(key: pa.Array | None, value: pa.Array, headers: Any, spans: Sequence[_Span]) -> Iterator[Octets]:
    """Yield the records of each span, of any sizes; together the spans have all rows, in order."""
    places = [np.arange(span.place, span.place + span.end - span.start, dtype=np.int32) for span in spans]
    _, offsets, data = encode_records(key, value, np.concatenate(places), headers).buffers()
    ends = np.frombuffer(offsets, np.int32)
    for span in spans:
        first, last = int(ends[span.start]), int(ends[span.end])
        yield data.slice(first, last - first)
