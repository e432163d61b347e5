"""Decodes many records of ``__transaction_state`` at once, column by column; what is broken or rare is left to the reader.

transaction_state.py has the format and finds the layout of one value of each kind that occurs. A field is then read for all
values in one step: from one buffer that holds them all, at the place that it has in each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indoubt.collector.records.formats.arrow_columns import Flags, Integers
from indoubt.collector.records.formats.transaction_state import (
    DEFAULTS,
    HEAD,
    HEAD_AT,
    ID_AT,
    KEY_HEAD,
    KEY_VERSION,
    MAX_TIME_MS,
    PARTITIONS_AT,
    STATUSES,
    TAGGED,
    TIMES,
    Layout,
    decode_key,
    layout_of,
    partitions_of,
)
from indoubt.lifecycle.durations import NO_TIMEOUT_MS
from indoubt.lifecycle.errors import MalformedRecord

_MAX_LAYOUTS = 1_000
"""How many values are walked to find layouts, of the records of one call."""
_SETS_CACHED = 50_000
_SPARE = 64
"""Zeros behind the last text: of a key cut short the head is read there, and its length is then found wrong."""


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
    """-1 where it is absent."""
    partition_set: Integers
    """Index into ``partition_sets``."""
    partition_sets: tuple[tuple[str, ...], ...]


class StateDecoder:
    """Remembers the sets of partitions that it met: an application writes to the same ones again and again."""

    def __init__(self) -> None:
        self._sets: dict[bytes, tuple[str, ...] | None] = {}

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> tuple[StateColumns, Flags]:
        """Return the columns of the ordinary records, and a flag per record that says whether it is one of them.

        The others (tombstones, rare layouts, unknown versions, anything broken) are to be decoded one by one.
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
        raw, at, lengths = _joined(values)
        layouts, number = _layouts(values, raw, at, lengths)
        good &= number >= 0
        if not good.all():
            number, at, values = number[good], at[good], [values[row] for row in good.nonzero()[0].tolist()]
        times_at = np.array([layout.times_at for layout in layouts], np.int64)[number]
        numbers = {**_read(raw, at + HEAD_AT, HEAD), **_read(raw, at + times_at, TIMES)}
        numbers["timeout_ms"] = np.where(numbers["timeout_ms"] == NO_TIMEOUT_MS, 0, numbers["timeout_ms"])
        for name, kind in TAGGED.values():
            place = np.array([layout.tagged.get(name, -1) for layout in layouts], np.int64)[number]
            read = _read(raw, at + place, {name: kind})[name]
            numbers[name] = np.where(place < 0, DEFAULTS[name], read)
        partition_set, sets = self._partition_sets(values, layouts, number)
        fine = (partition_set >= 0) & (numbers["status"] >= 0) & (numbers["status"] <= max(STATUSES))
        for times in (numbers["update_ms"], numbers["start_ms"]):
            fine &= (times >= -1) & (times <= MAX_TIME_MS)
        if not fine.all():
            good[good] = fine
            numbers, partition_set = {name: column[fine] for name, column in numbers.items()}, partition_set[fine]
        transaction = ids if good.all() else ids.filter(pa.array(good))
        return StateColumns(transaction=transaction, partition_set=partition_set, partition_sets=sets, **numbers), good

    def _partition_sets(
        self, values: Sequence[bytes], layouts: Sequence[Layout], number: Integers
    ) -> tuple[Integers, tuple[tuple[str, ...], ...]]:
        """Return for each value the number of its set (-1: not readable), and the sets by that number."""
        if len(self._sets) > _SETS_CACHED:
            self._sets.clear()
        # The two versions write one set in different bytes, so what is stored is known together with its version.
        marks, ends = [b"%d" % layout.version for layout in layouts], [layout.times_at for layout in layouts]
        places = zip(values, number.tolist(), strict=True)
        stored = pa.array([marks[n] + value[PARTITIONS_AT : ends[n]] for value, n in places], pa.binary())
        encoded = stored.dictionary_encode()
        code, texts = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        if not self._sets.keys() >= set(texts):
            for text, row in zip(texts, np.unique(code, return_index=True)[1].tolist(), strict=True):
                if text not in self._sets:
                    self._sets[text] = _partitions(values[row], layouts[number[row]])
        known = [self._sets[text] for text in texts]
        sets = {partitions: n for n, partitions in enumerate(dict.fromkeys(p for p in known if p is not None))}
        numbers = np.array([-1 if partitions is None else sets[partitions] for partitions in known], np.int64)
        return numbers[code], tuple(sets)


def _partitions(value: bytes, layout: Layout) -> tuple[str, ...] | None:
    try:
        return partitions_of(value, layout)
    except MalformedRecord:
        return None


def _joined(texts: Sequence[bytes]) -> tuple[NDArray[np.uint8], Integers, Integers]:
    """Return texts one behind the other, where each of them begins, and how long it is."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.frombuffer(b"".join(texts) + bytes(_SPARE), np.uint8), np.cumsum(lengths) - lengths, lengths


def _ids(keys: Sequence[bytes]) -> tuple[pa.Array, Flags]:
    """Return the ids of keys and which of them are good; ids of the others are null."""
    raw, at, lengths = _joined(keys)
    head = _read(raw, at, KEY_HEAD)
    good = (lengths > ID_AT) & (head["version"] == KEY_VERSION) & (head["length"] == lengths - ID_AT)
    try:
        return pa.array([key[ID_AT:] for key in keys], pa.binary()).cast(pa.string()), good
    except pa.ArrowInvalid:  # one of them is not UTF-8: find out which
        ids = pa.array([_id(key) for key in keys], pa.string())
        return ids, ids.is_valid().to_numpy(zero_copy_only=False).copy()


def _id(key: bytes) -> str | None:
    try:
        return decode_key(key)
    except MalformedRecord:
        return None


def _layouts(
    values: Sequence[bytes], raw: NDArray[np.uint8], at: Integers, lengths: Integers
) -> tuple[list[Layout], Integers]:
    """Return layouts, and for each value the number of its own; -1 where it has none of them."""
    layouts: list[Layout] = []
    number = np.full(len(values), -1)
    order = np.argsort(lengths, kind="stable")
    tries = 0
    for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        while rows.size and tries < _MAX_LAYOUTS:
            tries += 1
            value = values[rows[0]]
            try:
                layout = layout_of(value)
            except MalformedRecord:
                rows = rows[1:]
                continue
            same = np.ones(len(value), bool)
            for begin, end in layout.contents:
                same[begin:end] = False
            fixed = same.nonzero()[0]
            is_alike = (raw[at[rows][:, None] + fixed] == raw[at[rows[0]] + fixed]).all(axis=1)
            number[rows[is_alike]] = len(layouts)
            layouts.append(layout)
            rows = rows[~is_alike]
    return layouts, number


def _read(raw: NDArray[np.uint8], at: Integers, kinds: Mapping[str, str]) -> dict[str, Integers]:
    """Return numbers by name that stand side by side from each of these places on."""
    together = np.dtype([(name, ">" + kind) for name, kind in kinds.items()])
    found = raw[at[:, None] + np.arange(together.itemsize)].view(together).ravel()
    return {name: found[name].astype(np.int64) for name in kinds}
