"""Looks at partitions and groups put together: who is blocked behind whom, what is read to prove it, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.assess.rules.hanging import hanging_transactions
from indoubt.collector.assess.rules.readers import blocked_partitions
from indoubt.collector.observe.pace import Sweep, share
from indoubt.collector.verdicts.blocked_readers import ReaderKind
from indoubt.collector.verdicts.hanging_transactions import Remedy
from indoubt.collector.verdicts.partition_state import Holder, PartitionFindings, PartitionTracker
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.resource_managers.kafka.partitions import Partition
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import PARTITION, hanging, only, partition_findings, producer

QUIET: Partition = ("quiet", 0)
HOLDER = Holder(producer=producer(), key="kafka:billing:7:2@0", transaction="billing", opened_ms=T0 - 500)


def tracker() -> PartitionTracker:
    return PartitionTracker(stalled_ms=30_000)


def look(at: PartitionTracker, ms: int, stable: int, high: int, **groups: int) -> None:
    """One look: groups first, then the partition."""
    for group, offset in groups.items():
        at.saw_group(group, "Stable", {PARTITION: offset}, T0 + ms, is_whole=True)
    at.saw_partition(PARTITION, stable, high, T0 + ms)


def kinds(at: PartitionTracker) -> dict[str, str]:
    return {reader.group: reader.kind.value for one in at.blocked() for reader in one.readers}


def test_a_group_waits_until_the_holder_is_gone_and_then_reads_on() -> None:
    seen = tracker()
    look(seen, 0, 100, 105, waits=100, dirty=105)
    look(seen, 1_000, 100, 106, waits=100, dirty=106)
    assert seen.held([PARTITION]) == [PARTITION]
    seen.saw_holder(PARTITION, HOLDER)
    blocked = only(seen.blocked())
    assert kinds(seen) == {"waits": "waiting", "dirty": "reads uncommitted"}
    assert (blocked.held_since_ms, blocked.waiting[0].since_ms) == (T0 - 500, T0)
    look(seen, 2_000, 107, 107, waits=100, dirty=107)
    assert only(seen.blocked()).holder is None
    assert kinds(seen) == {"waits": "reading"}
    look(seen, 3_000, 107, 107, waits=107, dirty=107)
    assert seen.blocked() == ()


def test_a_tail_of_markers_is_read_once_and_only_as_far_as_it_grows() -> None:
    seen = tracker()
    look(seen, 0, 100, 100, readers=98)
    assert seen.unread_tails(10) == [], "it may be on its way still"
    look(seen, 1_000, 100, 100, readers=98)
    (wanted,) = seen.unread_tails(10)
    assert (wanted.start, wanted.end) == (98, 100)
    seen.read_tail(wanted, has_record=False, read_to=100)
    assert kinds(seen) == {"readers": "markers only"}
    assert seen.unread_tails(10) == []
    look(seen, 2_000, 103, 103, readers=98)
    (grown,) = seen.unread_tails(10)
    assert (grown.offset, grown.start, grown.end) == (98, 100, 103)
    seen.read_tail(grown, has_record=True, read_to=101)
    assert kinds(seen) == {"readers": "reading"}
    look(seen, 31_999, 110, 110, readers=98)
    assert kinds(seen) == {"readers": "reading"}, "there was nothing to read for it before 2 s"
    look(seen, 32_000, 110, 110, readers=98)
    assert kinds(seen) == {"readers": "stalled"}
    assert seen.unread_tails(10) == [], "a record that was there once is there still"


def test_no_more_tails_are_asked_for_than_wanted() -> None:
    seen = tracker()
    for ms in (0, 1_000):
        look(seen, ms, 100, 100, **{f"g{number}": 90 - number for number in range(5)})
    assert len(seen.unread_tails(3)) == 3


def test_groups_and_partitions_that_are_gone_are_forgotten() -> None:
    seen = tracker()
    for ms in (0, 1_000):
        look(seen, ms, 100, 105, stays=100, leaves=100)
        seen.saw_partition(QUIET, 1, 2, T0 + ms)
    assert seen.readers_of(seen.hiding()) == {"stays": [PARTITION], "leaves": [PARTITION]}
    assert seen.read_by() == {"stays": {PARTITION}, "leaves": {PARTITION}}
    seen.keep_only_groups(["stays"])
    assert seen.read_by() == {"stays": {PARTITION}}
    assert kinds(seen) == {"stays": "waiting"}
    seen.saw_group("stays", "Stable", {}, T0 + 2_000, is_whole=True)
    assert kinds(seen) == {}
    assert seen.read_by() == {"stays": frozenset()}
    seen.keep_only([QUIET])
    assert [one.snapshot.partition for one in seen.blocked()] == [QUIET]
    assert seen.hiding() == {QUIET}


def test_a_part_of_a_groups_offsets_forgets_none_of_the_others() -> None:
    seen = tracker()
    seen.saw_group("g", "Stable", {PARTITION: 1, QUIET: 2}, T0, is_whole=True)
    seen.saw_group("g", "Stable", {PARTITION: 1}, T0 + 1, is_whole=False)
    assert seen.readers_of([QUIET]) == {"g": [QUIET]}
    assert seen.read_by() == {"g": {PARTITION, QUIET}}


def test_only_partitions_where_a_group_has_a_lag_need_a_newer_poll() -> None:
    seen = tracker()
    seen.saw_group("g", "Stable", {PARTITION: 100, QUIET: 2}, T0, is_whole=True)
    assert seen.not_up_to_date(["g"]) == {PARTITION, QUIET}
    seen.saw_partition(PARTITION, 100, 100, T0)
    assert seen.not_up_to_date(["g"]) == {QUIET}
    assert seen.not_up_to_date(["other"]) == set()


def test_the_longest_wait_comes_first_and_markers_alone_need_no_poll() -> None:
    seen = tracker()
    later: Partition = ("later", 0)
    for ms in (0, 1_000, 2_000):
        seen.saw_group("g", "Stable", {QUIET: 8, later: 5, PARTITION: 100}, T0 + ms, is_whole=True)
        seen.saw_partition(QUIET, 9, 9, T0 + ms)
        seen.saw_partition(later, 5, 6 if ms else 5, T0 + ms)
        seen.saw_partition(PARTITION, 100, 105, T0 + ms)
    for wanted in seen.unread_tails(10):
        seen.read_tail(wanted, has_record=False, read_to=wanted.end)
    assert [(b.snapshot.partition, b.needs_attention) for b in seen.blocked()] == [
        (PARTITION, True),
        (later, True),
        (QUIET, False),
    ]
    assert only(seen.blocked(), QUIET).readers[0].kind is ReaderKind.MARKERS_ONLY


@pytest.mark.parametrize(
    ("total", "interval_ms", "round_ms", "most", "taken"),
    [
        (0, 1_000, 5_000, 100, 0),
        (10, 1_000, 5_000, 100, 2),
        (11, 1_000, 5_000, 100, 3),
        (1_000, 1_000, 5_000, 100, 100),
        (10, 5_000, 1_000, 100, 10),
    ],
)
def test_each_poll_takes_its_share_of_a_round(
    total: int, interval_ms: int, round_ms: int, most: int, taken: int
) -> None:
    assert share(total, interval_ms, round_ms, most) == taken


def test_a_sweep_goes_round_whatever_comes_and_goes() -> None:
    sweep: Sweep[str] = Sweep()
    assert sweep.take(["b", "a", "c"], 2) == ["a", "b"]
    assert sweep.take(["a", "c", "d"], 2) == ["c", "d"]
    assert sweep.take(["a", "d"], 5) == ["a", "d"], "each at most once"
    assert sweep.take([], 5) == []


def test_alert_rules_see_waiting_groups_but_no_empty_one() -> None:
    findings = partition_findings()
    shop = Application(kind=ApplicationKind.OTHER, name="shop")
    applications = {suspect.key: shop for suspect in findings.hanging}
    (blocked,), (hangs,) = blocked_partitions(findings), hanging_transactions(findings, applications)
    assert (blocked.partition, blocked.groups, blocked.hidden, blocked.since_ms) == (
        "orders-3",
        ("readers",),
        5,
        T0 + 1_000,
    )
    assert (hangs.partition, hangs.producer_id, hangs.producer_epoch) == ("orders-3", 7, 2)
    assert (hangs.application, hangs.is_named, hangs.may_commit, hangs.may_abort) == ("shop", False, False, True)
    seen = tracker()
    for ms in (0, 1_000):
        seen.saw_group("given up", "Empty", {PARTITION: 100}, T0 + ms, is_whole=True)
        seen.saw_partition(PARTITION, 100, 105, T0 + ms)
    assert blocked_partitions(PartitionFindings(at_ms=T0, blocked=seen.blocked())) == ()


@pytest.mark.parametrize(("holder", "transaction"), [(HOLDER, "billing"), (None, "")])
def test_alert_rules_see_since_when_the_first_group_waits_and_behind_what(
    holder: Holder | None, transaction: str
) -> None:
    seen = tracker()
    for ms in (0, 1_000, 2_000):
        seen.saw_group("first", "Stable", {PARTITION: 100}, T0 + ms, is_whole=True)
        if ms:
            seen.saw_group("second", "Stable", {PARTITION: 100}, T0 + ms, is_whole=True)
        seen.saw_partition(PARTITION, 100, 105, T0 + ms)
    seen.saw_holder(PARTITION, holder)
    (found,) = blocked_partitions(PartitionFindings(at_ms=T0, blocked=seen.blocked()))
    assert (found.since_ms, found.groups, found.transaction) == (T0, ("first", "second"), transaction)


@pytest.mark.parametrize(
    ("remedy", "may_abort", "may_commit"), [(Remedy.COMMIT_MARKER, False, True), (Remedy.MARKER, True, False)]
)
def test_alert_rules_see_whose_hanging_transaction_it_is_and_what_may_end_it(
    remedy: Remedy, may_abort: bool, may_commit: bool
) -> None:
    suspect = hanging()
    known = replace(suspect, doubt=replace(suspect.doubt, transaction="billing", remedy=remedy, may_abort=may_abort))
    applications = {known.key: Application(kind=ApplicationKind.OTHER, name="shop")}
    (found,) = hanging_transactions(PartitionFindings(at_ms=T0, hanging=(known,)), applications)
    assert (found.application, found.may_commit, found.may_abort) == ("shop", may_commit, may_abort)
    assert found.since_ms == T0 + 1_000
