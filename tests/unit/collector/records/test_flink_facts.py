"""What is known of Flink's jobs and checkpoints, whatever the order in which it is seen, and what of it is forgotten."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from indoubt.collector.records import flink_facts
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import Restore
from indoubt.collector.records.formats.flink_records import FlinkStatus, UnreadCheckpoint
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.records.flink_states import DONE, FAILED, ID, RUNS, A, B, C, listed, path, state, taken_again


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
    for name in ("jobs", "lists", "polled_ms", "away_since_ms", "answered", "checkpoints_kept"):
        assert getattr(copy, name) == getattr(found, name)
    assert copy.lists.job_of_prefix("orders") == (CLUSTER, A)
    assert (copy.lists.listings(ID), copy.pipeline_of(B), copy.lists.is_pooled("orders")) == (
        found.lists.listings(ID),
        f"{CLUSTER}/orders",
        False,
    )
    found.see_checkpoint(checkpoint(4))
    found.see_committables(listed(4, A, ID))
    found.see_polled("away", T0, answered=True)
    assert (list(copy.jobs[A].checkpoints), [each.number for each in copy.lists.listings(ID)]) == ([3], [3])
    assert (copy.polled_ms, copy.away_since_ms, copy.answered) == ({CLUSTER: T0}, {"away": T0}, {CLUSTER})


def test_a_cluster_answers_or_is_away_since_its_first_poll_that_failed() -> None:
    found = FlinkState()
    looks = [(1, True, True), (2, True, False), (3, False, True), (4, False, False), (5, True, True), (6, False, True)]
    for at, answered, is_new in looks:
        assert found.see_polled(CLUSTER, at, answered=answered) is is_new
        answers, away = ({CLUSTER: at}, {}) if answered else ({}, {CLUSTER: 3 if at < 5 else 6})
        assert (found.polled_ms, found.away_since_ms, found.answered) == (answers, away, {CLUSTER})


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


def test_of_the_checkpoints_of_two_runs_the_earlier_run_s_are_forgotten_first() -> None:
    found = state(*(checkpoint(number) for number in (11, 12, 13, 14)), checkpoints_kept=2)
    found.see_checkpoint(taken_again(1))
    assert found.jobs[A].checkpoints.keys() == {14, 1}


def test_jobs_that_are_over_are_forgotten_before_one_that_runs_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 2)
    over = [job(letter * 32, "FINISHED", changed_ms=T0 + number) for number, letter in enumerate("bcde")]
    found = state(job(changed_ms=T0 - 900_000), *over)
    assert found.jobs.keys() == {A, "e" * 32}


def test_a_copy_has_all_that_is_known_and_does_not_change_with_it() -> None:
    found = state(job(job=A), checkpoint(3, job=A, path=path(A, 3)), listed(3, A, ID), writes_here={CLUSTER: True})
    found.out_of_reach[CLUSTER] = {(A, 4): "access denied"}
    found.unread[CLUSTER] = (UnreadCheckpoint(path(A, 5), A, 5, "it is cut short"),)
    found.polled_ms[CLUSTER] = found.away_since_ms["other"] = T0
    found.answered.add(CLUSTER)
    copied = found.copy()
    assert copied == found
    known = replace(copied)
    for container in (found.jobs, found.lists.committables, found.out_of_reach[CLUSTER], found.unread, found.polled_ms,
                      found.away_since_ms, found.answered):  # fmt: skip
        container.clear()
    assert copied == known
    assert all((copied.jobs, copied.lists.committables, copied.out_of_reach[CLUSTER], copied.unread, copied.answered))
