"""Records as Arrow columns of keys and values, without a Python object per record: the way back of record_batch.py.

Where a record begins is known only from the length of the one before. Everything else is read for all records at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.kafka.reading.fetched_batches import Octets, Section

Integers = npt.NDArray[np.int64]
Columns = tuple[pa.Array, pa.Array]

FEW = 256
"""So few records are walked one by one: that costs less than to compare their lengths."""


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one length, one behind the other: ``whole`` bytes each, of which the first ``size`` tell the length."""

    start: int
    whole: int
    size: int
    count: int

    @property
    def starts(self) -> range:
        """Return where each record begins."""
        return range(self.start, self.start + self.count * self.whole, self.whole)


def columns_of(sections: Iterable[Section], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield key and value of all records with offsets from ``start`` to before ``end``, in order.

    Raises MalformedRecord for records that are damaged.
    """
    for _, own in itertools.groupby(sections, key=lambda section: id(section.octets)):
        rows = _columns(list(own), start, end)
        if rows.num_rows:
            yield rows


def _columns(sections: Sequence[Section], start: int, end: int) -> pa.RecordBatch:
    """Return the records of sections in the same octets."""
    octets = sections[0].octets
    view = octets.data
    found: list[Columns] = []
    starts: list[int] = []
    """Of the records since the last run whose columns were found."""
    try:
        for section in sections:
            if section.base_offset < start or section.last_offset >= end:
                starts += _starts_between(octets, view, section, start, end)
            elif section.count <= FEW:
                _walk(view, section, starts)
            else:
                for run in _runs(octets, view, section, starts):
                    equal = _equal_columns(octets, view, run)
                    if equal is None:
                        starts += run.starts
                        continue
                    if starts:
                        found.append(_other_columns(octets, starts))
                        # The same list: the generator of the runs appends to it.
                        starts.clear()
                    found.append(equal)
        if starts or not found:
            found.append(_other_columns(octets, starts))
    except IndexError:
        raise _damaged(sections[0]) from None
    keys, values = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays([_joined(keys), _joined(values)], ["key", "value"])


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _starts_between(octets: Octets, view: memoryview, section: Section, start: int, end: int) -> list[int]:
    """Return where those records begin whose offsets are from ``start`` to before ``end``."""
    starts: list[int] = []
    _walk(view, section, starts)
    offsets = section.base_offset + _fields(octets, starts).deltas
    chosen: list[int] = np.array(starts)[(offsets >= start) & (offsets < end)].tolist()
    return chosen


def _walk(view: memoryview, section: Section, starts: list[int]) -> None:
    """Append where each record of a section begins. Raises MalformedRecord where they do not fill it."""
    if _step(view, section.start, section.count, starts) != section.end:
        raise _damaged(section)


def _step(view: memoryview, place: int, count: int, starts: list[int]) -> int:
    """Append where the next ``count`` records begin; return where the last one ends."""
    append = starts.append
    for _ in range(count):
        append(place)
        octet = view[place]
        if octet < 0x80:
            place += 1 + (octet >> 1)
        elif (second := view[place + 1]) < 0x80:
            place += 2 + ((octet & 0x7F | second << 7) >> 1)
        else:
            length, size = _varint(view, place)
            place += length + size
    return place


def _runs(octets: Octets, view: memoryview, section: Section, starts: list[int]) -> Iterator[Run]:
    """Yield the runs of many records; append to ``starts`` where the records between them begin, in order."""
    place, left, walked = section.start, section.count, FEW
    while left:
        length, size = _varint(view, place)
        whole = length + size
        most = min(left, (section.end - place) // whole) if length > 0 else 0
        # A record lies where the one before ends. So as long as the lengths are equal, all of them are known at once.
        same = _leading(octets, place, whole, most, range(size)) if most > FEW else 0
        if same > FEW:
            yield Run(place, whole, size, same)
            place, left, walked = place + same * whole, left - same, FEW
        else:
            # Where lengths change all the time, they are compared ever more seldom.
            count = min(left, walked)
            place, left, walked = _step(view, place, count, starts), left - count, 2 * walked
    if place != section.end:
        raise _damaged(section)


def _damaged(section: Section) -> MalformedRecord:
    return MalformedRecord(f"the record batch at offset {section.base_offset} is damaged: its records do not fill it")


def _varint(view: memoryview, place: int) -> tuple[int, int]:
    """Return the number at a place, and how many bytes it has."""
    octet = view[place]
    found, size = octet & 0x7F, 1
    while octet > 0x7F:
        octet = view[place + size]
        found |= (octet & 0x7F) << 7 * size
        size += 1
    return (found >> 1) ^ -(found & 1), size


def _leading(octets: Octets, place: int, whole: int, count: int, columns: Iterable[int], mask: int = 0xFF) -> int:
    """Return how many rows of ``whole`` bytes, from the first one on, have the first one's bytes in these columns."""
    rows = octets[place : place + count * whole].reshape(count, whole)
    differ = np.zeros(count, bool)
    for column in columns:
        differ |= ((rows[:, column] ^ rows[0, column]) & mask) != 0
    first = int(differ.argmax())
    return first if differ[first] else count


def _equal_columns(octets: Octets, view: memoryview, run: Run) -> Columns | None:
    """Return the columns where all records of a run have the same layout; None where one differs."""
    place = flags_from = run.start + run.size + 1
    for _ in range(2):  # its time and its offset, which differ, but not in size
        place += _varint(view, place)[1]
    key_size, size = _varint(view, place)
    key = place + size
    key_end = key + max(0, key_size)
    value_size, size = _varint(view, key_end)
    value = key_end + size
    if value + max(0, value_size) >= run.start + run.whole:
        raise IndexError("a value goes beyond its record")
    flags = range(flags_from - run.start, place - run.start)
    lengths = itertools.chain(range(place - run.start, key - run.start), range(key_end - run.start, value - run.start))
    for columns, mask in ((flags, 0x80), (lengths, 0xFF)):
        if _leading(octets, run.start, run.whole, run.count, columns, mask) < run.count:
            return None
    rows = octets[run.start : run.start + run.count * run.whole].reshape(run.count, run.whole)
    return _equal(rows, key - run.start, key_size), _equal(rows, value - run.start, value_size)


def _equal(rows: Octets, start: int, length: int) -> pa.Array:
    """Return ``length`` bytes of each row as a binary column; below 0 all are null."""
    count = len(rows)
    if length < 0:
        return pa.nulls(count, pa.binary())
    data = np.ascontiguousarray(rows[:, start : start + length])
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


@dataclass(frozen=True, slots=True)
class _Fields:
    """Of each record: its offset less its batch's, where key and value begin, and their sizes; below 0: null."""

    deltas: Integers
    keys: Integers
    key_sizes: Integers
    values: Integers
    value_sizes: Integers


def _other_columns(octets: Octets, starts: Sequence[int]) -> Columns:
    fields = _fields(octets, starts)
    return _binary(octets, fields.keys, fields.key_sizes), _binary(octets, fields.values, fields.value_sizes)


def _fields(octets: Octets, starts: Sequence[int]) -> _Fields:
    lengths, at = _varints(octets, np.array(starts, np.int64))
    ends = at + lengths
    _, at = _varints(octets, at + 1)  # behind its attributes: its time
    deltas, at = _varints(octets, at)
    key_sizes, keys = _varints(octets, at)
    value_sizes, values = _varints(octets, keys + np.maximum(key_sizes, 0))
    # Behind a value is the number of its headers. Where lengths are wrong, Arrow would read whatever lies there.
    if (values + np.maximum(value_sizes, 0) >= ends).any():
        raise IndexError("a value goes beyond its record")
    return _Fields(deltas, keys, key_sizes, values, value_sizes)


def _varints(octets: Octets, at: Integers) -> tuple[Integers, Integers]:
    """Return the signed number at each place, and the place behind it."""
    octet = octets.take(at)
    found = (octet & 0x7F).astype(np.int64)
    at = at + 1
    going = np.flatnonzero(octet > 0x7F)
    shift = 7
    while going.size:
        octet = octets.take(at[going])
        found[going] |= (octet & 0x7F).astype(np.int64) << shift
        at[going] += 1
        going = going[octet > 0x7F]
        shift += 7
    return (found >> 1) ^ -(found & 1), at


def _binary(octets: Octets, starts: Integers, lengths: Integers) -> pa.Array:
    """Return the bytes at each place as a binary column; a length below 0 is null."""
    rows = len(starts)
    nulls = lengths < 0
    if nulls.all():
        return pa.nulls(rows, pa.binary())
    # Each value, and what lies between it and the next one: every second is taken.
    ends = np.empty(2 * rows + 1, np.int32)
    ends[0:-1:2] = starts
    ends[1::2] = starts + np.maximum(lengths, 0)
    ends[-1] = ends[-2]
    both = pa.Array.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(ends), pa.py_buffer(octets)])
    places = pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32), mask=nulls if nulls.any() else None)
    return both.take(places)
