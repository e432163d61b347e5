"""Which list of a checkpoint counts, whose it is, why there is none, and which is forgotten."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from indoubt.collector.records import flink_facts, flink_lists
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCommittables,
    FlinkStatus,
    UnreadCheckpoint,
)
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.records.flink_states import DONE, FAILED, ID, A, B, C, listed, path, see, state, taken_again


def test_a_list_is_known_until_it_is_written_again_or_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_lists, "COMMITTABLES_KEPT", 2)
    other = Committable("orders-0-2", 1, 0)
    found = state(listed(1, A, ID, other), listed(2, A, ID))
    assert [each.number for each in found.lists.listings(ID)] == [1, 2]
    found.see_committables(listed(1, A, other))
    assert [each.number for each in found.lists.listings(ID)] == [2]
    assert [each.number for each in found.lists.listings(other)] == [1]
    found.see_committables(listed(3))
    assert found.lists.listings(ID) == [], "the list that was read first is forgotten"
    assert found.lists.listed_in(1) == {other}
    assert found.lists.listed_in(2) == set()


def test_lists_of_the_job_that_was_read_first_are_forgotten_with_its_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_lists, "JOBS_KEPT", 2)
    prefixes = frozenset({"orders", "bills"})
    found = state(listed(1, A, ID, prefixes=prefixes, pooled=prefixes), listed(1, B, ID, prefixes=frozenset({"bills"})))
    assert (found.lists.job_of_prefix("orders"), found.lists.job_of_prefix("bills")) == ((CLUSTER, A), (CLUSTER, B))
    assert (found.lists.is_pooled("orders"), found.lists.is_pooled("bills")) == (True, False)
    found.see_committables(listed(1, C))
    assert [each.job for each in found.lists.listings(ID)] == [B]
    assert (found.lists.job_of_prefix("orders"), found.lists.is_pooled("orders")) == (None, None)
    assert (found.lists.job_of_prefix("bills"), found.lists.is_pooled("bills")) == ((CLUSTER, B), False)


def test_jobs_without_a_list_are_found_anew_after_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 1)

    def without(of: FlinkState) -> list[str]:
        return [facts.job.job for facts in of.jobs_without_list()]

    found = state(job(A, changed_ms=2))
    assert without(found) == [A]
    found.see_checkpoint(checkpoint(1, job=B))
    assert without(found) == [A, B]
    found.see_committables(listed(1, A, error="cut short"))
    assert without(found) == [A, B]
    found.see_committables(listed(2, A))
    assert without(found) == [B]
    found.see_job(job(B, changed_ms=1))
    assert without(found) == [B]
    found.see_checkpoint(checkpoint(1, job=C))
    assert without(found) == [B, C]
    found.see_job(job(B, changed_ms=T0))
    assert without(found) == [B], "one that is forgotten is not among them"
    found.see_job(job("d" * 32))
    assert without(found) == [B, "d" * 32]


@pytest.mark.parametrize(
    ("of_job", "number", "why"),
    [(A, 3, "this one"), (A, 4, "of this job"), (B, 3, "any"), (B, 4, "any")],
)
def test_what_is_nearest_says_why_a_list_is_out_of_reach(of_job: str, number: int, why: str) -> None:
    found = FlinkState(out_of_reach={CLUSTER: {("", None): "any", (A, None): "of this job", (A, 3): "this one"}})
    assert found.why_out_of_reach(CLUSTER, of_job, number) == why
    assert found.why_out_of_reach("another", of_job, number) == ""
    found.out_of_reach[CLUSTER].pop(("", None))
    assert found.why_out_of_reach(CLUSTER, of_job, number) == ("" if of_job == B else why)


@pytest.mark.parametrize(
    ("read", "is_replaced"),
    [
        (listed(4), True),
        (listed(3), False),
        (listed(4, written_ms=T0 - 1), False),
        (listed(4, error="a part is damaged"), False),
        (listed(4, path="/savepoints/savepoint-aaaaaa-1"), False),
        (listed(4, B), False),
        (listed(4, cluster="another"), False),
    ],
    ids=["later", "the same", "from before it was set back", "not whole", "a savepoint", "another job's", "elsewhere"],
)
def test_a_later_checkpoint_that_was_read_whole_replaces_one_that_cannot_be(
    read: FlinkCommittables, is_replaced: bool
) -> None:
    unread = UnreadCheckpoint(path(A, 3), A, 3, "denied", T0)
    found = state(read, unread={CLUSTER: (unread,)})
    assert found.unread_that_matter(CLUSTER) == ([] if is_replaced else [unread])
    assert found.unread_that_matter("another") == []
    found.lists.see_gone(CLUSTER, read.path)
    assert found.unread_that_matter(CLUSTER) == [unread], "what replaced it is deleted"
    untimed = unread._replace(changed_ms=None)
    assert state(read, unread={CLUSTER: (untimed,)}).unread_that_matter(CLUSTER) == [untimed]


def test_the_first_list_that_was_written_since_it_was_opened_holds_a_transaction() -> None:
    found = state(listed(1, A, ID, written_ms=T0), listed(2, A, ID, written_ms=T0 + 10_000))
    skew = CLOCK_SKEW_MS
    since = (0, skew, skew + 1, 10_000 + skew, 10_000 + skew + 1)
    assert [found.lists.checkpoint_of(ID, T0 + at) for at in since] == [1, 1, 2, 2, None]
    assert found.lists.checkpoint_of(Committable("orders-0-9", 1, 0), T0) is None


def test_a_list_is_of_the_checkpoint_that_it_was_written_for() -> None:
    facts = state(checkpoint(3, FAILED), taken_again(3)).jobs[A]
    before, since, between = (listed(3, written_ms=T0 + at) for at in (30_500, 500_900, 100_000))
    assert facts.ended(before, DONE) is None
    assert facts.ended(before, FAILED) == (checkpoint(3, FAILED), T0 + 31_000)
    assert facts.ended(since, DONE) == (taken_again(3), T0 + 501_000)
    assert facts.ended(since, FAILED) is facts.ended(between, DONE) is None


def test_the_end_of_a_number_that_was_taken_again_is_awaited() -> None:
    found = state(job(), checkpoint(3), listed(3, written_ms=T0 + 500_900, read_ms=T0 + 500_950))
    assert [each.job for each in found.awaiting_end(CLUSTER, T0)] == [A]
    found.see_checkpoint(taken_again(3))
    assert found.awaiting_end(CLUSTER, T0) == []


@pytest.mark.parametrize(
    ("path_of_list", "off_ms", "is_its"),
    [
        (f"s3a://bucket/{A}/chk-3", 30_000, True),
        (f"s3a://bucket/{A}/chk-3", 30_001, False),
        (f"s3://other/{A}/chk-3", 1_000, True),
        (f"s3://other/{A}/chk-3", 1_001, False),
    ],
)
def test_clocks_may_differ_further_where_the_directory_is_known(path_of_list: str, off_ms: int, is_its: bool) -> None:
    seen = checkpoint(3, path=f"s3://bucket/{A}/chk-3")
    facts = state(seen).jobs[A]
    for written_ms in (T0 + 31_000 + off_ms, T0 + 30_000 - off_ms):
        one = listed(3, path=path_of_list, written_ms=written_ms)
        assert (facts.ended(one, DONE) is not None) is is_its
        by_flink = min(max(written_ms, T0 + 30_000), T0 + 31_000)
        assert facts.timed(one).written_ms == (by_flink if is_its else written_ms)


@pytest.mark.parametrize(
    "since",
    [
        pytest.param([job(started_ms=T0 + 31_001)], id="the job started again"),
        pytest.param(
            [checkpoint(3, FlinkStatus.IN_PROGRESS, triggered_ms=T0 + 35_000)], id="its number is taken again"
        ),
    ],
)
def test_a_list_that_a_second_start_wrote_into_a_named_directory_is_not_the_ended_checkpoint_s(
    since: list[Any],
) -> None:
    path = f"s3://bucket/{A}/chk-3"
    ended = state(job(), checkpoint(3, path=path))
    again = listed(3, path=path, written_ms=T0 + 36_000)
    assert ended.jobs[A].ended(again, DONE) is not None
    for seen in since:
        see(ended, seen)
    assert ended.jobs[A].ended(again, DONE) is None


def test_lists_of_the_job_that_wrote_longest_ago_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_lists, "JOBS_KEPT", 2)
    young, old = listed(1, A, ID, written_ms=T0 + 9), [listed(50, of, written_ms=T0) for of in (B, C)]
    for order in permutations([young, *old]):
        assert state(*order).lists.listings(ID) == [young]
    elsewhere = [listed(50, of, written_ms=T0 + 10, cluster="us") for of in (B, C)]
    found = state(young, *elsewhere)
    assert found.lists.committables.keys() == {(CLUSTER, A), ("us", B), ("us", C)}, "each cluster has its own limit"


def test_the_job_that_wrote_last_has_the_prefix_not_the_one_that_was_read_last() -> None:
    prefixes = frozenset({"orders"})
    now, before = listed(1, A, written_ms=T0 + 9, prefixes=prefixes), listed(500, B, written_ms=T0, prefixes=prefixes)
    pooled = listed(501, B, written_ms=T0 + 1, prefixes=prefixes, pooled=prefixes)
    for order in permutations([now, before, pooled]):
        found = state(*order).copy()
        assert (found.lists.job_of_prefix("orders"), found.lists.is_pooled("orders")) == ((CLUSTER, A), False)


def test_a_list_that_is_gone_is_known_as_such_until_it_is_read_again() -> None:
    found = state(listed(1, A, ID), listed(2, A, ID), listed(1, B, ID))
    found.lists.see_gone("us", path(A, 1))
    found.lists.see_gone(CLUSTER, path(A, 9))
    assert [each.is_gone for each in found.lists.listings(ID)] == [False] * 3, (
        "of another cluster, and none that was read"
    )
    for _ in range(2):
        found.lists.see_gone(CLUSTER, path(A, 1))
        assert [(each.job, each.number, each.is_gone) for each in found.lists.listings(ID)] == [
            (A, 1, True),
            (A, 2, False),
            (B, 1, False),
        ]
        assert list(found.lists.committables[CLUSTER, A]) == [path(A, 1), path(A, 2)]
    found.see_committables(listed(1, A, ID))
    assert [each.is_gone for each in found.lists.listings(ID)] == [False] * 3


def test_a_prefix_goes_to_the_job_that_wrote_last_of_those_whose_lists_are_there() -> None:
    orders, other = frozenset({"orders"}), frozenset({"bills"})
    lists = [
        listed(1, A, written_ms=T0 + 2, prefixes=orders, pooled=orders),
        listed(1, B, written_ms=T0 + 1, prefixes=orders),
        listed(1, C, written_ms=T0 + 3, prefixes=orders),
        listed(1, "d" * 32, written_ms=T0 + 9, prefixes=other),
    ]
    for order in permutations(lists):
        found = state(*order).lists
        found.see_gone(CLUSTER, path(C, 1))
        assert (found.job_of_prefix("orders"), found.is_pooled("orders")) == ((CLUSTER, A), True)
        found.see_gone(CLUSTER, path(A, 1))
        assert (found.job_of_prefix("orders"), found.is_pooled("orders")) == ((CLUSTER, B), False)
