"""Partitions, producers, groups and coordinators' answers for the collector's tests. Times are ms after T0."""

from __future__ import annotations

from typing import Any

from indoubt.collector.verdicts.blocked_readers import PartitionSnapshot, ReaderSnapshot
from indoubt.collector.verdicts.hanging_transactions import CoordinatorView, Suspect, doubt
from indoubt.collector.verdicts.known_ends import KnownEnd
from indoubt.collector.verdicts.partition_state import Blocked, Holder, PartitionFindings, PartitionTracker
from indoubt.resource_managers.kafka.partitions import OpenProducer, Partition
from indoubt.resource_managers.protocol import OpenTransactionView
from tests.unit.collector.observations import T0

PARTITION: Partition = ("orders", 3)


def producer(**changes: Any) -> OpenProducer:
    fields: dict[str, Any] = {
        "partition": PARTITION,
        "producer_id": 7,
        "producer_epoch": 2,
        "start_offset": 100,
        "last_timestamp_ms": T0,
        "coordinator_epoch": 0,
        **changes,
    }
    return OpenProducer(**fields)


def at_coordinator(state: str = "Ongoing", epoch: int = 2, *, start: int = 0, **changes: Any) -> OpenTransactionView:
    fields: dict[str, Any] = {
        "resource_manager": "kafka",
        "transaction": "billing",
        "producer_id": 7,
        "producer_epoch": epoch,
        "state": state,
        "started_at_ms": T0 + start,
        "timeout_ms": 60_000,
        "partitions": (PARTITION,),
        **changes,
    }
    return OpenTransactionView(**fields)


def told(
    *transactions: OpenTransactionView, moved: tuple[str, ...] = (), end: KnownEnd | None = None
) -> CoordinatorView:
    return CoordinatorView(transactions=transactions, moved=moved, asked_ms=T0, end=end)


def ended(*, commit: bool) -> KnownEnd:
    return KnownEnd(transaction="billing", commit=commit, why="billing has ended", at_ms=T0)


def partition(stable: int = 100, high: int = 105, *, since: int = 0, seen: int = 5_000) -> PartitionSnapshot:
    return PartitionSnapshot(
        partition=PARTITION,
        last_stable_offset=stable,
        high_watermark=high,
        since_ms=T0 + since,
        seen_ms=T0 + seen,
    )


def group(offset: int = 100, *, since: int = 0, seen: int = 4_000, state: str = "Stable") -> ReaderSnapshot:
    return ReaderSnapshot(
        group="readers", partition=PARTITION, offset=offset, state=state, since_ms=T0 + since, seen_ms=T0 + seen
    )


def hanging(**changes: Any) -> Suspect:
    """Return a proven hanging transaction whose producer id no coordinator has."""
    one = producer(**changes)
    found = doubt(one, told(), T0)
    assert found is not None
    return Suspect(producer=one, doubt=found, since_ms=T0 + 1_000, found_ms=T0 + 3_100)


def partition_findings() -> PartitionFindings:
    """Return a group that waits behind a hanging transaction, and one whose lag is markers alone."""
    suspect = hanging()
    tracker = PartitionTracker(stalled_ms=30_000)
    quiet: Partition = ("quiet", 0)
    for at in (T0 + 1_000, T0 + 2_000):
        tracker.saw_group("readers", "Stable", {PARTITION: 100, quiet: 9}, at, is_whole=True)
        tracker.saw_partition(PARTITION, 100, 105, at)
        tracker.saw_partition(quiet, 10, 10, at)
    key = suspect.key
    tracker.saw_holder(PARTITION, Holder(producer=suspect.producer, key=key, transaction="", opened_ms=None))
    for wanted in tracker.unread_tails(10):
        tracker.read_tail(wanted, has_record=False, read_to=wanted.end)
    return PartitionFindings(at_ms=T0 + 4_000, blocked=tracker.blocked(), hanging=(suspect,), read_by=tracker.read_by())


def only(blocked: tuple[Blocked, ...], of: Partition = PARTITION) -> Blocked:
    (found,) = [one for one in blocked if one.snapshot.partition == of]
    return found
