"""What a group has not read: markers are nothing to read, and who waits has read all that it may."""

from __future__ import annotations

from indoubt.collector.verdicts.blocked_readers import Reader, ReaderKind
from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings, PartitionTracker
from indoubt.collector.verdicts.reader_waits import GroupLag, application_lags, group_lags, lag_of
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import partition
from tests.unit.collector.verdicts.case_tables import table


@table(
    "kind, offset, lag, hidden",
    [
        ("reading", ReaderKind.READING, 90, 10, 5),
        ("stalled", ReaderKind.STALLED, 100, 0, 5),
        ("waiting, a marker before the last stable offset", ReaderKind.WAITING, 99, 0, 5),
        ("only markers", ReaderKind.MARKERS_ONLY, 95, 0, 0),
        ("past the last stable offset", ReaderKind.READS_UNCOMMITTED, 103, 0, 2),
        ("past the end that was seen", ReaderKind.READS_UNCOMMITTED, 110, 0, 0),
    ],
)  # fmt: skip
def test_what_is_not_read_on_a_partition(kind: ReaderKind, offset: int, lag: int, hidden: int) -> None:
    reader = Reader(group="g", kind=kind, certainty=Certainty.LIKELY, offset=offset, lag=0, state="Stable", since_ms=T0)
    assert lag_of(reader, partition(100, 105)) == GroupLag(lag=lag, hidden=hidden)


def test_a_groups_partitions_count_together() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    for number, offset in enumerate((98, 90, 105)):
        tracker.saw_group("g", "Stable", {("orders", number): offset}, T0, is_whole=False)
        tracker.saw_partition(("orders", number), 100 if number < 2 else 105, 105, T0)
    seen = PartitionFindings(at_ms=T0, blocked=tracker.blocked(), read_by=tracker.read_by())
    assert group_lags(seen) == {"g": GroupLag(lag=12, hidden=10)}


def test_of_two_lags_the_larger_of_each_is_kept() -> None:
    assert GroupLag(lag=3, hidden=9).most(GroupLag(lag=5, hidden=1)) == GroupLag(lag=5, hidden=9)


def test_only_a_group_that_is_known_lags() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    tracker.saw_partition(("orders", 0), 105, 105, T0)
    tracker.saw_group("g", "Stable", {("orders", 0): 98}, T0, is_whole=True)
    writers = {"orders-0": {"A"}}
    seen = PartitionFindings(at_ms=T0, blocked=tracker.blocked(), read_by=tracker.read_by())
    assert application_lags(seen, writers) == {"A": 7}
    forgotten = PartitionFindings(at_ms=T0, blocked=tracker.blocked())
    assert (group_lags(forgotten), application_lags(forgotten, writers)) == ({}, {})


def test_an_application_of_which_only_markers_are_left_has_no_lag() -> None:
    kind, snapshot = ReaderKind.MARKERS_ONLY, partition(100, 105)
    reader = Reader(group="g", kind=kind, certainty=Certainty.LIKELY, offset=95, lag=0, state="Stable", since_ms=T0)
    blocked = Blocked(snapshot=snapshot, holder=None, readers=(reader,))
    seen = PartitionFindings(at_ms=T0, blocked=(blocked,), read_by={"g": frozenset({snapshot.partition})})
    topic, number = snapshot.partition
    assert application_lags(seen, {f"{topic}-{number}": {"A"}}) == {}
