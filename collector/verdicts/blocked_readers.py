"""Which consumer groups wait behind a partition's last stable offset, inferred from what they committed: pure, no clock.

A broker does not know a group's isolation level; what its committed offset does beside the last stable offset tells it,
with how sure that is. Times are epoch ms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from indoubt.collector.verdicts.streams_topics import is_repartition_of
from indoubt.lifecycle.verdicts import Certainty
from indoubt.resource_managers.kafka.partitions import Partition

NO_GROUP = ""
"""Where Kafka's word for a group's state would stand: there is no such group."""
WITHOUT_MEMBERS = frozenset({NO_GROUP, "Empty", "Dead"})


class ReaderKind(Enum):
    """How a consumer group stands on one partition; the value is what the API says."""

    WAITING = "waiting"
    """It cannot go on before an open transaction ends: it read up to the last stable offset and does not move, while records
    behind it are hidden; or it is Kafka Streams' own reader, whose offset is pending in that transaction."""
    STALLED = "stalled"
    """It has records to read below the last stable offset and has not moved for long: its own trouble."""
    MARKERS_ONLY = "markers only"
    """Its lag is transaction markers and aborted records alone: it has read everything there is."""
    READS_UNCOMMITTED = "reads uncommitted"
    """It is past the last stable offset: open transactions do not hold it back."""
    READING = "reading"
    """It has, or may have, records to read below the last stable offset, and moved not long ago."""


class Tail(Enum):
    """What a read_committed reader finds from a group's offset up to the last stable offset."""

    UNREAD = "unread"
    RECORDS = "records"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSnapshot:
    """One partition as polled. ``since_ms``: since when its last stable offset stands while records are hidden behind it."""

    partition: Partition
    last_stable_offset: int
    high_watermark: int
    since_ms: int
    seen_ms: int

    @property
    def hidden(self) -> int:
        """Return how many offsets read_committed readers may not see."""
        return max(0, self.high_watermark - self.last_stable_offset)

    @property
    def stands(self) -> bool:
        """True when two polls or more saw records hidden behind the same last stable offset."""
        return self.hidden > 0 and self.since_ms < self.seen_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSnapshot:
    """What a group had committed on a partition when polled. ``since_ms``: first seen at this offset; ``state``: Kafka's word."""

    group: str
    partition: Partition
    offset: int
    state: str
    since_ms: int
    seen_ms: int

    @property
    def stands(self) -> bool:
        """True when two polls or more saw it at the same offset."""
        return self.since_ms < self.seen_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSnapshot:
    """A Kafka Streams application whose store is restored from a changelog partition. ``state``: Kafka's word for its group.

    Who restores is in no group, so nothing tells its offset. ``since_ms``: since when it is taken to wait, this surely.
    """

    application: str
    store: str
    state: str
    since_ms: int

    @property
    def certainty(self) -> Certainty:
        """Return how sure it is that it waits: an application without members may be stopped."""
        return Certainty.GUESS if self.state in WITHOUT_MEMBERS else Certainty.LIKELY

    @property
    def name(self) -> str:
        """Return what stands for it among consumer groups."""
        return f"{self.application} (restoring {self.store})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A group or a restore on a partition, judged. ``lag``: offsets up to the high watermark; ``since_ms``: of this kind."""

    group: str
    kind: ReaderKind
    certainty: Certainty
    offset: int
    lag: int
    state: str
    since_ms: int

    @property
    def is_without_members(self) -> bool:
        """True when the group has no members: it may be abandoned, or its reader assigns partitions by itself."""
        return self.state in WITHOUT_MEMBERS


def partition_sight(
    before: PartitionSnapshot | None, partition: Partition, last_stable_offset: int, high_watermark: int, at_ms: int
) -> PartitionSnapshot:
    """Return the partition as it is now; its time goes on where the same offset held back records before."""
    goes_on = (
        before is not None
        and before.hidden > 0
        and before.last_stable_offset == last_stable_offset
        and high_watermark > last_stable_offset
    )
    return PartitionSnapshot(
        partition=partition,
        last_stable_offset=last_stable_offset,
        high_watermark=high_watermark,
        since_ms=before.since_ms if before is not None and goes_on else at_ms,
        seen_ms=at_ms,
    )


