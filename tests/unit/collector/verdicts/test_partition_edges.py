"""What is last seen of partitions and groups at its edges: since when, in which order, and what is looked at or forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.verdicts import partition_state
from indoubt.collector.verdicts.blocked_readers import Reader, ReaderKind, Tail
from indoubt.collector.verdicts.partition_state import (
    Blocked,
    Holder,
    PartitionFindings,
    PartitionTracker,
    Tails,
    TailWanted,
)
from indoubt.lifecycle.verdicts import Certainty
from indoubt.resource_managers.kafka.partitions import Partition
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import PARTITION, hanging, only, partition, producer
from tests.unit.collector.verdicts.case_tables import table

HOLDER = Holder(producer=producer(), key="kafka:billing:7:2@0", transaction="billing", opened_ms=T0 - 500)
OTHER: Partition = ("other", 0)


def reader(kind: ReaderKind = ReaderKind.WAITING, since: int = 0, group: str = "g", state: str = "Stable") -> Reader:
    return Reader(group=group, kind=kind, certainty=Certainty.LIKELY, offset=1, lag=1, state=state, since_ms=T0 + since)


def blocked(*readers: Reader, holder: Holder | None = None, **changes: Any) -> Blocked:
    return Blocked(snapshot=replace(partition(), **changes), holder=holder, readers=readers)


@table(
    "hidden, holder, since_ms",
    [
        ("nothing hidden", 0, HOLDER, None),
        ("holder not known", 5, None, T0),
        ("holder", 5, HOLDER, T0 - 500),
        ("its begin not known", 5, replace(HOLDER, opened_ms=None), T0),
        ("it began after the first look", 5, replace(HOLDER, opened_ms=T0 + 500), T0),
    ],
)
def test_a_partition_is_held_since_its_holder_began(hidden: int, holder: Holder | None, since_ms: int | None) -> None:
    assert blocked(holder=holder, high_watermark=100 + hidden).held_since_ms == since_ms


@pytest.mark.parametrize(
    ("hidden", "readers", "needs"),
    [
        (1, (), True),
        (0, (), False),
        (0, (reader(ReaderKind.STALLED),), True),
        (0, (reader(ReaderKind.READING), reader(ReaderKind.STALLED)), True),
        (0, (reader(ReaderKind.STALLED, state="Empty"),), False),
        (0, (reader(ReaderKind.MARKERS_ONLY),), False),
    ],
)
def test_hidden_records_and_stalled_groups_need_attention(
    hidden: int, readers: tuple[Reader, ...], needs: bool
) -> None:
    assert blocked(*readers, high_watermark=100 + hidden).needs_attention is needs


def test_waiting_groups_and_hanging_transactions_are_found() -> None:
    waits, reads = reader(), reader(ReaderKind.READING)
    assert blocked(reads, waits).waiting == (waits,)
    one, other = hanging(), hanging(producer_id=8)
    found = PartitionFindings(at_ms=T0, hanging=(one, other))
    assert [found.hanging_of(key) for key in (one.key, other.key, "none")] == [one, other, None]


def wanted(end: int = 100, start: int = 90, offset: int = 90, of: Partition = PARTITION) -> TailWanted:
    return TailWanted(partition=of, offset=offset, start=start, end=end)


def test_what_was_read_behind_an_offset_is_known_as_far_as_it_was_read() -> None:
    tails = Tails()
    assert tails.between(PARTITION, 0, 0) is Tail.UNREAD
    assert tails.wanted(PARTITION, 90, 100) == wanted()
    tails.learn(wanted(), T0, has_record=False, read_to=95)
    assert [tails.between(PARTITION, 90, end) for end in (95, 96)] == [Tail.NOTHING, Tail.UNREAD]
    assert tails.between(PARTITION, 91, 95) is Tail.UNREAD
    assert tails.between(OTHER, 90, 95) is Tail.UNREAD
    assert tails.wanted(PARTITION, 90, 100) == wanted(start=95)
    tails.learn(wanted(), T0, has_record=False, read_to=93)
    assert tails.between(PARTITION, 90, 95) is Tail.NOTHING
    tails.learn(wanted(), T0, has_record=True, read_to=97)
    assert tails.between(PARTITION, 90, 95) is Tail.RECORDS
    assert tails.wanted(PARTITION, 90, 100) == wanted()


def test_a_record_is_there_since_it_was_found_first() -> None:
    tails = Tails()
    assert tails.record_ms(PARTITION, 90) == 0
    tails.learn(wanted(), T0 + 1, has_record=True, read_to=97)
    tails.learn(wanted(), T0 + 2, has_record=True, read_to=97)
    assert [tails.record_ms(PARTITION, offset) for offset in (90, 91)] == [T0 + 1, 0]
    tails.shift(60_000)
    assert tails.record_ms(PARTITION, 90) == T0 + 60_001


def test_a_group_that_waited_for_its_first_record_has_not_stalled() -> None:
    seen = tracker((0, 100, 100), (60_000, 100, 100), readers=100)
    for at, kind in ((61_000, ReaderKind.READING), (90_999, ReaderKind.READING), (91_000, ReaderKind.STALLED)):
        seen.saw_group("readers", "Stable", {PARTITION: 100}, T0 + at, is_whole=True)
        seen.saw_partition(PARTITION, 148, 148, T0 + at)
        for one in seen.unread_tails(9):
            seen.read_tail(one, has_record=True, read_to=one.end)
        (blocked,) = seen.blocked()
        assert [reader.kind for reader in blocked.readers] == [kind]


def test_tails_are_forgotten_once_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_state, "TAILS_KEPT", 2)
    tails = Tails()
    tails.learn(wanted(offset=1), T0, has_record=True, read_to=2)
    tails.learn(wanted(offset=2), T0, has_record=False, read_to=3)
    assert [tails.between(PARTITION, offset, 3) for offset in (1, 2)] == [Tail.RECORDS, Tail.NOTHING]
    tails.learn(wanted(offset=3), T0, has_record=True, read_to=4)
    assert [tails.between(PARTITION, offset, 3) for offset in (1, 2, 3)] == [Tail.UNREAD, Tail.UNREAD, Tail.RECORDS]


def tracker(*looks: tuple[int, int, int], of: Partition = PARTITION, **groups: int) -> PartitionTracker:
    """Return what looks saw, each at a time with a last stable offset and a high watermark, and groups at their offsets."""
    seen = PartitionTracker(stalled_ms=30_000)
    for at, stable, high in looks:
        for group, offset in groups.items():
            seen.saw_group(group, "Stable", {of: offset}, T0 + at, is_whole=True)
        seen.saw_partition(of, stable, high, T0 + at)
    return seen


def test_a_holder_is_known_until_the_offset_moves_or_nothing_is_hidden() -> None:
    for stable, high, is_known in ((100, 106, True), (101, 106, False), (100, 100, False)):
        seen = tracker((0, 100, 105))
        seen.saw_holder(PARTITION, HOLDER)
        assert seen.holder(PARTITION) == HOLDER
        seen.saw_partition(PARTITION, stable, high, T0 + 1)
        assert (seen.holder(PARTITION) == HOLDER) is is_known
    seen = tracker((0, 100, 105))
    seen.saw_holder(PARTITION, HOLDER)
    assert only(seen.blocked()).holder == HOLDER
    seen.saw_holder(PARTITION, None)
    assert seen.holder(PARTITION) is None
    assert only(seen.blocked()).holder is None
    seen.saw_holder(PARTITION, None)
    seen.saw_holder(PARTITION, HOLDER)
    seen.keep_only([])
    assert seen.holder(PARTITION) is None
    assert seen.blocked() == ()


def test_a_holder_that_was_seen_before_its_partition_is_kept() -> None:
    seen = PartitionTracker(stalled_ms=1)
    seen.saw_holder(PARTITION, HOLDER)
    seen.saw_partition(PARTITION, 100, 105, T0)
    assert seen.holder(PARTITION) == HOLDER


@pytest.mark.parametrize(
    ("looks", "is_held"),
    [([(0, 100, 105)], False), ([(0, 100, 105), (1, 100, 105)], True), ([(0, 100, 105), (1, 101, 105)], False)],
)
def test_a_partition_is_held_once_two_looks_saw_the_same_offset(
    looks: list[tuple[int, int, int]], is_held: bool
) -> None:
    assert tracker(*looks).held([OTHER, PARTITION]) == ([PARTITION] if is_held else [])


def test_partitions_that_hide_records_are_told() -> None:
    seen = tracker((0, 100, 100))
    assert seen.hiding() == set()
    seen.saw_partition(PARTITION, 100, 101, T0)
    assert seen.hiding() == {PARTITION}


def test_all_times_move_with_a_clock_that_was_stepped() -> None:
    seen = tracker((0, 100, 105))
    for at in (400, 1_000):
        seen.saw_group("g", "Stable", {PARTITION: 100}, T0 + at, is_whole=True)
    seen.saw_partition(PARTITION, 100, 105, T0 + 1_000)
    seen.saw_restore(PARTITION, "app", "store", "Stable", T0)
    before = only(seen.blocked())
    seen.shift(5_000)
    after = only(seen.blocked())
    assert {each.group: each.since_ms for each in after.readers}["g"] == T0 + 5_400
    assert (after.snapshot.since_ms, after.snapshot.seen_ms) == (T0 + 5_000, T0 + 6_000)
    assert [each.since_ms - 5_000 for each in after.readers] == [each.since_ms for each in before.readers]
    assert {each.group for each in after.readers} == {"g", "app (restoring store)"}


def test_a_restore_waits_until_its_partition_is_forgotten() -> None:
    seen = tracker((0, 100, 105), (1_000, 100, 105))
    seen.saw_restore(PARTITION, "app", "store", "Stable", T0 + 500)
    seen.saw_restore(PARTITION, "app", "store", "Stable", T0 + 900)
    (waits,) = only(seen.blocked()).readers
    assert (waits.group, waits.kind, waits.since_ms) == ("app (restoring store)", ReaderKind.WAITING, T0 + 500)
    seen.keep_only_restores([PARTITION])
    assert only(seen.blocked()).readers == (waits,)
    seen.keep_only_restores([OTHER])
    assert only(seen.blocked()).readers == ()


@table(
    "partition_at, group_at, offset, is_asked",
    [
        ("below it", (0, 1_000), (0, 1_000), 99, True),
        ("at it", (0, 1_000), (0, 1_000), 100, False),
        ("the look at the partition is older", (0, 1_000), (0, 1_001), 99, False),
        ("one look at the group", (0, 1_000), (1_000,), 99, False),
        ("partition not seen", (), (0, 1_000), 99, False),
    ],
)
def test_a_tail_is_asked_for_where_a_group_stands_below_the_offset(
    partition_at: tuple[int, ...], group_at: tuple[int, ...], offset: int, is_asked: bool
) -> None:
    seen = PartitionTracker(stalled_ms=30_000)
    for at in group_at:
        seen.saw_group("g", "Stable", {PARTITION: offset}, T0 + at, is_whole=True)
    for at in partition_at:
        seen.saw_partition(PARTITION, 100, 100, T0 + at)
    assert seen.unread_tails(9) == ([wanted(start=offset, offset=offset)] if is_asked else [])


def test_one_partition_not_seen_hides_no_other_tail() -> None:
    seen = PartitionTracker(stalled_ms=30_000)
    for at in (0, 1_000):
        offsets = {("a", 0): 1, ("b", 0): 100, ("c", 0): 1, PARTITION: 90}
        seen.saw_group("g", "Stable", offsets, T0 + at, is_whole=True)
        for each in (("b", 0), ("c", 0), PARTITION):
            seen.saw_partition(each, 100, 100, T0 + at)
    (first, second) = seen.unread_tails(9)
    assert {first.partition, second.partition} == {("c", 0), PARTITION}
    seen.read_tail(first, has_record=True, read_to=first.end)
    assert seen.unread_tails(9) == [second]


def test_groups_stand_in_the_order_of_their_kind_their_time_and_their_name() -> None:
    names = ("a", "b", "c", "d", "e", "f")
    seen = tracker((0, 100, 105), **dict.fromkeys(names, 100), read=50, past=105)
    for at in (1_000, 2_000):
        for group, offset in {"after": 100, **dict.fromkeys(names, 100), "read": 50, "past": 105}.items():
            seen.saw_group(group, "Stable", {PARTITION: offset}, T0 + at, is_whole=True)
        seen.saw_partition(PARTITION, 100, 105, T0 + at)
    assert [each.group for each in only(seen.blocked()).readers] == [*names, "after", "past", "read"]


def test_partitions_stand_by_who_waits_longest_and_then_by_what_is_held() -> None:
    seen = PartitionTracker(stalled_ms=30_000)
    first: Partition = ("first", 0)
    for at in (0, 1_000, 2_000):
        if at:
            seen.saw_group("g", "Stable", {PARTITION: 100}, T0 + at, is_whole=True)
        seen.saw_group("h", "Stable", {OTHER: 90}, T0 + at, is_whole=True)
        for each, high in ((PARTITION, 105), (first, 105), (("later", 0), 105), (OTHER, 100)):
            if each[0] != "later" or at:
                seen.saw_partition(each, 100, high, T0 + at)
    assert [each.snapshot.partition for each in seen.blocked()] == [PARTITION, first, ("later", 0), OTHER]
    seen.saw_holder(("later", 0), replace(HOLDER, opened_ms=T0 - 9))
    assert [each.snapshot.partition for each in seen.blocked()] == [PARTITION, ("later", 0), first, OTHER]


def test_a_group_that_leaves_a_partition_waits_there_no_more() -> None:
    seen = tracker((0, 100, 105), (1_000, 100, 105), g=100, h=100)
    assert [each.group for each in only(seen.blocked()).readers] == ["g", "h"]
    seen.saw_group("g", "Stable", {OTHER: 1}, T0 + 2_000, is_whole=True)
    assert [each.group for each in only(seen.blocked()).readers] == ["h"]
    assert seen.readers_of([PARTITION, OTHER]) == {"h": [PARTITION], "g": [OTHER]}
    seen.keep_only_groups(["g"])
    assert seen.readers_of([PARTITION, OTHER]) == {"g": [OTHER]}
    assert only(seen.blocked()).readers == ()
    assert seen.not_up_to_date(["h"]) == set()


def test_what_changes_without_a_newer_look_at_the_partition_is_shown_at_once() -> None:
    seen = tracker((0, 100, 105), (1_000, 100, 105), g=100)
    assert [each.kind for each in only(seen.blocked()).readers] == [ReaderKind.WAITING]
    seen.saw_group("g", "Stable", {PARTITION: 105}, T0 + 2_000, is_whole=True)
    assert only(seen.blocked()).readers == ()
    seen.saw_restore(PARTITION, "app", "store", "Stable", T0 + 2_000)
    assert [each.group for each in only(seen.blocked()).readers] == ["app (restoring store)"]
    behind = tracker((0, 100, 100), (1_000, 100, 100), g=98)
    assert [each.kind for each in only(behind.blocked()).readers] == [ReaderKind.READING]
    (tail,) = behind.unread_tails(1)
    behind.read_tail(tail, has_record=False, read_to=tail.end)
    assert [each.kind for each in only(behind.blocked()).readers] == [ReaderKind.MARKERS_ONLY]


def test_a_group_below_the_last_stable_offset_needs_a_newer_look() -> None:
    for offset, needed in ((99, {PARTITION}), (100, set())):
        assert tracker((0, 100, 105), g=offset).not_up_to_date(["g"]) == needed


def test_the_first_that_waits_on_a_partition_decides_before_the_holder_does() -> None:
    seen = PartitionTracker(stalled_ms=30_000)
    later: Partition = ("later", 0)
    for at in (0, 1_000, 2_000, 3_000):
        seen.saw_partition(PARTITION, 100, 105, T0 + at)
        if at:
            seen.saw_partition(later, 100, 105, T0 + at)
            seen.saw_group("first", "Stable", {later: 100}, T0 + at, is_whole=True)
        if at >= 2_000:
            seen.saw_group("g", "Stable", {PARTITION: 100}, T0 + at, is_whole=True)
            seen.saw_group("last", "Stable", {later: 100}, T0 + at + 1, is_whole=True)
    for each in (PARTITION, later):
        seen.saw_partition(each, 100, 105, T0 + 4_000)
    shown = seen.blocked()
    assert [one.snapshot.partition for one in shown] == [later, PARTITION]
    assert [[each.since_ms - T0 for each in one.waiting] for one in shown] == [[1_000, 2_001], [2_000]]


def test_what_needs_no_attention_stands_last_and_equal_ones_by_their_name() -> None:
    seen = PartitionTracker(stalled_ms=30_000)
    read: list[Partition] = [("read", number) for number in range(5)]
    held: list[Partition] = [("held", number) for number in range(5)]
    for at in (0, 1_000):
        for each in read:
            seen.saw_group("g", "Stable", {each: 98}, T0 + at, is_whole=False)
            seen.saw_partition(each, 100, 100, T0 + at)
    stalls: Partition = ("stalls", 0)
    for at in (0, 31_000):
        seen.saw_group("slow", "Stable", {stalls: 98}, T0 + at, is_whole=True)
        seen.saw_partition(stalls, 100, 100, T0 + at)
    for wanted_one in seen.unread_tails(9):
        seen.read_tail(wanted_one, has_record=wanted_one.partition == stalls, read_to=wanted_one.end)
    seen.saw_group("slow", "Stable", {stalls: 98}, T0 + 61_000, is_whole=True)
    for each in held:
        seen.saw_partition(each, 100, 105, T0 + 20_000)
    assert [one.snapshot.partition for one in seen.blocked()] == [*held, stalls, *read]
