"""The judge: compares what was produced with what independent readers saw, and names every anomaly as Jepsen does.

Pure: it is given histories and never asks the pipeline. A record is (key, serial); a key's serials count from 0 in the order
in which they were produced, all into one source partition.

A *reread* is what a deleted checkpoint directory asks for: the new life reads the source from its start, so a record that an
earlier life had committed is there once more. The judge expects exactly that: for each reread one more copy of what had been
committed for certain, at most one more of what had been produced by then, none of what came later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

Record = tuple[str, int]
"""A key and a serial number."""
Place = Hashable
"""Where a record stands for good: (partition, offset) in a topic."""


class Kind(Enum):
    """What can be wrong."""

    LOST_WRITE = "lost write"
    """A record that was produced is in the source and not in the sink."""
    DUPLICATE = "duplicate"
    """A record is in the sink more often than it should be."""
    PRECOMMITTED_READ = "precommitted read"
    """A read_committed reader saw, during the run, what a later final read does not hold."""
    OUT_OF_ORDER = "out of order"
    """The records of one key stand in another order than they were produced in, or in two partitions."""
    NEVER_PRODUCED = "never produced"
    """The sink holds what nobody produced, or what was aborted in the source."""
    ORPHANED = "orphaned transaction"
    """After the end a transaction of this pipeline is still in doubt."""
    ONE_SIDED = "one-sided commit"
    """A global transaction is committed in one resource manager and not in the other."""
    BLOCKED_READERS = "blocked readers"
    """After the end read_committed readers of the sink cannot reach its end."""
    STUCK = "stuck"
    """The pipeline did not do within the limit what it must: the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One kind of anomaly in one place, how often, and the first examples."""

    kind: Kind
    where: str
    count: int
    examples: str

    def __str__(self) -> str:
        return f"{self.kind.value} in {self.where}: {self.count} ({self.examples})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """A new life began: how many of each key's records were in the sink for certain, and how many were produced by then."""

    committed: Mapping[str, int]
    produced: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """One record as a reader of a topic got it; ``record`` is None for a value that nobody produced."""

    partition: int
    offset: int
    record: Record | None
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """What was produced: how many records of each key, and the rereads in their order."""

    counts: Mapping[str, int]
    rereads: Sequence[Reread] = ()

    def copies(self, record: Record) -> range:
        """Return how often the record may be in the sink; a record that was never produced: not at all."""
        key, serial = record
        if not 0 <= serial < self.counts.get(key, 0):
            return range(1)
        least = 1 + sum(serial < reread.committed.get(key, 0) for reread in self.rereads)
        most = 1 + sum(serial < reread.produced.get(key, 0) for reread in self.rereads)
        return range(least, most + 1)

    def records(self) -> Iterable[Record]:
        """Return every record, by key."""
        return ((key, serial) for key, count in self.counts.items() for serial in range(count))


def judge_topic(where: str, produced: Produced, final: Sequence[TopicRead], live: Sequence[TopicRead]) -> list[Anomaly]:
    """Judge a topic: ``final`` is a fresh read_committed scan after the end, ``live`` what one saw during the run."""
    found = _judge_copies(where, produced, Counter(read.record for read in final if read.record is not None))
    found += _anomaly(Kind.NEVER_PRODUCED, where, [_place(read) for read in final if read.record is None])
    found += _anomaly(Kind.OUT_OF_ORDER, where, _order_breaks(final, lives=1 + len(produced.rereads)))
    places = {(read.partition, read.offset): read.value for read in final}
    early = [read for read in live if places.get((read.partition, read.offset)) != read.value]
    return found + _anomaly(Kind.PRECOMMITTED_READ, where, [_place(read) for read in early])


def judge_table(
    where: str, produced: Produced, final: Counter[Record | bytes], live: Mapping[Record | bytes, int]
) -> list[Anomaly]:
    """Judge a table without a key: ``final`` counts its rows after the end, ``live`` the most of each seen at one time.

    A row that is not a record of the workload stands there as its bytes.
    """
    found = _judge_copies(where, produced, Counter({row: n for row, n in final.items() if isinstance(row, tuple)}))
    found += _anomaly(Kind.NEVER_PRODUCED, where, [repr(row[:60]) for row in final if isinstance(row, bytes)])
    early = [f"{_name(row)} {seen} times, later {final[row]}" for row, seen in live.items() if seen > final[row]]
    return found + _anomaly(Kind.PRECOMMITTED_READ, where, early)


