"""What was last seen of partitions and of the groups that read them, put together: who is blocked, and behind whom. No I/O.

For the one thread that looks; readers get the frozen findings that it makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from indoubt.collector.verdicts.blocked_readers import (
    PartitionSnapshot,
    Reader,
    ReaderKind,
    ReaderSnapshot,
    RestoreSnapshot,
    Tail,
    judge_reader,
    judge_restore,
    partition_sight,
    reader_sight,
    restore_sight,
)
from indoubt.collector.verdicts.hanging_transactions import Suspect
from indoubt.resource_managers.kafka.partitions import OpenProducer, Partition

TAILS_KEPT = 20_000
POLLS_TO_BE_UNKNOWN = 2
Snapshot = TypeVar("Snapshot", PartitionSnapshot, ReaderSnapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a last stable offset back. ``key`` names its row (transactions or hanging), empty while it is unknown."""

    producer: OpenProducer
    key: str
    transaction: str
    opened_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A partition with hidden records or groups that have something to be said about; ``holder`` where one was found."""

    snapshot: PartitionSnapshot
    holder: Holder | None
    readers: tuple[Reader, ...]
    polls_without_name: int = 0
    """So many polls in a row, but the first, saw this last stable offset held back, and no transaction that does it by name."""

    @property
    def holder_is_unknown(self) -> bool:
        """True when it stays unknown who holds the partition back: what ended between two questions of a poll is no holder."""
        return not _is_known(self.holder) and self.polls_without_name >= POLLS_TO_BE_UNKNOWN

    @property
    def held_since_ms(self) -> int | None:
        """Return since when its last stable offset is held back, as far as is known; None when it is not."""
        if self.snapshot.hidden == 0:
            return None
        opened_ms = self.holder.opened_ms if self.holder is not None else None
        return self.snapshot.since_ms if opened_ms is None else min(opened_ms, self.snapshot.since_ms)

    @property
    def waiting(self) -> tuple[Reader, ...]:
        """Return the groups that wait behind the holder, the longest first."""
        return tuple(reader for reader in self.readers if reader.kind is ReaderKind.WAITING)

    @property
    def needs_attention(self) -> bool:
        """True where records are hidden, or a group with members has stopped."""
        stalled = (r for r in self.readers if r.kind is ReaderKind.STALLED and not r.is_without_members)
        return self.snapshot.hidden > 0 or any(stalled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGroup:
    """A consumer group: Kafka's word for its state, and how many members it has, None where that is not known."""

    state: str
    members: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFindings:
    """Everything known of blocked partitions and hanging transactions at ``at_ms``."""

    at_ms: int
    blocked: tuple[Blocked, ...] = ()
    hanging: tuple[Suspect, ...] = ()
    read_by: Mapping[str, frozenset[Partition]] = field(default_factory=dict)
    """Consumer group -> the partitions on which it has committed offsets, whether it lags or not."""
    snapshots: Mapping[Partition, PartitionSnapshot] = field(default_factory=dict)
    """Every partition that is watched, as it was polled last."""
    groups: Mapping[str, SeenGroup] = field(default_factory=dict)
    """The consumer groups of the cluster, by name."""

    def hanging_of(self, key: str) -> Suspect | None:
        """Return the proven hanging transaction of that key, or None."""
        return next((suspect for suspect in self.hanging if suspect.key == key), None)


