"""Decodes many records of ``__transaction_state`` at once, column by column; what is out of the ordinary is left to the reader.

The format is that of transaction_state_records.py, whose functions decode one record and say what is wrong with it. Here a
field is read for all records in one step: from one buffer that holds all values, at the place that it has in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from collector.records.formats.transaction_state import MAX_TIME_MS, BrokerStatus, TransactionStateValue, decode_value
from lifecycle.errors import MalformedRecord

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_HEAD = 17
_TIMES = 16
_KEY_HEAD = 4
_MAX_TOPICS = 8
_MAX_TAGS = 6
_NO_PRODUCER_ID = -1
_SETS_CACHED = 50_000
_SPARE = 64
"""Zeros behind the last value, so that a field of a record cut short is read there and found out afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumns:
    """States of transactional ids, row by row in the order given. Times are epoch ms; ``start_ms`` is -1 outside a transaction."""

    transaction: pa.Array
    producer_id: Integers
    producer_epoch: Integers
    timeout_ms: Integers
    status: Integers
    update_ms: Integers
    start_ms: Integers
    client_transaction_version: Integers
    previous_producer_id: Integers
    """-1 where it is not told."""
    partition_set: Integers
    """Index into ``partition_sets``."""
    partition_sets: tuple[tuple[str, ...], ...]


class StateDecoder:
    """Remembers the sets of partitions that it met: an application writes to the same ones again and again."""

    def __init__(self) -> None:
        self._sets: dict[bytes, tuple[str, ...] | None] = {}

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> tuple[StateColumns, Flags]:
        """Return the columns of the ordinary records, and a flag per record that says whether it is one of them.

        The others (tombstones, long lists of partitions, unknown versions, anything broken) are to be decoded one by one.
        """
        if None not in keys and None not in values:
            return self._decode(keys, values)  # type: ignore[arg-type]
        present = np.array([k is not None and v is not None for k, v in zip(keys, values, strict=True)], bool)
        chosen = present.nonzero()[0].tolist()
        columns, good = self._decode([keys[n] for n in chosen], [values[n] for n in chosen])  # type: ignore[misc]
        present[present] = good
        return columns, present

    def _decode(self, keys: Sequence[bytes], values: Sequence[bytes]) -> tuple[StateColumns, Flags]:
        ids, good = _ids(keys)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        ends = np.cumsum(lengths)
        at = ends - lengths
        joined = b"".join(values)
        raw = np.frombuffer(joined + bytes(_SPARE), np.uint8)
        good &= lengths >= _HEAD + 1 + _TIMES
        at = np.where(good, at, 0)
        version = _number(raw, at, 2)
        good &= (version == 0) | (version == 1)
        flexible = version == 1
        after = np.empty_like(at)
        for is_flexible in (True, False):
            chosen = (good & (flexible == is_flexible)).nonzero()[0]
            after[chosen], fine = _skip_partitions(raw, at[chosen] + _HEAD, ends[chosen], flexible=is_flexible)
            good[chosen] &= fine
        good &= after + _TIMES <= ends
        after = np.where(good, after, 0)
        previous_producer_id, client_transaction_version = np.full_like(at, _NO_PRODUCER_ID), np.zeros_like(at)
        chosen = (good & flexible).nonzero()[0]
        tagged = _tags(raw, after[chosen] + _TIMES, ends[chosen])
        previous_producer_id[chosen], client_transaction_version[chosen], fine = tagged
        good[chosen] &= fine
        good &= flexible | (after + _TIMES == ends)
        status = raw[at + 16].astype(np.int64)
        good &= status <= _MAX_STATUS  # unsigned: none is below 0
        partition_set, sets = self._partition_sets(joined, at + _HEAD, after, flexible, good)
        good &= partition_set >= 0
        update_ms, start_ms = _number(raw, after, 8), _number(raw, after + 8, 8)
        for times in (update_ms, start_ms):
            good &= (times >= -1) & (times <= MAX_TIME_MS)
        columns = StateColumns(
            transaction=ids,
            producer_id=_number(raw, at + 2, 8),
            producer_epoch=_number(raw, at + 10, 2),
            timeout_ms=_number(raw, at + 12, 4),
            status=status,
            update_ms=update_ms,
            start_ms=start_ms,
            client_transaction_version=client_transaction_version,
            previous_producer_id=previous_producer_id,
            partition_set=partition_set,
            partition_sets=sets,
        )
        return (columns if good.all() else _taken(columns, good)), good

    def _partition_sets(
        self, joined: bytes, start: Integers, end: Integers, flexible: Flags, good: Flags
    ) -> tuple[Integers, tuple[tuple[str, ...], ...]]:
        """Return for each record the number of its set (-1: not readable), and the sets by that number."""
        if len(self._sets) > _SETS_CACHED:
            self._sets.clear()
        # The two versions write one set in different bytes, so what is stored is known together with its version.
        marks = (b"0", b"1")
        places = zip(flexible.tolist(), np.where(good, start, 0).tolist(), np.where(good, end, 0).tolist(), strict=True)
        stored = pa.array([marks[mark] + joined[first:last] for mark, first, last in places], pa.binary())
        encoded = stored.dictionary_encode()
        numbers: dict[tuple[str, ...], int] = {}
        number_of: list[int] = []
        for text in encoded.dictionary.to_pylist():
            if text not in self._sets:
                self._sets[text] = _partitions(text[1:], version=1 if text[:1] == b"1" else 0)
            partitions = self._sets[text]
            number_of.append(-1 if partitions is None else numbers.setdefault(partitions, len(numbers)))
        return np.array(number_of, np.int64)[encoded.indices.to_numpy()], tuple(numbers)


