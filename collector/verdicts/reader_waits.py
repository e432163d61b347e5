"""How readers stand behind each application's open transactions: groups that wait, the longest wait, what is hidden. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderWait:
    """``waiting``: consumer groups; ``hidden``: offsets, of the partition that hides most."""

    waiting: int = 0
    longest_wait_ms: int = 0
    hidden: int = 0

    def most(self, other: ReaderWait) -> ReaderWait:
        """Return the larger of each."""
        return ReaderWait(
            waiting=max(self.waiting, other.waiting),
            longest_wait_ms=max(self.longest_wait_ms, other.longest_wait_ms),
            hidden=max(self.hidden, other.hidden),
        )


def reader_waits(findings: PartitionFindings, name_of: Callable[[str], str]) -> dict[str, ReaderWait]:
    """Return how readers stand, by the application that holds them back; '' where the holder is not known.

    Only applications behind which something waits or is hidden. ``name_of``: transactional id -> application.
    """
    held: dict[str, list[Blocked]] = {}
    for blocked in findings.blocked:
        snapshot = blocked.snapshot
        # What is hidden on __consumer_offsets are offsets, no records: no group reads it as a topic.
        if not snapshot.hidden or snapshot.partition[0] == CONSUMER_OFFSETS:
            continue
        transaction = blocked.holder.transaction if blocked.holder is not None else ""
        # One that began and ended between two looks has no holder any more: only what stands has one that is not known.
        if transaction or snapshot.stands:
            held.setdefault(name_of(transaction) if transaction else "", []).append(blocked)
    return {application: _together(partitions, findings.at_ms) for application, partitions in held.items()}


def _together(partitions: list[Blocked], at_ms: int) -> ReaderWait:
    readers = [reader for blocked in partitions for reader in blocked.waiting]
    return ReaderWait(
        waiting=len({reader.group for reader in readers}),
        longest_wait_ms=max((max(0, at_ms - reader.since_ms) for reader in readers), default=0),
        hidden=max(blocked.snapshot.hidden for blocked in partitions),
    )
