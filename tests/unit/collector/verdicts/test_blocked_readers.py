"""How a consumer group stands beside a last stable offset: numbered cases, each with its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.verdicts.blocked_readers import (
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
from indoubt.resource_managers.kafka.partitions import Partition
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import PARTITION, group, partition
from tests.unit.collector.verdicts.case_tables import table

STALLED_MS = 30_000


REPARTITION: Partition = ("shop-app-by-user-repartition", 0)


def of_streams(offset: int, *, name: str = "shop-app", **times: Any) -> ReaderSnapshot:
    return replace(group(offset, **times), group=name, partition=REPARTITION)


def repartition(high: int = 105, **times: Any) -> PartitionSnapshot:
    return replace(partition(100, high, **times), partition=REPARTITION)


def judged(
    reader: ReaderSnapshot, snapshot: PartitionSnapshot, tail: Tail = Tail.UNREAD, record_ms: int = 0
) -> Reader | None:
    return judge_reader(reader, snapshot, tail, T0 + record_ms, STALLED_MS)


NOTHING, RECORDS, UNREAD = Tail.NOTHING, Tail.RECORDS, Tail.UNREAD
KINDS = [
    # name; the group's offset; the partition's last stable offset and high watermark; what is between; how it stands, how sure
    ("at the offset, both seen twice", group(100), partition(100, 105), UNREAD, "waiting", "likely"),
    ("one hidden record is enough", group(100), partition(100, 101), UNREAD, "waiting", "likely"),
    ("nobody is in the group, or it assigns by itself", group(100, state="Empty"), partition(100, 105), UNREAD, "waiting", "guess"),
    ("two markers below: nothing to read for it", group(98), partition(100, 105), NOTHING, "waiting", "likely"),
    ("it came there only now, perhaps passing", group(100, since=4_000), partition(100, 105), UNREAD, "reading", "likely"),
    ("held back only since now", group(100), partition(100, 105, since=5_000), UNREAD, "reading", "likely"),
    ("nothing hidden: it has read everything", group(105), partition(105, 105), UNREAD, None, None),
    ("nothing hidden: markers make its lag", group(104), partition(105, 105), NOTHING, "markers only", "certain"),
    ("its tail is not read: nothing is claimed", group(104), partition(105, 105), UNREAD, "reading", "likely"),
    ("records to read before the hidden ones", group(90), partition(100, 105), RECORDS, "reading", "likely"),
    ("so there are, not moved for 30 s", group(90, seen=30_000), partition(100, 105, seen=31_000), RECORDS, "stalled", "likely"),
    ("not moved, and nobody in the group", group(90, seen=30_000, state="Empty"), partition(100, 100, seen=31_000), RECORDS,
        "stalled", "guess"),
    ("an unread tail never stalls", group(90, seen=90_000), partition(100, 105, seen=91_000), UNREAD, "reading", "likely"),
    ("past an offset that was read after its own", group(103), partition(100, 105), UNREAD, "reads uncommitted", "certain"),
    ("past one that was read as its own", group(103, seen=5_000), partition(100, 105), UNREAD, "reads uncommitted", "certain"),
    ("past an older look: it may have moved on", group(103, seen=6_000), partition(100, 105), UNREAD, None, None),
    ("past the end: the topic was recreated", group(300), partition(105, 105), UNREAD, None, None),
    # Kafka Streams' own reader: its offset on its repartition topic is pending in the transaction that holds it back.
    ("of Streams", of_streams(90), repartition(), RECORDS, "waiting", "likely"),
    ("of Streams, its tail is not read", of_streams(90), repartition(), UNREAD, "waiting", "likely"),
    ("of Streams, nobody in its group", of_streams(90, state="Empty"), repartition(), RECORDS, "waiting", "guess"),
    ("of Streams, there only now", of_streams(90, since=4_000), repartition(), RECORDS, "reading", "likely"),
    ("of Streams, not moved for 30 s", of_streams(90, seen=30_000), repartition(seen=31_000), RECORDS, "waiting", "likely"),
    ("of Streams, nothing hidden: its own lag", of_streams(90, seen=30_000), repartition(high=100, seen=31_000), RECORDS,
        "stalled", "likely"),
    ("another group on that topic", of_streams(90, name="audit"), repartition(), RECORDS, "reading", "likely"),
    ("the leader does not answer any more", group(100, seen=9_000), partition(100, 105), UNREAD, "waiting", "likely"),
]  # fmt: skip


@table("reader, snapshot, tail, kind, certainty", KINDS)
def test_kinds(
    reader: ReaderSnapshot, snapshot: PartitionSnapshot, tail: Tail, kind: str | None, certainty: str | None
) -> None:
    found = judged(reader, snapshot, tail)
    assert (found.kind.value if found else None) == kind
    assert (found.certainty.value if found else None) == certainty


def test_a_group_that_had_read_everything_stalls_from_the_first_record_on() -> None:
    idle = group(90, seen=50_000)
    too_soon = judged(idle, partition(100, 100, seen=50_000), RECORDS, record_ms=20_001)
    long_since = judged(idle, partition(100, 100, seen=50_000), RECORDS, record_ms=20_000)
    assert too_soon is not None
    assert long_since is not None
    assert (too_soon.kind.value, long_since.kind.value) == ("reading", "stalled")
    assert long_since.since_ms == T0 + 20_000


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
