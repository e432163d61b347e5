"""How readers stand behind each application: groups that wait, the longest wait, what is hidden or not read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from indoubt.collector.verdicts.group_lags import application_lags
from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS


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
