"""The judge: compares the produced records with those that independent readers saw, and names every anomaly as Jepsen does.

It is pure: it gets histories and never asks the pipeline. A record is (key, serial); a key's serials count from 0 in the order
of production, all in one source partition.

A *reread* follows a deleted checkpoint directory: the new checkpoint id reads the source from its start, so a record that an
earlier checkpoint id committed is there once more. The judge expects exactly that for each reread: one more copy of each record
that was certainly committed, at most one more of each record that was produced by then, and none of later records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

Record = tuple[str, int]
"""A key and a serial number."""
Place = Hashable
"""A record's permanent position: (partition, offset) in a topic."""


class Kind(Enum):
    """The kinds of anomalies."""

    LOST_WRITE = "lost write"
    """A produced record is in the source but not in the sink."""
    DUPLICATE = "duplicate"
    """A record is in the sink more often than it should be."""
    PRECOMMITTED_READ = "precommitted read"
    """During the run a read_committed reader saw a row that the final read does not have."""
    OUT_OF_ORDER = "out of order"
    """A key's records are not in the order of production, or are in two partitions."""
    NEVER_PRODUCED = "never produced"
    """The sink has a row that the workload did not produce, or that was aborted in the source."""
    ORPHANED = "orphaned transaction"
    """After the end a transaction of this pipeline is still in doubt."""
    ONE_SIDED = "one-sided commit"
    """A global transaction is committed in one resource manager and not in the other."""
    BLOCKED_READERS = "blocked readers"
    """After the end of the run, read_committed readers cannot reach the end of the sink."""
    STUCK = "stuck"
    """The pipeline did not finish a step within the limit; the text names the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A kind of anomaly in one sink, with its count and the first examples."""

    kind: Kind
    where: str
    count: int
    examples: str

    def __str__(self) -> str:
        return f"{self.kind.value} in {self.where}: {self.count} ({self.examples})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """A new checkpoint id: how many of each key's records were certainly in the sink, and how many were produced by then."""

    committed: Mapping[str, int]
    produced: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """A record as a reader of a topic got it; ``record`` is None for a value that the workload did not produce."""

    partition: int
    offset: int
    record: Record | None
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """The produced records: how many of each key, and the rereads in order."""

    counts: Mapping[str, int]
    rereads: Sequence[Reread] = ()

    def copies(self, record: Record) -> range:
        """Return how often the record may be in the sink: never, if it was not produced."""
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
    """Judge a topic: ``final`` is a fresh read_committed scan after the end, ``live`` the records read during the run."""
    anomalies = _judge_copies(where, produced, Counter(read.record for read in final if read.record is not None))
    anomalies += _anomaly(Kind.NEVER_PRODUCED, where, [_place(read) for read in final if read.record is None])
    anomalies += _anomaly(Kind.OUT_OF_ORDER, where, _order_breaks(final, checkpoint_ids=1 + len(produced.rereads)))
    places = {(read.partition, read.offset): read.value for read in final}
    early = [read for read in live if places.get((read.partition, read.offset)) != read.value]
    return anomalies + _anomaly(Kind.PRECOMMITTED_READ, where, [_place(read) for read in early])


def judge_table(
    where: str, produced: Produced, final: Counter[Record | bytes], live: Mapping[Record | bytes, int]
) -> list[Anomaly]:
    """Judge a table without a key: ``final`` counts each row after the end, ``live`` is each row's highest count during the run.

    A row that is not a record of the workload appears as its bytes.
    """
    anomalies = _judge_copies(where, produced, Counter({row: n for row, n in final.items() if isinstance(row, tuple)}))
    anomalies += _anomaly(Kind.NEVER_PRODUCED, where, [repr(row[:60]) for row in final if isinstance(row, bytes)])
    early = [f"{_name(row)} {seen} times, later {final[row]}" for row, seen in live.items() if seen > final[row]]
    return anomalies + _anomaly(Kind.PRECOMMITTED_READ, where, early)


def judge_counts(
    where: str, produced: Mapping[str, int], final: Mapping[str, int], live: Mapping[str, Sequence[int]]
) -> list[Anomaly]:
    """Judge a table of running counts (upserts): ``live`` has the values of each word as a reader saw them, in order."""
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


def judge_sides(
    names: tuple[str, str], first: Counter[Record | bytes], other: Counter[Record | bytes]
) -> list[Anomaly]:
    """Judge a global transaction: both resource managers must have each row equally often."""
    apart = [
        f"{_name(row)}: {first[row]} in {names[0]}, {other[row]} in {names[1]}"
        for row in {**first, **other}
        if first[row] != other[row]
    ]
    return _anomaly(Kind.ONE_SIDED, " and ".join(names), apart)


def judge_end(orphans: Collection[str], blocked: Collection[str]) -> list[Anomaly]:
    """Judge the state after the end: transactions in doubt, and partitions whose end readers cannot reach."""
    anomalies = _anomaly(Kind.ORPHANED, "the resource managers", list(orphans))
    return anomalies + _anomaly(Kind.BLOCKED_READERS, "the sink topic", list(blocked))


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


def _order_breaks(reads: Sequence[TopicRead], checkpoint_ids: int) -> list[str]:
    """Return the positions where a key's serials do not ascend; a new checkpoint id may start at 0 again, in the same partition."""
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
        elif serial == 0 and key in last and restarts[key] < checkpoint_ids - 1:
            restarts[key] += 1
        elif serial < last.get(key, -1) or (checkpoint_ids > 1 and serial == last.get(key)):
            # Among several checkpoint ids, an extra copy in one checkpoint id could hide behind a missing copy in another.
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
