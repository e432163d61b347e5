"""What a group has not read: markers are nothing to read, and who waits has read all that it may."""

from __future__ import annotations

from indoubt.collector.verdicts.blocked_readers import Reader, ReaderKind
from indoubt.collector.verdicts.group_lags import GroupLag, group_lags, lag_of
from indoubt.collector.verdicts.partition_state import PartitionFindings, PartitionTracker
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
