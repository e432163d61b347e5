"""Many states of the coordinator's log as columns: what observers hand over where a record at a time would be too slow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from indoubt.collector.records.facts import FROM_RECORDS, BrokerIdentity, BrokerTransaction, Init
from indoubt.collector.records.formats.arrow_columns import Flags, Integers, text_codes
from indoubt.collector.records.formats.transaction_state import LAST_EPOCH, STATUSES, BrokerStatus, is_rotated
from indoubt.collector.records.formats.transaction_state_batch import StateColumns

_NO_MINIMUM, _NO_MAXIMUM = np.iinfo(np.int64).max, np.iinfo(np.int64).min

_IS_OF = {
    rule.statuses: np.array([STATUSES.get(number) in rule.statuses for number in range(max(STATUSES) + 1)])
    for rule in FROM_RECORDS.values()
}
"""Of the statuses that a field rests on, by their numbers, whether each is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecords:
    """States with their places in ``source``; row by row what a BrokerRecord and its Position say."""

    source: str
    partition: Integers
    offset: Integers
    states: StateColumns

    def __len__(self) -> int:
        return len(self.offset)


def records_of(source: str, partition: Integers, offset: Integers, states: StateColumns) -> BrokerRecords:
    """Return states as the records of the transactions that they belong to."""
    # Once its epochs are used up a producer id is changed with the very record that ends the transaction.
    rotated = is_rotated(states.status, states.producer_id, states.previous_producer_id)
    if rotated.any():
        states = replace(
            states,
            producer_id=np.where(rotated, states.previous_producer_id, states.producer_id),
            producer_epoch=np.where(rotated, LAST_EPOCH, states.producer_epoch),
        )
    return BrokerRecords(source=source, partition=partition, offset=offset, states=states)


def uses(records: BrokerRecords) -> Iterator[tuple[str, int, int]]:
    """Yield (transactional id, time of its first record, time of its newest record) for each id, in order of appearance."""
    if not len(records):
        return
    code, names = text_codes(records.states.transaction)
    order = np.argsort(code, kind="stable")
    firsts = np.flatnonzero(np.diff(code[order], prepend=-1))
    update_ms = records.states.update_ms[order]
    newest = np.maximum.reduceat(update_ms, firsts).tolist()
    yield from zip(names, update_ms[firsts].tolist(), newest, strict=True)


def inits(records: BrokerRecords) -> Iterator[tuple[str, Init]]:
    """Yield (transactional id, init) of every record that says that a producer took an id, in their order."""
    states = records.states
    rows = ((states.status == BrokerStatus.EMPTY.value) & (states.start_ms < 0)).nonzero()[0]
    if not rows.size:
        return
    ids = states.transaction.take(pa.array(rows)).to_pylist()
    numbers = zip(states.update_ms[rows], states.producer_id[rows], states.producer_epoch[rows], strict=True)
    for id_, (at_ms, producer_id, epoch) in zip(ids, numbers, strict=True):
        yield id_, Init(at_ms=int(at_ms), producer_id=int(producer_id), producer_epoch=int(epoch))


def transactions(records: BrokerRecords) -> Iterator[BrokerTransaction]:
    """Yield each transaction that the records belong to, with all that they tell about it, in no order."""
    states = records.states
    rows = (states.start_ms >= 0).nonzero()[0]
    if not rows.size:
        return
    code, names = text_codes(states.transaction)
    order = rows[np.lexsort((states.start_ms[rows], states.producer_id[rows], code[rows]))]
    code, producer_id, start_ms = code[order], states.producer_id[order], states.start_ms[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(code) != 0) | (np.diff(producer_id) != 0) | (np.diff(start_ms) != 0)
    firsts = is_new.nonzero()[0]
    status = states.status[order]
    is_of: dict[tuple[BrokerStatus, ...], Flags] = {}
    found: dict[str, list[int | None]] = {}
    for name, rule in FROM_RECORDS.items():
        if rule.statuses not in is_of:
            is_of[rule.statuses] = _IS_OF[rule.statuses][status]
        values = getattr(states, rule.field)[order]
        found[name] = _of_groups(values, is_of[rule.statuses], firsts, takes_min=rule.takes_min)
    starts = start_ms[firsts].tolist()
    # One object where it was written to only once, at its start: a million of them are in memory.
    last_writes = zip(starts, found["last_write_ms"], strict=True)
    found["last_write_ms"] = [start if at == start else at for start, at in last_writes]
    sets = _unions(states.partition_set[order].tolist(), states.partition_sets, [*firsts.tolist(), len(order)])
    ids, producers = (names[each] for each in code[firsts].tolist()), producer_id[firsts].tolist()
    for *identity, partitions, rest in zip(
        ids, producers, starts, sets, zip(*found.values(), strict=True), strict=True
    ):
        yield BrokerTransaction(BrokerIdentity(*identity), partitions, records.source, *rest)


def _of_groups(values: Integers, counts: Flags, firsts: Integers, *, takes_min: bool) -> list[int | None]:
    """Return the minimum or the maximum of each group's values that count, None where none does."""
    pick, nothing = (np.minimum, _NO_MINIMUM) if takes_min else (np.maximum, _NO_MAXIMUM)
    found = pick.reduceat(np.where(counts, values, nothing), firsts).tolist()
    return [None if value == nothing else value for value in found]


def _unions(numbers: list[int], sets: tuple[tuple[str, ...], ...], bounds: list[int]) -> Iterator[frozenset[str]]:
    """Yield the union of each group's sets; groups with the same sets share one union."""
    known: dict[tuple[int, ...], frozenset[str]] = {}
    for first, end in itertools.pairwise(bounds):
        group = tuple(numbers[first:end])
        found = known.get(group)
        if found is None:
            found = known[group] = _SHARED.share(frozenset().union(*(sets[number] for number in set(group))))
        yield found


class _Shared:
    """One object for equal sets of partitions: a million transactions write to a few sets."""

    _MAX_KNOWN = 20_000

    def __init__(self) -> None:
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def share(self, partitions: frozenset[str]) -> frozenset[str]:
        if len(self._known) > self._MAX_KNOWN:
            self._known.clear()
        return self._known.setdefault(partitions, partitions)


_SHARED = _Shared()