def judge_counts(
    where: str, produced: Mapping[str, int], final: Mapping[str, int], live: Mapping[str, Sequence[int]]
) -> list[Anomaly]:
    """Judge a table of running counts (upserts): ``live`` holds the values of each word as a reader saw them, in order."""
    low = [f"{word}: {final.get(word, 0)} of {count}" for word, count in produced.items() if final.get(word, 0) < count]
    high = [f"{word}: {final[word]} of {n}" for word, n in produced.items() if final.get(word, 0) > n]
    back = [
        f"{word}: {values}, then {final.get(word)}"
        for word, values in live.items()
        if list(values) != sorted(values) or (values and values[-1] > final.get(word, 0))
    ]
    return [
        *_anomaly(Kind.LOST_WRITE, where, low),
        *_anomaly(Kind.DUPLICATE, where, high),
        *_anomaly(Kind.NEVER_PRODUCED, where, [word for word in final if word not in produced]),
        *_anomaly(Kind.PRECOMMITTED_READ, where, back),
    ]


def judge_sides(names: tuple[str, str], one: Counter[Record | bytes], other: Counter[Record | bytes]) -> list[Anomaly]:
    """Judge a global transaction: what is in one resource manager must be in the other as often."""
    apart = [
        f"{_name(row)}: {one[row]} in {names[0]}, {other[row]} in {names[1]}"
        for row in {**one, **other}
        if one[row] != other[row]
    ]
    return _anomaly(Kind.ONE_SIDED, " and ".join(names), apart)


def judge_end(orphans: Collection[str], blocked: Collection[str]) -> list[Anomaly]:
    """Judge what is left after the end: transactions in doubt, and partitions whose end readers cannot reach."""
    found = _anomaly(Kind.ORPHANED, "the resource managers", list(orphans))
    return found + _anomaly(Kind.BLOCKED_READERS, "the sink topic", list(blocked))


def _judge_copies(where: str, produced: Produced, found: Counter[Record]) -> list[Anomaly]:
    lost = [f"{_name(r)} {found[r]} times" for r in produced.records() if found[r] < produced.copies(r).start]
    known = [(record, n) for record, n in found.items() if produced.copies(record) != range(1)]
    extra = [f"{_name(record)} {n} times" for record, n in known if n >= produced.copies(record).stop]
    foreign = [_name(record) for record in found if produced.copies(record) == range(1)]
    return [
        *_anomaly(Kind.LOST_WRITE, where, lost),
        *_anomaly(Kind.DUPLICATE, where, extra),
        *_anomaly(Kind.NEVER_PRODUCED, where, foreign),
    ]


def _order_breaks(reads: Sequence[TopicRead], lives: int) -> list[str]:
    """Return where a key's serials do not ascend; a new life may begin at 0 again, in the same partition."""
    partition_of: dict[str, int] = {}
    last: dict[str, int] = {}
    restarts: Counter[str] = Counter()
    breaks = []
    for read in sorted(reads, key=lambda read: (read.partition, read.offset)):
        if read.record is None:
            continue
        key, serial = read.record
        if partition_of.setdefault(key, read.partition) != read.partition:
            breaks.append(f"{key} in partitions {partition_of[key]} and {read.partition}")
        elif serial == 0 and key in last and restarts[key] < lives - 1:
            restarts[key] += 1
        elif serial < last.get(key, -1) or (lives > 1 and serial == last.get(key)):
            # Among several lives a copy too many in one could hide behind a copy too few in another.
            breaks.append(f"{_name((key, serial))} after {last[key]}, offset {read.offset}")
        last[key] = serial
    return breaks


def _anomaly(kind: Kind, where: str, examples: Sequence[str]) -> list[Anomaly]:
    if not examples:
        return []
    return [Anomaly(kind=kind, where=where, count=len(examples), examples="; ".join(examples[:4]))]


def _name(row: Record | bytes) -> str:
    return f"{row[0]} {row[1]}" if isinstance(row, tuple) else repr(row[:60])


def _place(read: TopicRead) -> str:
    what = _name(read.record) if read.record is not None else repr(read.value[:60])
    return f"{what} at partition {read.partition}, offset {read.offset}"
