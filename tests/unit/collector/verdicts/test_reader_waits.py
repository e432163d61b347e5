"""How readers stand behind each application: by who holds them back, the worst of its partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.verdicts.blocked_readers import PartitionSnapshot, ReaderSnapshot, Tail, judge_reader
from indoubt.collector.verdicts.partition_state import Blocked, Holder, PartitionFindings, PartitionTracker
from indoubt.collector.verdicts.reader_waits import ReaderWait, reader_waits
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.partitions import Partition
from tests.unit.collector import partition_sightings as sightings
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import partition_findings, producer
from tests.unit.collector.verdicts.case_tables import table

ORDERS, OTHERS, OFFSETS = ("orders", 0), ("orders", 1), (CONSUMER_OFFSETS, 7)
HOLDER = Holder(producer=producer(), key="k", transaction="a-0", opened_ms=T0)


def findings(held: dict[Partition, tuple[str, int]], readers: dict[str, list[Partition]]) -> PartitionFindings:
    """Return what three looks saw in 4 s: of each partition who holds it and how much it hides, and who reads what."""
    tracker = PartitionTracker(stalled_ms=30_000)
    for at in (T0 + 1_000, T0 + 3_000, T0 + 5_000):
        for group, partitions in readers.items():
            tracker.saw_group(group, "Stable", dict.fromkeys(partitions, 100), at, is_whole=True)
        for partition, (_, hidden) in held.items():
            tracker.saw_partition(partition, 100, 100 + hidden, at)
    for partition, (transaction, _) in held.items():
        if transaction:
            one = producer(partition=partition)
            tracker.saw_holder(partition, Holder(producer=one, key="k", transaction=transaction, opened_ms=T0))
    return PartitionFindings(at_ms=T0 + 6_000, blocked=tracker.blocked())


@table(
    "held, readers, found",
    [
        ("nothing", {}, {}, {}),
        ("nothing hidden", {ORDERS: ("a-0", 0)}, {"r": [ORDERS]}, {}),
        ("hidden", {ORDERS: ("a-0", 5)}, {}, {"A": ReaderWait(hidden=5)}),
        ("a group waits", {ORDERS: ("a-0", 5)}, {"r": [ORDERS]},
            {"A": ReaderWait(waiting=1, longest_wait_ms=5_000, hidden=5)}),
        ("two partitions", {ORDERS: ("a-0", 5), OTHERS: ("a-1", 9)}, {"r": [ORDERS, OTHERS], "s": [OTHERS]},
            {"A": ReaderWait(waiting=2, longest_wait_ms=5_000, hidden=9)}),
        ("two applications", {ORDERS: ("a-0", 5), OTHERS: ("b-0", 2)}, {"s": [OTHERS]},
            {"A": ReaderWait(hidden=5), "B": ReaderWait(waiting=1, longest_wait_ms=5_000, hidden=2)}),
        ("holder unknown", {ORDERS: ("", 5)}, {}, {"": ReaderWait(hidden=5)}),
        ("offsets", {OFFSETS: ("a-0", 5)}, {}, {}),
    ],
)  # fmt: skip
def test_readers_wait_for_the_application_that_holds_them_back(
    held: dict[Partition, tuple[str, int]], readers: dict[str, list[Partition]], found: dict[str, ReaderWait]
) -> None:
    assert reader_waits(findings(held, readers), lambda id_: id_[0].upper(), {}) == found


def test_readers_behind_a_hanging_transaction_without_a_name_are_kept_too() -> None:
    found = reader_waits(partition_findings(), lambda _: "never asked", {})
    assert found == {"": ReaderWait(waiting=1, longest_wait_ms=3_000, hidden=5)}


def behind(snapshot: PartitionSnapshot, *readers: ReaderSnapshot, at: int) -> dict[str, ReaderWait]:
    """Return what is found of one partition that an application A holds, ``at`` ms after T0."""
    judged = [judge_reader(reader, snapshot, Tail.UNREAD, 0, 30_000) for reader in readers]
    blocked = Blocked(snapshot=snapshot, holder=HOLDER, readers=tuple(one for one in judged if one is not None))
    return reader_waits(PartitionFindings(at_ms=T0 + at, blocked=(blocked,)), lambda _: "A", {})


def test_only_a_holder_that_stays_unknown_is_not_known() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    looks = ((1, 100, {}), (2, 103, {}), (3, 103, {}), (4, 103, {"": ReaderWait(hidden=5)}), (5, 104, {}))
    for at, last_stable, unknown in looks:
        tracker.saw_partition(ORDERS, last_stable, last_stable + 5, T0 + at)
        assert reader_waits(PartitionFindings(at_ms=T0 + at, blocked=tracker.blocked()), str, {}) == unknown


def test_one_that_ended_between_two_questions_of_a_look_is_no_unknown_holder() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    for at in range(1, 9):
        tracker.saw_partition(ORDERS, 100, 105, T0 + at)
        tracker.saw_holder(ORDERS, HOLDER)
    tracker.saw_partition(ORDERS, 100, 105, T0 + 9)
    tracker.saw_holder(ORDERS, None)
    assert reader_waits(PartitionFindings(at_ms=T0 + 9, blocked=tracker.blocked()), str, {}) == {}


def test_what_a_group_has_not_read_counts_for_who_writes_there() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    for partition, offset in ((ORDERS, 98), (OTHERS, 90)):
        tracker.saw_partition(partition, 100, 105, T0)
        tracker.saw_group("r", "Stable", {partition: offset}, T0, is_whole=False)
    tracker.saw_group("s", "Stable", {OTHERS: 99}, T0, is_whole=False)
    seen = PartitionFindings(at_ms=T0, blocked=tracker.blocked(), read_by=tracker.read_by())
    assert reader_waits(seen, str, {"orders-0": {"A"}, "orders-1": {"A", "B"}}) == {
        "A": ReaderWait(lag=7 + 15),
        "B": ReaderWait(lag=15),
    }


def test_a_holder_that_is_known_counts_at_the_first_look() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    tracker.saw_partition(ORDERS, 100, 105, T0)
    tracker.saw_holder(ORDERS, HOLDER)
    assert reader_waits(PartitionFindings(at_ms=T0, blocked=tracker.blocked()), str, {}) == {
        "a-0": ReaderWait(hidden=5)
    }


def test_the_longest_wait_counts_and_is_never_negative() -> None:
    readers = (sightings.group(100, since=1_000), replace(sightings.group(100, since=3_000), group="others"))
    for at, longest_ms in ((6_000, 5_000), (500, 0)):
        found = behind(sightings.partition(100, 105), *readers, at=at)["A"]
        assert (found.waiting, found.longest_wait_ms, found.hidden) == (2, longest_ms, 5)


def test_where_nothing_waits_nothing_is_counted() -> None:
    found = behind(sightings.partition(100, 105), at=6_000)["A"]
    assert (found.waiting, found.longest_wait_ms, found.hidden) == (0, 0, 5)
    assert ReaderWait() == ReaderWait(waiting=0, longest_wait_ms=0, hidden=0, lag=0)


def test_a_group_that_lags_where_nothing_is_hidden_waits_for_nobody() -> None:
    assert behind(sightings.partition(105, 105), sightings.group(98), at=6_000) == {}


@pytest.mark.parametrize("places", ["waiting", "longest_wait_ms", "hidden", "lag"])
def test_of_two_waits_the_larger_of_each_is_kept(places: str) -> None:
    less = ReaderWait(waiting=2, longest_wait_ms=5_000, hidden=9, lag=3)
    more = replace(less, **{places: 10_000})
    assert less.most(more) == more.most(less) == more


@pytest.mark.parametrize(("key", "transaction", "names"), [("k", "", [""]), ("", "a-0", ["A"]), ("", "", [])])
def test_a_holder_counts_by_its_id_or_once_it_is_proven(key: str, transaction: str, names: list[str]) -> None:
    holder = Holder(producer=producer(), key=key, transaction=transaction, opened_ms=T0)
    blocked = Blocked(snapshot=sightings.partition(100, 105), holder=holder, readers=())
    found = reader_waits(PartitionFindings(at_ms=T0, blocked=(blocked,)), lambda _: "A", {})
    assert list(found) == names
