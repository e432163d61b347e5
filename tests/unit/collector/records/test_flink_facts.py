"""What is known of Flink's jobs and checkpoints, whatever the order in which it is seen, and what of it is forgotten."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from indoubt.collector.records import flink_facts
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, Restore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkKind,
    FlinkStatus,
    UnreadCheckpoint,
)
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0

A, B, C = "a" * 32, "b" * 32, "c" * 32
RUNS, DONE, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.COMPLETED, FlinkStatus.FAILED
ID = Committable("orders-0-1", 1, 0)


def path(of_job: str, number: int) -> str:
    return f"/chk/{of_job}/chk-{number}"


def listed(number: int = 1, of_job: str = A, *ids: Committable, **fields: Any) -> FlinkCommittables:
    told: dict[str, Any] = {
        "cluster": CLUSTER,
        "job": of_job,
        "number": number,
        "path": path(of_job, number),
        "kind": FlinkKind.CHECKPOINT,
        "written_ms": T0,
        "read_ms": T0,
        "committables": frozenset(ids),
        **fields,
    }
    return FlinkCommittables(**told)


def see(found: FlinkState, one: Any) -> None:
    """Put a checkpoint, what one lists, or a job into what is known."""
    match one:
        case FlinkCheckpoint():
            found.see_checkpoint(one)
        case FlinkCommittables():
            found.see_committables(one)
        case _:
            found.see_job(one)


def state(*seen: Any, **fields: Any) -> FlinkState:
    found = FlinkState(**fields)
    for one in seen:
        see(found, one)
    return found


def back(number: int, at: int, of_job: str = "") -> Restore:
    return Restore(at_ms=T0 + at, number=number, of_job=of_job)


def test_restores_are_known_whatever_the_order_in_which_they_are_seen() -> None:
    looks = [
        job(restored=3, restored_at=100, seen_ms=1),
        job(restored=4, restored_at=100, seen_ms=2, restored_path=path(B, 4)),
        job(restored=2, restored_at=200, seen_ms=3),
        job(restored=1, restored_at=50, seen_ms=4),
        job(seen_ms=5),
    ]
    for order in permutations(looks):
        restores = state(*order).jobs[A].restores
        of_b = replace(back(4, 100, B), path=path(B, 4))
        assert restores == (back(1, 50), back(3, 100), of_b, back(2, 200))


def test_restores_of_one_time_stand_by_their_number() -> None:
    numbers = (5, 3, 8, 6, 4, 7)
    restores = state(*(job(restored=number, restored_path=path(B, number)) for number in numbers)).jobs[A].restores
    assert [restore.number for restore in restores] == sorted(numbers)


@pytest.mark.parametrize("told", [{"restored_ms": T0}, {"restored_number": 3}])
def test_half_of_a_restore_is_none(told: dict[str, int]) -> None:
    assert state(job(**told)).jobs[A].restores == ()


def test_of_two_looks_the_later_counts_and_what_only_one_tells_is_kept() -> None:
    old = job(state="RUNNING", restored=3, restored_at=100, restored_path="/old", restarts=2, seen_ms=1)
    new = job(state="FAILED", seen_ms=2)
    for looks in ((old, new), (new, old)):
        found = state(*looks).jobs[A].job
        assert (found.state, found.seen_ms, found.restarts) == ("FAILED", 2, 2)
        assert (found.restored_number, found.restored_ms, found.restored_path) == (3, T0 + 100, "/old")
    newer = job(restored=4, restored_at=300, restored_path="/new", restarts=5, seen_ms=1)
    found = state(old, newer).jobs[A].job
    assert (found.restored_number, found.restored_ms, found.restored_path, found.restarts) == (4, T0 + 300, "/new", 5)


def test_the_jobs_that_changed_longest_ago_are_forgotten_once_there_are_twice_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 2)
    names = {letter: letter * 32 for letter in "efgh"}
    seen = [job(id_, changed_ms=T0 + at) for id_, at in zip(names.values(), (40, 10, 30, 20), strict=True)]
    found = state(*seen)
    assert len(found.jobs) == 4
    found.see_job(job(A, changed_ms=T0 + 99, restored=1, restored_path=path(names["f"], 1)))
    assert found.jobs.keys() == {A, names["e"]}
    assert found.pipeline_of(names["f"]) == f"{CLUSTER}/orders", "by the job that was restored from it"


def test_a_job_that_is_forgotten_names_none_that_it_was_restored_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 1)
    found = state(job(B, changed_ms=1, restored=1, restored_path=path(C, 1)), job(A))
    assert found.pipeline_of(C) == f"{CLUSTER}/orders"
    found.see_job(job("d" * 32))
    assert found.pipeline_of(C) is None
    found.see_job(job(B, changed_ms=1))
    assert found.pipeline_of(C) is None


def test_a_job_restored_from_its_own_checkpoint_is_still_named_by_another() -> None:
    named = job(B, name="bills", restored=1, restored_path=path(A, 1))
    found = state(named, job(A, restored=2, restored_path=path(A, 2)))
    found.jobs.pop(A)
    assert found.pipeline_of(A) == f"{CLUSTER}/bills"


def test_a_job_restored_from_its_own_checkpoint_is_named_by_none_other() -> None:
    found = state(job(A, restored=1, restored_path=path(A, 1)), job(B, restored=1, restored_at=1))
    found.jobs.pop(A)
    assert [found.pipeline_of(id_) for id_ in (A, "")] == [None, None]


@pytest.mark.parametrize(
    ("looks", "status"),
    [
        ([RUNS, DONE], DONE),
        ([DONE, RUNS], DONE),
        ([FAILED, RUNS], FAILED),
        ([DONE, FAILED], DONE),
        ([FAILED, DONE], FAILED),
        ([RUNS], RUNS),
    ],
)
def test_an_end_is_never_taken_back(looks: list[FlinkStatus], status: FlinkStatus) -> None:
    assert state(*(checkpoint(3, look) for look in looks)).jobs[A].checkpoints[3].status is status


def test_a_checkpoint_of_a_job_that_was_not_seen_makes_it_known() -> None:
    found = state(checkpoint(3)).jobs[A]
    assert (found.pipeline, found.job.state, found.job.started_ms) == (f"{CLUSTER}/orders", "", T0 + 30_000)
    later = state(checkpoint(3), job(started_ms=T0 + 5)).jobs[A]
    assert (later.job.started_ms, list(later.checkpoints)) == (T0 + 5, [3])


def test_the_oldest_checkpoints_are_forgotten_once_there_are_twice_too_many() -> None:
    found = state(*(checkpoint(number) for number in (4, 1, 3, 2)), checkpoints_kept=2)
    assert len(found.jobs[A].checkpoints) == 4
    found.see_checkpoint(checkpoint(5))
    assert found.jobs[A].checkpoints.keys() == {4, 5}


def test_a_list_is_known_until_it_is_written_again_or_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "COMMITTABLES_KEPT", 2)
    other = Committable("orders-0-2", 1, 0)
    found = state(listed(1, A, ID, other), listed(2, A, ID))
    assert [each.number for each in found.listings(ID)] == [1, 2]
    found.see_committables(listed(1, A, other))
    assert [each.number for each in found.listings(ID)] == [2]
    assert [each.number for each in found.listings(other)] == [1]
    found.see_committables(listed(3))
    assert found.listings(ID) == [], "the list that was read first is forgotten"
    assert found.listed_in(1) == {other}
    assert found.listed_in(2) == set()


def test_lists_of_the_job_that_was_read_first_are_forgotten_with_its_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 2)
    prefixes = frozenset({"orders", "bills"})
    found = state(listed(1, A, ID, prefixes=prefixes, pooled=prefixes), listed(1, B, ID, prefixes=frozenset({"bills"})))
    assert (found.job_of_prefix("orders"), found.job_of_prefix("bills")) == ((CLUSTER, A), (CLUSTER, B))
    assert (found.is_pooled("orders"), found.is_pooled("bills")) == (True, False)
    found.see_committables(listed(1, C))
    assert [each.job for each in found.listings(ID)] == [B]
    assert (found.job_of_prefix("orders"), found.is_pooled("orders")) == (None, None)
    assert (found.job_of_prefix("bills"), found.is_pooled("bills")) == ((CLUSTER, B), False)


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


def test_a_copy_is_the_same_and_does_not_change_with_it() -> None:
    found = state(
        job(restored=1, restored_path=path(B, 1)),
        checkpoint(3),
        listed(3, A, ID, prefixes=frozenset({"orders"})),
        checkpoints_kept=7,
    )
    found.see_polled(CLUSTER, T0, answered=True)
    found.see_polled("away", T0, answered=False)
    copy = found.copy()
    for name in ("jobs", "committables", "polled_ms", "away_since_ms", "answered", "checkpoints_kept"):
        assert getattr(copy, name) == getattr(found, name)
    assert copy.job_of_prefix("orders") == (CLUSTER, A)
    assert (copy.listings(ID), copy.pipeline_of(B), copy.is_pooled("orders")) == (
        found.listings(ID),
        f"{CLUSTER}/orders",
        False,
    )
    found.see_checkpoint(checkpoint(4))
    found.see_committables(listed(4, A, ID))
    found.see_polled("away", T0, answered=True)
    assert (list(copy.jobs[A].checkpoints), [each.number for each in copy.listings(ID)]) == ([3], [3])
    assert (copy.polled_ms, copy.away_since_ms, copy.answered) == ({CLUSTER: T0}, {"away": T0}, {CLUSTER})


def test_a_cluster_answers_or_is_away_since_its_first_poll_that_failed() -> None:
    found = FlinkState()
    looks = [(1, True, True), (2, True, False), (3, False, True), (4, False, False), (5, True, True), (6, False, True)]
    for at, answered, is_new in looks:
        assert found.see_polled(CLUSTER, at, answered=answered) is is_new
        answers, away = ({CLUSTER: at}, {}) if answered else ({}, {CLUSTER: 3 if at < 5 else 6})
        assert (found.polled_ms, found.away_since_ms, found.answered) == (answers, away, {CLUSTER})


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
    found.see_gone(CLUSTER, read.path)
    assert found.unread_that_matter(CLUSTER) == [unread], "what replaced it is deleted"
    untimed = unread._replace(changed_ms=None)
    assert state(read, unread={CLUSTER: (untimed,)}).unread_that_matter(CLUSTER) == [untimed]


def test_the_first_list_that_was_written_since_it_was_opened_holds_a_transaction() -> None:
    found = state(listed(1, A, ID, written_ms=T0), listed(2, A, ID, written_ms=T0 + 10_000))
    skew = CLOCK_SKEW_MS
    since = (0, skew, skew + 1, 10_000 + skew, 10_000 + skew + 1)
    assert [found.checkpoint_of(ID, T0 + at) for at in since] == [1, 1, 2, 2, None]
    assert found.checkpoint_of(Committable("orders-0-9", 1, 0), T0) is None


def taken_again(number: int, status: FlinkStatus = DONE, at: int = 500_000, took: int = 1_000) -> FlinkCheckpoint:
    """Return a checkpoint of a later run under the same job id, which began from an older one."""
    ended_ms = None if status is RUNS else T0 + at + took
    return checkpoint(number, status, triggered_ms=T0 + at, ended_ms=ended_ms)


def test_a_number_that_is_taken_again_is_the_later_checkpoints() -> None:
    for order in permutations([checkpoint(3), checkpoint(4), taken_again(3)]):
        found = state(*order)
        facts = found.jobs[A]
        assert (facts.checkpoints[3], facts.earlier) == (taken_again(3), {3: checkpoint(3)})
        assert all(found.knows(one) for one in order)
        assert not found.knows(taken_again(4))
    assert not state(checkpoint(3)).knows(taken_again(3))
    running = state(checkpoint(3), taken_again(3, RUNS))
    assert not running.knows(taken_again(3))
    running.see_checkpoint(taken_again(3))
    assert running.jobs[A].checkpoints[3].status is DONE
    copy = running.copy()
    running.see_checkpoint(taken_again(4))
    running.see_checkpoint(taken_again(4, at=600_000))
    assert copy.jobs[A].earlier.keys() == {3}


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


def test_of_the_checkpoints_of_two_runs_the_earlier_run_s_are_forgotten_first() -> None:
    found = state(*(checkpoint(number) for number in (11, 12, 13, 14)), checkpoints_kept=2)
    found.see_checkpoint(taken_again(1))
    assert found.jobs[A].checkpoints.keys() == {14, 1}


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


def test_jobs_that_are_over_are_forgotten_before_one_that_runs_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 2)
    over = [job(letter * 32, "FINISHED", changed_ms=T0 + number) for number, letter in enumerate("bcde")]
    found = state(job(changed_ms=T0 - 900_000), *over)
    assert found.jobs.keys() == {A, "e" * 32}


def test_lists_of_the_job_that_wrote_longest_ago_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 2)
    young, old = listed(1, A, ID, written_ms=T0 + 9), [listed(50, of, written_ms=T0) for of in (B, C)]
    for order in permutations([young, *old]):
        assert state(*order).listings(ID) == [young]
    elsewhere = [listed(50, of, written_ms=T0 + 10, cluster="us") for of in (B, C)]
    found = state(young, *elsewhere)
    assert found.committables.keys() == {(CLUSTER, A), ("us", B), ("us", C)}, "each cluster has its own limit"


def test_the_job_that_wrote_last_has_the_prefix_not_the_one_that_was_read_last() -> None:
    prefixes = frozenset({"orders"})
    now, before = listed(1, A, written_ms=T0 + 9, prefixes=prefixes), listed(500, B, written_ms=T0, prefixes=prefixes)
    pooled = listed(501, B, written_ms=T0 + 1, prefixes=prefixes, pooled=prefixes)
    for order in permutations([now, before, pooled]):
        found = state(*order).copy()
        assert (found.job_of_prefix("orders"), found.is_pooled("orders")) == ((CLUSTER, A), False)


def test_a_list_that_is_gone_is_known_as_such_until_it_is_read_again() -> None:
    found = state(listed(1, A, ID), listed(2, A, ID), listed(1, B, ID))
    found.see_gone("us", path(A, 1))
    found.see_gone(CLUSTER, path(A, 9))
    for _ in range(2):
        found.see_gone(CLUSTER, path(A, 1))
        assert [(each.job, each.number, each.is_gone) for each in found.listings(ID)] == [
            (A, 1, True),
            (A, 2, False),
            (B, 1, False),
        ]
        assert list(found.committables[CLUSTER, A]) == [path(A, 1), path(A, 2)]
    found.see_committables(listed(1, A, ID))
    assert [each.is_gone for each in found.listings(ID)] == [False] * 3


def test_a_copy_has_all_that_is_known_and_does_not_change_with_it() -> None:
    found = state(job(job=A), checkpoint(3, job=A, path=path(A, 3)), listed(3, A, ID))
    found.out_of_reach[CLUSTER] = {(A, 4): "access denied"}
    found.unread[CLUSTER] = (UnreadCheckpoint(path(A, 5), A, 5, "it is cut short"),)
    found.polled_ms[CLUSTER] = found.away_since_ms["other"] = T0
    found.answered.add(CLUSTER)
    copied = found.copy()
    assert copied == found
    known = replace(copied)
    for container in (found.jobs, found.committables, found.out_of_reach[CLUSTER], found.unread, found.polled_ms,
                      found.away_since_ms, found.answered):  # fmt: skip
        container.clear()
    assert copied == known
    assert all((copied.jobs, copied.committables, copied.out_of_reach[CLUSTER], copied.unread, copied.answered))