_MAX_STATUS = max(status.value for status in BrokerStatus)


def _ids(keys: Sequence[bytes]) -> tuple[pa.Array, Flags]:
    """Return the ids of keys and which of them are good; ids of the others are null."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    raw = np.frombuffer(b"".join(keys) + bytes(_SPARE), np.uint8)
    at = np.cumsum(lengths) - lengths
    good = (lengths > _KEY_HEAD) & (_number(raw, at, 2) == 0) & (_number(raw, at + 2, 2) == lengths - _KEY_HEAD)
    texts = pa.array([key[_KEY_HEAD:] for key in keys], pa.binary())
    try:
        return texts.cast(pa.string()), good
    except pa.ArrowInvalid:  # one of them is not UTF-8: find out which
        ids = [_text(text) for text in texts.to_pylist()]
        return pa.array(ids, pa.string()), good & np.array([id_ is not None for id_ in ids])


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _number(raw: NDArray[np.uint8], at: Integers, size: int) -> Integers:
    """Return the big-endian signed numbers of ``size`` bytes at these places."""
    octets = raw[at[:, None] + np.arange(size)]
    numbers: Integers = octets.view(f">i{size}").ravel().astype(np.int64)
    return numbers


def _skip_partitions(raw: NDArray[np.uint8], at: Integers, ends: Integers, *, flexible: bool) -> tuple[Integers, Flags]:
    """Return the place behind the list of partitions of each record, and which could be followed to there."""
    topics, at, good = _length(raw, at, 4, flexible=flexible)
    good &= topics <= _MAX_TOPICS
    left = np.where(good, topics, 0)
    while (rows := (left > 0).nonzero()[0]).size:
        place = at[rows]
        length, place, fine = _length(raw, place, 2, flexible=flexible)
        fine &= (length >= 0) & (place + length + 4 <= ends[rows])
        place = np.where(fine, place + length, at[rows])
        count, place, small = _length(raw, place, 4, flexible=flexible)
        count = np.maximum(count, 0)
        fine &= small & (place + 4 * count + 1 <= ends[rows])
        place = np.where(fine, place + 4 * count, at[rows])
        if flexible:
            fine &= raw[place] == 0  # no tagged fields in a topic
            place = place + 1
        at[rows] = place
        good[rows] &= fine
        left[rows] = np.where(fine, left[rows] - 1, 0)
    return at, good


def _length(raw: NDArray[np.uint8], at: Integers, size: int, *, flexible: bool) -> tuple[Integers, Integers, Flags]:
    """Return the lengths at these places (null: -1), the places behind them, and which are ordinary.

    Compact: one byte that holds the length plus 1. Plain: ``size`` bytes.
    """
    if flexible:
        stored = raw[at].astype(np.int64)
        return stored - 1, at + 1, stored < 0x80
    stored = _number(raw, at, size)
    return stored, at + size, (stored >= -1) & (stored < 1 << 15)


def _tags(raw: NDArray[np.uint8], at: Integers, ends: Integers) -> tuple[Integers, Integers, Flags]:
    """Return the tagged previous producer id and client transaction version of each record, and whose tags end with it."""
    inside = at < ends
    at = np.where(inside, at, 0)
    left = np.where(inside, raw[at].astype(np.int64), 0)
    good = inside & (left <= _MAX_TAGS)
    at, left = at + 1, np.where(good, left, 0)
    previous_producer_id, client_transaction_version = np.full_like(at, _NO_PRODUCER_ID), np.zeros_like(at)
    while (rows := (left > 0).nonzero()[0]).size:
        place = np.minimum(at[rows], ends[rows])
        tag, size = raw[place].astype(np.int64), raw[place + 1].astype(np.int64)
        fine = (tag < 0x80) & (size < 0x80) & (place + 2 + size <= ends[rows])
        for wanted, width, found in ((0, 8, previous_producer_id), (2, 2, client_transaction_version)):
            is_it = fine & (tag == wanted)
            fine &= ~is_it | (size == width)
            found[rows] = np.where(is_it, _number(raw, place + 2, width), found[rows])
        at[rows] = np.where(fine, place + 2 + size, place)
        good[rows] &= fine
        left[rows] = np.where(fine, left[rows] - 1, 0)
    return previous_producer_id, client_transaction_version, good & (at == ends)


def _partitions(stored: bytes, version: int) -> tuple[str, ...] | None:
    """Return the partitions of a stored list, read as part of a whole record; None when the list is wrong."""
    head, times, tags = version.to_bytes(2, "big") + bytes(_HEAD - 2), bytes(_TIMES), b"\0" if version else b""
    try:
        value: TransactionStateValue = decode_value(head + stored + times + tags)
    except MalformedRecord:
        return None
    return value.partitions


def _taken(columns: StateColumns, good: Flags) -> StateColumns:
    return replace(
        columns,
        transaction=columns.transaction.filter(pa.array(good)),
        producer_id=columns.producer_id[good],
        producer_epoch=columns.producer_epoch[good],
        timeout_ms=columns.timeout_ms[good],
        status=columns.status[good],
        update_ms=columns.update_ms[good],
        start_ms=columns.start_ms[good],
        client_transaction_version=columns.client_transaction_version[good],
        previous_producer_id=columns.previous_producer_id[good],
        partition_set=columns.partition_set[good],
    )
