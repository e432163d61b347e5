"""What consumer groups have not read: their true lag, up to the last stable offset and behind it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from indoubt.collector.verdicts.blocked_readers import PartitionSnapshot, Reader, ReaderKind
from indoubt.collector.verdicts.partition_state import PartitionFindings
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
