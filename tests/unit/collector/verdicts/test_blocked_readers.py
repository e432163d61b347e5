"""How a consumer group stands beside a last stable offset: numbered cases, each with its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.verdicts.blocked_readers import (
    NO_GROUP,
    PartitionSnapshot,
    Reader,
    ReaderSnapshot,
    Tail,
    judge_reader,
    judge_restore,
    partition_sight,
    reader_sight,
    restore_sight,
)
from resource_managers.kafka.partitions import Partition
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import PARTITION, group, partition

STALLED_MS = 30_000


REPARTITION: Partition = ("shop-app-by-user-repartition", 0)


def of_streams(offset: int, *, name: str = "shop-app", **times: Any) -> ReaderSnapshot:
    return replace(group(offset, **times), group=name, partition=REPARTITION)


def repartition(high: int = 105, **times: Any) -> PartitionSnapshot:
    return replace(partition(100, high, **times), partition=REPARTITION)


def judged(reader: ReaderSnapshot, snapshot: PartitionSnapshot, tail: Tail = Tail.UNREAD) -> Reader | None:
    return judge_reader(reader, snapshot, tail, STALLED_MS)


@pytest.mark.parametrize(
    ("reader", "snapshot", "tail", "kind", "certainty"),
    [
        # At the last stable offset, records hidden behind it, both seen twice: it waits.
        (group(100), partition(100, 105), Tail.UNREAD, "waiting", "likely"),
        # One hidden record is enough.
        (group(100), partition(100, 101), Tail.UNREAD, "waiting", "likely"),
        # Nobody is in the group: it may be given up, or its reader assigns partitions by itself.
        (group(100, state="Empty"), partition(100, 105), Tail.UNREAD, "waiting", "guess"),
        # Two markers below the last stable offset: there is nothing to read for it either.
        (group(98), partition(100, 105), Tail.NOTHING, "waiting", "likely"),
        # It came there only now: it may just be passing.
        (group(100, since=4_000), partition(100, 105), Tail.UNREAD, "reading", "likely"),
        # The offset is held back only since now.
        (group(100), partition(100, 105, since=5_000), Tail.UNREAD, "reading", "likely"),
        # Nothing is hidden: it has read everything.
        (group(105), partition(105, 105), Tail.UNREAD, None, None),
        # Nothing is hidden, and markers alone make its lag.
        (group(104), partition(105, 105), Tail.NOTHING, "markers only", "certain"),
        # Its tail was not read yet: nothing is claimed.
        (group(104), partition(105, 105), Tail.UNREAD, "reading", "likely"),
        # Records to read, hidden ones behind them: it is not blocked, it just reads.
        (group(90), partition(100, 105), Tail.RECORDS, "reading", "likely"),
        # Records to read, and not moved for 30 s: its own trouble, whoever holds the offset back.
        (group(90, seen=30_000), partition(100, 105, seen=31_000), Tail.RECORDS, "stalled", "likely"),
        (group(90, seen=30_000, state="Empty"), partition(100, 100, seen=31_000), Tail.RECORDS, "stalled", "guess"),
        # Never stalled by an unread tail, however old.
        (group(90, seen=90_000), partition(100, 105, seen=91_000), Tail.UNREAD, "reading", "likely"),
        # Past the last stable offset that was read after its own: read_uncommitted for certain.
        (group(103), partition(100, 105), Tail.UNREAD, "reads uncommitted", "certain"),
        (group(103, seen=5_000), partition(100, 105), Tail.UNREAD, "reads uncommitted", "certain"),
        # The same beside an older look proves nothing: the offset may have moved on since.
        (group(103, seen=6_000), partition(100, 105), Tail.UNREAD, None, None),
        # Past the end of a partition that hides nothing: the topic was recreated.
        (group(300), partition(105, 105), Tail.UNREAD, None, None),
        # Kafka Streams' own reader: its offset on its repartition topic is pending in the transaction that holds it back.
        (of_streams(90), repartition(), Tail.RECORDS, "waiting", "likely"),
        (of_streams(90), repartition(), Tail.UNREAD, "waiting", "likely"),
        (of_streams(90, state="Empty"), repartition(), Tail.RECORDS, "waiting", "guess"),
        (of_streams(90, since=4_000), repartition(), Tail.RECORDS, "reading", "likely"),
        (of_streams(90, seen=30_000), repartition(seen=31_000), Tail.RECORDS, "waiting", "likely"),
        # Nothing is hidden there: its lag is its own.
        (of_streams(90, seen=30_000), repartition(high=100, seen=31_000), Tail.RECORDS, "stalled", "likely"),
        # Another group reads that topic, too: what it has not read, it may read.
        (of_streams(90, name="audit"), repartition(), Tail.RECORDS, "reading", "likely"),
        # The partition's leader does not answer any more: who waited there still waits.
        (group(100, seen=9_000), partition(100, 105), Tail.UNREAD, "waiting", "likely"),
    ],
)
def test_kinds(
    reader: ReaderSnapshot, snapshot: PartitionSnapshot, tail: Tail, kind: str | None, certainty: str | None
) -> None:
    found = judged(reader, snapshot, tail)
    assert (found.kind.value if found else None) == kind
    assert (found.certainty.value if found else None) == certainty


@pytest.mark.parametrize(("state", "certainty"), [("Stable", "likely"), ("Empty", "guess"), (NO_GROUP, "guess")])
def test_a_restore_waits_as_surely_as_its_application_runs(state: str, certainty: str) -> None:
    restore = restore_sight(None, "shop-app", "counts", state, T0 + 500)
    waits = judge_restore(restore, partition(100, 105))
    assert waits is not None
    assert (waits.group, waits.kind.value, waits.certainty.value) == (
        "shop-app (restoring counts)",
        "waiting",
        certainty,
    )
    assert (waits.offset, waits.lag, waits.state, waits.since_ms) == (100, 5, state, T0 + 500)
    assert judge_restore(restore, partition(105, 105)) is None, "nothing is hidden"
    assert judge_restore(restore, partition(100, 105, since=5_000)) is None, "it is held back only since now"


def test_a_restore_waits_anew_once_its_application_is_back() -> None:
    stopped = restore_sight(None, "shop-app", "counts", "Empty", T0)
    still = restore_sight(stopped, "shop-app", "counts", "Dead", T0 + 1)
    back = restore_sight(still, "shop-app", "counts", "PreparingRebalance", T0 + 2)
    goes_on = restore_sight(back, "shop-app", "counts", "Stable", T0 + 3)
    other = restore_sight(goes_on, "shop-app", "sums", "Stable", T0 + 4)
    assert [sight.since_ms - T0 for sight in (stopped, still, back, goes_on, other)] == [0, 0, 2, 2, 4]


def test_a_group_waits_from_the_later_of_its_own_stop_and_the_partitions() -> None:
    came_later = judged(group(100, since=3_000), partition(100, 105, since=1_000))
    held_later = judged(group(100, since=1_000), partition(100, 105, since=2_000))
    assert came_later is not None
    assert held_later is not None
    assert (came_later.since_ms, held_later.since_ms) == (T0 + 3_000, T0 + 2_000)
    assert came_later.lag == 5


def test_a_partitions_time_runs_while_the_same_offset_blocks_it() -> None:
    first = partition_sight(None, PARTITION, 100, 105, T0)
    again = partition_sight(first, PARTITION, 100, 107, T0 + 1)
    moved = partition_sight(again, PARTITION, 101, 107, T0 + 2)
    free = partition_sight(moved, PARTITION, 107, 107, T0 + 3)
    hides_again = partition_sight(free, PARTITION, 107, 108, T0 + 4)
    assert [s.since_ms - T0 for s in (first, again, moved, free, hides_again)] == [0, 0, 2, 3, 4]
    assert [s.stands for s in (first, again, moved, free, hides_again)] == [False, True, False, False, False]


def test_a_partitions_time_begins_anew_once_nothing_was_hidden() -> None:
    one_hidden = partition_sight(None, PARTITION, 100, 101, T0)
    still = partition_sight(one_hidden, PARTITION, 100, 101, T0 + 1)
    cut_off = partition_sight(still, PARTITION, 100, 100, T0 + 2)
    assert [s.since_ms - T0 for s in (one_hidden, still, cut_off)] == [0, 0, 2]


def test_a_group_beyond_the_end_has_no_lag() -> None:
    beyond = judged(group(110), partition(100, 105))
    assert beyond is not None
    assert (beyond.kind.value, beyond.lag) == ("reads uncommitted", 0)


def test_a_groups_time_goes_on_only_while_it_commits_the_same_offset() -> None:
    first = reader_sight(None, "g", PARTITION, 5, "Stable", T0)
    again = reader_sight(first, "g", PARTITION, 5, "Empty", T0 + 1)
    moved = reader_sight(again, "g", PARTITION, 6, "Stable", T0 + 2)
    rewound = reader_sight(moved, "g", PARTITION, 5, "Stable", T0 + 3)
    assert [s.since_ms - T0 for s in (first, again, moved, rewound)] == [0, 0, 2, 3]
    assert again.state == "Empty"


@pytest.mark.parametrize(
    ("state", "is_without"),
    [("Stable", False), ("PreparingRebalance", False), ("Empty", True), ("Dead", True), (NO_GROUP, True)],
)
def test_a_group_without_members_may_be_abandoned(state: str, is_without: bool) -> None:
    found = judged(group(100, state=state), partition(100, 105))
    assert found is not None
    assert found.is_without_members is is_without
    assert found.certainty.value == ("guess" if is_without else "likely")