NOTHING_SEEN = PartitionFindings(at_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailWanted:
    """A stretch to be read: from where nothing was found yet, up to the last stable offset. ``offset``: the group's."""

    partition: Partition
    offset: int
    start: int
    end: int


class Tails:
    """What read_committed readers find behind committed offsets; proven once, since what is below the LSO never changes."""

    def __init__(self) -> None:
        self._records: dict[tuple[Partition, int], int] = {}
        self._nothing_up_to: dict[tuple[Partition, int], int] = {}

    def between(self, partition: Partition, offset: int, end: int) -> Tail:
        """Return what is from ``offset`` up to ``end``, as far as it was read."""
        if (partition, offset) in self._records:
            return Tail.RECORDS
        read_to = self._nothing_up_to.get((partition, offset))
        return Tail.NOTHING if read_to is not None and read_to >= end else Tail.UNREAD

    def record_ms(self, partition: Partition, offset: int) -> int:
        """Return since when (epoch ms) a record is known to be behind ``offset``; 0 where none is."""
        return self._records.get((partition, offset), 0)

    def wanted(self, partition: Partition, offset: int, end: int) -> TailWanted:
        """Return what is left to be read of a stretch."""
        start = max(offset, self._nothing_up_to.get((partition, offset), offset))
        return TailWanted(partition=partition, offset=offset, start=start, end=end)

    def learn(self, wanted: TailWanted, at_ms: int, *, has_record: bool, read_to: int) -> None:
        """Note that a record was found, or that there is none up to ``read_to``."""
        if len(self._records) + len(self._nothing_up_to) >= TAILS_KEPT:
            self._records.clear()
            self._nothing_up_to.clear()
        key = (wanted.partition, wanted.offset)
        if has_record:
            self._records.setdefault(key, at_ms)
            self._nothing_up_to.pop(key, None)
        else:
            self._nothing_up_to[key] = max(read_to, self._nothing_up_to.get(key, read_to))

    def shift(self, by_ms: int) -> None:
        """Move all times: the clock that gave them was stepped by this."""
        self._records = {key: at_ms + by_ms for key, at_ms in self._records.items()}


class PartitionTracker:
    """The last poll of each partition and reader, and what follows from them."""

    def __init__(self, stalled_ms: int) -> None:
        self._tails = Tails()
        self._stalled_ms = stalled_ms
        self._partitions: dict[Partition, PartitionSnapshot] = {}
        self._hiding: set[Partition] = set()
        """Those of them that hid records."""
        self._groups: dict[str, dict[Partition, ReaderSnapshot]] = {}
        self._readers: dict[Partition, set[str]] = {}
        self._read_by: dict[str, frozenset[Partition]] = {}
        self._holders: dict[Partition, Holder | None] = {}
        self._polls_without_name: dict[Partition, int] = {}
        self._restores: dict[Partition, RestoreSnapshot] = {}
        self._blocked: dict[Partition, Blocked] = {}
        self._touched: set[Partition] = set()

    def saw_partition(self, partition: Partition, last_stable_offset: int, high_watermark: int, at_ms: int) -> None:
        """Note one poll of a partition."""
        before = self._partitions.get(partition)
        after = partition_sight(before, partition, last_stable_offset, high_watermark, at_ms)
        self._partitions[partition] = after
        (self._hiding.add if after.hidden > 0 else self._hiding.discard)(partition)
        self._touched.add(partition)
        if after.hidden == 0 or (before is not None and before.last_stable_offset != last_stable_offset):
            self._holders.pop(partition, None)
        if after.stands and not _is_known(self._holders.get(partition)):
            self._polls_without_name[partition] = self._polls_without_name.get(partition, 0) + 1
        else:
            self._polls_without_name.pop(partition, None)

    def saw_group(
        self, group: str, state: str, offsets: Mapping[Partition, int], at_ms: int, *, is_whole: bool
    ) -> None:
        """Note a poll of a group's committed offsets; ``is_whole``: of all of them, so that what is missing is gone."""
        known = self._groups.setdefault(group, {})
        self._touched |= offsets.keys()
        for partition, offset in offsets.items():
            known[partition] = reader_sight(known.get(partition), group, partition, offset, state, at_ms)
            self._readers.setdefault(partition, set()).add(group)
        if is_whole:
            for partition in known.keys() - offsets.keys():
                self._forget_reader(group, partition)
        if self._read_by.get(group, frozenset()) != known.keys():
            self._read_by[group] = frozenset(known)

    def saw_holder(self, partition: Partition, holder: Holder | None) -> None:
        """Note who holds a partition's last stable offset back."""
        self._touched.add(partition)
        self._holders[partition] = holder

    def saw_restore(self, partition: Partition, application: str, store: str, state: str, at_ms: int) -> None:
        """Note which application restores a store from a changelog partition, and Kafka's word for its group."""
        self._touched.add(partition)
        self._restores[partition] = restore_sight(self._restores.get(partition), application, store, state, at_ms)

    def keep_only_restores(self, partitions: Collection[Partition]) -> None:
        """Forget the restores from other partitions than these."""
        for partition in self._restores.keys() - set(partitions):
            del self._restores[partition]
            self._touched.add(partition)

    def holder(self, partition: Partition) -> Holder | None:
        """Return who holds a partition's last stable offset back, where that is known."""
        return self._holders.get(partition)

    def shift(self, by_ms: int) -> None:
        """Move all times: the clock that gave them was stepped by this."""
        self._restores = {
            partition: replace(restore, since_ms=restore.since_ms + by_ms)
            for partition, restore in self._restores.items()
        }
        self._partitions = {partition: _moved(snapshot, by_ms) for partition, snapshot in self._partitions.items()}
        self._groups = {group: {p: _moved(r, by_ms) for p, r in known.items()} for group, known in self._groups.items()}
        self._tails.shift(by_ms)
        self._touched |= self._partitions.keys()

    def keep_only(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that are not there any more."""
        for partition in self._partitions.keys() - set(partitions):
            del self._partitions[partition]
            self._hiding.discard(partition)
            self._holders.pop(partition, None)
            self._polls_without_name.pop(partition, None)
            self._touched.add(partition)

    def keep_only_groups(self, groups: Iterable[str]) -> None:
        """Forget groups that are not there any more."""
        for group in self._groups.keys() - set(groups):
            for partition in list(self._groups[group]):
                self._forget_reader(group, partition)
            del self._groups[group]
            self._read_by.pop(group, None)

    def read_by(self) -> dict[str, frozenset[Partition]]:
        """Return group -> the partitions on which it has committed offsets."""
        return self._read_by.copy()

    def snapshots(self) -> dict[Partition, PartitionSnapshot]:
        """Return every partition as it was polled last."""
        return self._partitions.copy()

    def hiding(self) -> set[Partition]:
        """Return the partitions that hid records when they were last seen."""
        return self._hiding.copy()

    def held(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Return those whose last stable offset stands: an open transaction holds it back."""
        return [p for p in partitions if (snapshot := self._partitions.get(p)) is not None and snapshot.stands]

    def readers_of(self, partitions: Iterable[Partition]) -> dict[str, list[Partition]]:
        """Return group -> those of these partitions that it has committed offsets on."""
        found: dict[str, list[Partition]] = {}
        for partition in partitions:
            for group in self._readers.get(partition, ()):
                found.setdefault(group, []).append(partition)
        return found

    def not_up_to_date(self, groups: Iterable[str]) -> set[Partition]:
        """Return the partitions where one of these groups was not at the last stable offset: they need a newer poll."""
        found: set[Partition] = set()
        for group in groups:
            for partition, reader in self._groups.get(group, {}).items():
                snapshot = self._partitions.get(partition)
                if snapshot is None or snapshot.last_stable_offset != reader.offset:
                    found.add(partition)
        return found

    def unread_tails(self, most: int) -> list[TailWanted]:
        """Return stretches to be read, so that markers can be told from records: groups that stand below the offset."""
        found: list[TailWanted] = []
        for group in self._groups.values():
            for partition, reader in group.items():
                snapshot = self._partitions.get(partition)
                # A poll of the partition that is older than the group's: its leader does not answer.
                if snapshot is None or snapshot.seen_ms < reader.seen_ms or not reader.stands:
                    continue
                if reader.offset >= snapshot.last_stable_offset:
                    continue
                end = snapshot.last_stable_offset
                if self._tails.between(partition, reader.offset, end) is Tail.UNREAD:
                    found.append(self._tails.wanted(partition, reader.offset, end))
                    if len(found) == most:
                        return found
        return found

    def read_tail(self, wanted: TailWanted, *, has_record: bool, read_to: int) -> None:
        """Note what a stretch holds: a record, or none up to ``read_to``."""
        if (snapshot := self._partitions.get(wanted.partition)) is not None:
            self._tails.learn(wanted, snapshot.seen_ms, has_record=has_record, read_to=read_to)
            self._touched.add(wanted.partition)

    def blocked(self) -> tuple[Blocked, ...]:
        """Return every partition that hides records or has a group with a lag, the longest waits first."""
        for partition in self._touched:
            snapshot = self._partitions.get(partition)
            readers = self._judged(partition, snapshot) if snapshot is not None else ()
            if snapshot is None or not (snapshot.hidden or readers):
                self._blocked.pop(partition, None)
            else:
                holder = self._holders.get(partition)
                self._blocked[partition] = Blocked(
                    snapshot=snapshot,
                    holder=holder,
                    readers=readers,
                    polls_without_name=self._polls_without_name.get(partition, 0),
                )
        self._touched.clear()
        return tuple(sorted(self._blocked.values(), key=_urgency))

    def _judged(self, partition: Partition, snapshot: PartitionSnapshot) -> tuple[Reader, ...]:
        found: list[Reader] = []
        for group in self._readers.get(partition, ()):
            reader = self._groups[group][partition]
            tail = self._tails.between(partition, reader.offset, snapshot.last_stable_offset)
            record_ms = self._tails.record_ms(partition, reader.offset)
            judged = judge_reader(reader, snapshot, tail, record_ms, self._stalled_ms)
            if judged is not None:
                found.append(judged)
        restore = self._restores.get(partition)
        if restore is not None and (waits := judge_restore(restore, snapshot)) is not None:
            found.append(waits)
        return tuple(sorted(found, key=lambda r: (list(ReaderKind).index(r.kind), r.since_ms, r.group)))

    def _forget_reader(self, group: str, partition: Partition) -> None:
        self._groups[group].pop(partition, None)
        self._touched.add(partition)
        readers = self._readers.get(partition, set())
        readers.discard(group)
        if not readers:
            self._readers.pop(partition, None)


def _is_known(holder: Holder | None) -> bool:
    return holder is not None and bool(holder.transaction or holder.key)


def _moved(snapshot: Snapshot, by_ms: int) -> Snapshot:
    return replace(snapshot, since_ms=snapshot.since_ms + by_ms, seen_ms=snapshot.seen_ms + by_ms)


def _urgency(blocked: Blocked) -> tuple[bool, bool, int, Partition]:
    waiting, snapshot = blocked.waiting, blocked.snapshot
    since_ms = waiting[0].since_ms if waiting else blocked.held_since_ms or snapshot.seen_ms
    return not waiting, not blocked.needs_attention, since_ms, snapshot.partition
