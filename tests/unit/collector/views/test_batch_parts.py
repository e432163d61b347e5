"""Batches: what each side counts, when a batch began and changed, what a complete attempt replays, which one a key names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation, Observed, Position
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.collector.views.batches import (
    Batch,
    BatchVerdict,
    batch_sort_key,
    batches,
    complete_sort_key,
    current_batches,
    find_batch,
)
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.identity import Handle
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    batch_attempt,
    branch_gone,
    branch_listed,
    broker_record,
    case,
    database_handle,
    decided,
    folded,
    run_started,
)
from tests.unit.collector.views.test_batches import DECIDED, KAFKA_DONE, MYSQL, MYSQL_DONE, PREPARED, batches_at, told

V = BatchVerdict
NEXT = database_handle(slot=1, nonce="0000000a")
THIRD = database_handle(slot=2, nonce="0000000b")


def judged(*observed: Observation, at: int = 9_000) -> list[Judged]:
    found = [case(view, at) for view in views(folded(*observed), settled=True)]
    return [Judged(view=one.transaction, judgement=judge(one), pipeline=one.pipeline) for one in found]


def only(*observed: Observation, at: int = 9_000) -> Batch:
    (batch,) = batches(judged(*observed, at=at), T0 + at, commit_overdue_ms=2_000)
    return batch


def in_mysql(*handles: Handle) -> list[Observation]:
    return [run_started(0), *(branch_listed(one) for one in handles), decided(1, *handles)]


def test_a_side_counts_what_is_committed_lost_and_open() -> None:
    ends = [branch_gone(MYSQL, BranchProof.COMMITTED), branch_gone(NEXT, BranchProof.TOMBSTONE)]
    (side,) = only(*in_mysql(MYSQL, NEXT, THIRD), *ends).sides
    assert (side.committed, side.lost, side.open, side.is_committed) == (1, 1, 1, False)
    assert [member.view.slot for member in side.transactions] == [0, 1, 2]
    assert side.rows == 300


def test_rows_are_those_of_the_side_that_knows_most() -> None:
    assert only(*in_mysql(MYSQL, NEXT), broker_record(BrokerStatus.ONGOING, 0)).rows == 200
    unknown = only(run_started(0), branch_listed(MYSQL))
    assert (unknown.rows, unknown.sides[0].rows) == (None, None)
    known = only(run_started(0), branch_listed(MYSQL), branch_listed(NEXT), told(NEXT))
    assert (known.rows, known.sides[0].rows) == (100, 100)


def test_a_batch_begins_with_its_first_transaction_and_changes_with_each() -> None:
    later = replace(NEXT, opened_at_ms=T0 + 700)
    batch = only(*in_mysql(MYSQL, later), branch_gone(later, BranchProof.COMMITTED, at=3_000))
    assert (batch.opened_ms, batch.updated_ms) == (T0, T0 + 3_000)


def test_the_transactions_of_a_side_stand_by_slot_then_by_name() -> None:
    same_slot = replace(THIRD, slot=1, transaction=f"{PREFIX}:41:0:1:00000001")
    first, second = sorted((NEXT, same_slot), key=lambda one: one.key)
    (side,) = only(*in_mysql(THIRD, second, first, MYSQL)).sides
    assert [member.view.handle_key for member in side.transactions] == [
        one.key for one in (MYSQL, first, second, THIRD)
    ]


@pytest.mark.parametrize(
    ("complete", "verdict"),
    [
        ([], V.IN_DOUBT),
        ([(PREFIX, batch_attempt(41, 7))], V.WRITTEN_AGAIN),
        ([(PREFIX, batch_attempt(41, 7)), (PREFIX, batch_attempt(41, 0))], V.WRITTEN_AGAIN),
        ([(PREFIX, batch_attempt(41, 0)), (PREFIX, batch_attempt(41, 7))], V.WRITTEN_AGAIN),
        ([(PREFIX, batch_attempt(41, 0))], V.LOST),
        ([(PREFIX, batch_attempt(42, 7))], V.LOST),
        (["another"], V.LOST),
        ([(PREFIX, replace(batch_attempt(41, 7), checkpoint_id="another"))], V.LOST),
    ],
)
def test_a_later_attempt_that_is_known_to_be_complete_has_replayed_what_was_lost(
    complete: list, verdict: BatchVerdict
) -> None:
    complete = [("another", batch_attempt(41, 7)) if one == "another" else one for one in complete]
    ends = [branch_gone(MYSQL, BranchProof.TOMBSTONE)] if complete else []
    found = judged(*in_mysql(MYSQL), *ends)
    (batch,) = batches(found, T0 + 9_000, 2_000, complete)
    assert batch.verdict is verdict


def test_what_is_open_is_not_replayed_yet() -> None:
    (batch,) = batches(judged(*in_mysql(MYSQL)), T0 + 9_000, 2_000, [(PREFIX, batch_attempt(41, 7))])
    assert batch.verdict is V.IN_DOUBT


def test_only_what_is_ours_and_of_a_known_batch_is_part_of_one() -> None:
    foreign = replace(MYSQL, transaction="'bank','7',1")
    of_no_batch = broker_record(BrokerStatus.ONGOING, 0)
    assert batches(judged(run_started(0), branch_listed(foreign), of_no_batch), T0 + 9_000, 2_000) == []


@pytest.mark.parametrize(("is_proven", "verdict"), [(True, V.COMPLETE), (False, V.IN_DOUBT)])
def test_what_a_later_decided_batch_proves_counts_as_committed(is_proven: bool, verdict: BatchVerdict) -> None:
    seen = views(folded(run_started(0), decided(1, MYSQL)), settled=True)
    found = [case(view, 9_000, later_batch_decided=is_proven) for view in seen]
    known = [Judged(view=one.transaction, judgement=judge(one), pipeline=one.pipeline) for one in found]
    (batch,) = batches(known, T0 + 9_000, 2_000)
    assert (batch.verdict, batch.settling) == (verdict, None)


@pytest.mark.parametrize(("at", "verdict"), [(2_999, V.IN_DOUBT), (3_000, V.ONE_SIDE_ONLY)])
def test_a_driver_has_two_seconds_to_commit_the_other_sides(at: int, verdict: BatchVerdict) -> None:
    (batch,) = batches_at(at, [*DECIDED, branch_gone(MYSQL, BranchProof.COMMITTED, at=1_500)], {})
    assert batch.verdict is verdict


@pytest.mark.parametrize(("at", "verdict"), [(4_999, V.UNDECIDED), (5_000, V.ONE_SIDE_ONLY)])
def test_one_side_that_was_committed_without_a_decision_has_two_seconds_too(at: int, verdict: BatchVerdict) -> None:
    (batch,) = batches_at(at, [*PREPARED, MYSQL_DONE], {})
    assert batch.verdict is verdict


def test_of_equal_batches_the_newest_comes_first_then_the_name() -> None:
    def batch(number: int, opened: int) -> list[Observation]:
        one = replace(MYSQL, transaction=f"{PREFIX}:{number}:0:0:0000000a", opened_at_ms=T0 + opened)
        return [decided(number, one, batch=number), branch_listed(one)]

    found = batches_at(9_000, [run_started(0), *batch(41, 6), *batch(42, 5), *batch(43, 5), *batch(44, 4)], {})
    assert [one.batch_attempt.batch for one in found] == [41, 42, 43, 44]
    complete = complete_sort_key(PREFIX, batch_attempt(41, 0), T0 + 5)
    assert all(batch_sort_key(one) < complete for one in found)
    assert complete_sort_key(PREFIX, batch_attempt(41, 0), T0 + 6) < complete
    assert complete < complete_sort_key(PREFIX, batch_attempt(42, 0), T0 + 5)
    (whole,) = batches_at(9_000, [*in_mysql(MYSQL), MYSQL_DONE], {})
    assert batch_sort_key(whole) == complete_sort_key(PREFIX, whole.batch_attempt, T0)


@pytest.fixture
def current(current: CurrentState) -> CurrentState:
    current.see_decision_log(DecisionLogStatus.READABLE)
    return current


def test_a_key_names_one_attempt_at_a_batch(current: CurrentState) -> None:
    later = replace(MYSQL, transaction=f"{PREFIX}:42:0:0:0a1b2c3d")
    seen = [run_started(0), decided(1, MYSQL), branch_listed(MYSQL), decided(2, later, batch=42), branch_listed(later)]
    positions = (Position(source="s", partition=0, offset=n) for n in range(len(seen)))
    current.observe([Observed(position=at, observation=one) for at, one in zip(positions, seen, strict=True)])
    found = find_batch(current, f"{PREFIX}/{CHECKPOINT_ID}/42/0")
    assert found is not None
    assert found.batch_attempt == batch_attempt(42, 0)
    assert find_batch(current, f"{PREFIX}/{CHECKPOINT_ID}/42/1") is None
    assert find_batch(current, f"{PREFIX}/{CHECKPOINT_ID}/43/0") is None
    assert [one.batch_attempt.batch for one in current_batches(current, lambda a: a.batch == 42)] == [42]
    complete = [(PREFIX, batch_attempt(42, 7))]
    assert {one.verdict for one in current_batches(current, lambda a: a.batch == 42, complete)} == {found.verdict}


def test_a_revision_changes_with_the_decision_alone() -> None:
    def revision(offset: int) -> str:
        return only(run_started(0), branch_listed(MYSQL), decided(offset, MYSQL)).revision

    assert revision(1) == revision(1) != revision(2)
    kafka = [*DECIDED, *KAFKA_DONE]
    assert batches_at(9_000, kafka, {})[0].revision != batches_at(9_000, DECIDED, {})[0].revision