def reader_sight(
    before: ReaderSnapshot | None, group: str, partition: Partition, offset: int, state: str, at_ms: int
) -> ReaderSnapshot:
    """Return the group as it is now; its time goes on where it had committed the same offset before."""
    goes_on = before is not None and before.offset == offset
    return ReaderSnapshot(
        group=group,
        partition=partition,
        offset=offset,
        state=state,
        since_ms=before.since_ms if before is not None and goes_on else at_ms,
        seen_ms=at_ms,
    )


def restore_sight(
    before: RestoreSnapshot | None, application: str, store: str, state: str, at_ms: int
) -> RestoreSnapshot:
    """Return the restore as it is now; its time goes on while it is as sure as before that it waits."""
    now = RestoreSnapshot(application=application, store=store, state=state, since_ms=at_ms)
    if before is None or (before.name, before.certainty) != (now.name, now.certainty):
        return now
    return replace(now, since_ms=before.since_ms)


def judge_restore(restore: RestoreSnapshot, partition: PartitionSnapshot) -> Reader | None:
    """Return a restore that waits, or None while its partition is not held back: it reads up to the last stable offset."""
    if not partition.stands:
        return None
    return Reader(
        group=restore.name,
        kind=ReaderKind.WAITING,
        certainty=restore.certainty,
        offset=partition.last_stable_offset,
        lag=partition.hidden,
        state=restore.state,
        since_ms=max(restore.since_ms, partition.since_ms),
    )


def judge_reader(
    reader: ReaderSnapshot, partition: PartitionSnapshot, tail: Tail, record_ms: int, stalled_ms: int
) -> Reader | None:
    """Return how a group stands, or None when there is nothing to say: it is up to date.

    ``record_ms``: since when there is a record for it, where the tail has one. A group that has read everything stands still
    too: only from then on it should have moved.

    Ask for the group's offset first and for the last stable offset then: since that only grows, an offset beyond it is
    beyond it for certain. Beside an older look at the partition nothing is said of such an offset.

    A Kafka Streams application commits its offset on its own repartition topic in the very transaction that holds the topic
    back. Whoever takes its work over is not given that offset before the transaction ends: it waits wherever it stands.
    """
    stable, offset = partition.last_stable_offset, reader.offset
    likely = Certainty.GUESS if reader.state in WITHOUT_MEMBERS else Certainty.LIKELY
    if offset > stable:
        if partition.hidden == 0 or partition.seen_ms < reader.seen_ms:
            return None
        return _reader(reader, partition, ReaderKind.READS_UNCOMMITTED, Certainty.CERTAIN, reader.since_ms)
    is_held = offset == stable or tail is Tail.NOTHING or is_repartition_of(reader.partition[0], reader.group)
    if is_held and partition.hidden:
        if not (reader.stands and partition.stands):
            return _reader(reader, partition, ReaderKind.READING, likely, reader.since_ms)
        since_ms = max(reader.since_ms, partition.since_ms)
        return _reader(reader, partition, ReaderKind.WAITING, likely, since_ms)
    if offset == stable:
        return None
    if tail is Tail.NOTHING:
        return _reader(reader, partition, ReaderKind.MARKERS_ONLY, Certainty.CERTAIN, reader.since_ms)
    stopped_ms = max(reader.since_ms, record_ms)
    if tail is Tail.RECORDS and reader.seen_ms - stopped_ms >= stalled_ms:
        return _reader(reader, partition, ReaderKind.STALLED, likely, stopped_ms)
    return _reader(reader, partition, ReaderKind.READING, likely, reader.since_ms)


def _reader(
    reader: ReaderSnapshot, partition: PartitionSnapshot, kind: ReaderKind, certainty: Certainty, since_ms: int
) -> Reader:
    return Reader(
        group=reader.group,
        kind=kind,
        certainty=certainty,
        offset=reader.offset,
        lag=max(0, partition.high_watermark - reader.offset),
        state=reader.state,
        since_ms=since_ms,
    )
