"""How readers stand: what consumer groups have not read, and who waits behind each application, for how long. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from indoubt.collector.verdicts.blocked_readers import PartitionSnapshot, Reader, ReaderKind
from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.partitions import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """Offsets that a group has not read: ``lag`` up to the last stable offset, ``hidden`` those behind it."""

    lag: int = 0
    hidden: int = 0

    def plus(self, other: GroupLag) -> GroupLag:
        """Return both together."""
        return GroupLag(lag=self.lag + other.lag, hidden=self.hidden + other.hidden)

    def most(self, other: GroupLag) -> GroupLag:
        """Return the larger of each."""
        return GroupLag(lag=max(self.lag, other.lag), hidden=max(self.hidden, other.hidden))


def lag_of(reader: Reader, snapshot: PartitionSnapshot) -> GroupLag:
    """Return what a group has not read on one partition; markers and aborted records are nothing to read."""
    if reader.kind is ReaderKind.MARKERS_ONLY:
        return GroupLag()
    behind = max(0, snapshot.high_watermark - max(reader.offset, snapshot.last_stable_offset))
    # Who waits has read all that it may.
    visible = 0 if reader.kind is ReaderKind.WAITING else max(0, snapshot.last_stable_offset - reader.offset)
    return GroupLag(lag=visible, hidden=behind)


def group_lags(findings: PartitionFindings) -> dict[str, GroupLag]:
    """Return what every group that lags has not read, over all its partitions."""
    found: dict[str, GroupLag] = {}
    for _, group, lag in _lags(findings):
        found[group] = lag.plus(found.get(group, GroupLag()))
    return found


def application_lags(findings: PartitionFindings, writers: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return the most that a group has not read where an application writes, hidden records too, by application.

    ``writers``: the applications that write to a partition, by its name.
    """
    of_group: dict[tuple[str, str], int] = {}
    for partition, group, lag in _lags(findings):
        for application in writers.get(f"{partition[0]}-{partition[1]}", ()):
            key = application, group
            of_group[key] = of_group.get(key, 0) + lag.lag + lag.hidden
    found: dict[str, int] = {}
    for (application, _), unread in of_group.items():
        if unread:
            found[application] = max(unread, found.get(application, unread))
    return found


def _lags(findings: PartitionFindings) -> Iterator[tuple[Partition, str, GroupLag]]:
    for blocked in findings.blocked:
        for reader in blocked.readers:
            if reader.group in findings.read_by:
                yield blocked.snapshot.partition, reader.group, lag_of(reader, blocked.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderWait:
    """``waiting``: consumer groups; ``hidden``: offsets, of the partition that hides most; ``lag``: of the group that lags most."""

    waiting: int = 0
    longest_wait_ms: int = 0
    hidden: int = 0
    lag: int = 0

    def most(self, other: ReaderWait) -> ReaderWait:
        """Return the larger of each."""
        return ReaderWait(
            waiting=max(self.waiting, other.waiting),
            longest_wait_ms=max(self.longest_wait_ms, other.longest_wait_ms),
            hidden=max(self.hidden, other.hidden),
            lag=max(self.lag, other.lag),
        )


def reader_waits(
    findings: PartitionFindings, name_of: Callable[[str], str], writers: Mapping[str, Collection[str]]
) -> dict[str, ReaderWait]:
    """Return how readers stand, by the application that holds them back; '' where the holder is not known.

    Only applications behind which something waits, is hidden or not read. ``name_of``: transactional id -> application.
    ``writers``: the applications that write to a partition, by its name.
    """
    held: dict[str, list[Blocked]] = {}
    for blocked in findings.blocked:
        snapshot = blocked.snapshot
        # What is hidden on __consumer_offsets are offsets, no records: no group reads it as a topic.
        if not snapshot.hidden or snapshot.partition[0] == CONSUMER_OFFSETS:
            continue
        transaction = blocked.holder.transaction if blocked.holder is not None else ""
        is_proven = blocked.holder is not None and blocked.holder.key
        if transaction or is_proven or blocked.holder_is_unknown:
            held.setdefault(name_of(transaction) if transaction else "", []).append(blocked)
    found = {application: _together(partitions, findings.at_ms) for application, partitions in held.items()}
    for application, lag in application_lags(findings, writers).items():
        found[application] = replace(found.get(application, ReaderWait()), lag=lag)
    return found


def _together(partitions: list[Blocked], at_ms: int) -> ReaderWait:
    readers = [reader for blocked in partitions for reader in blocked.waiting]
    return ReaderWait(
        waiting=len({reader.group for reader in readers}),
        longest_wait_ms=max((max(0, at_ms - reader.since_ms) for reader in readers), default=0),
        hidden=max(blocked.snapshot.hidden for blocked in partitions),
    )
