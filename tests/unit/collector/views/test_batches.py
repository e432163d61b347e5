"""Batches: whether all parts of a batch ended alike, what may be ordered, and the words for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess.transaction_groups import required
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation
from indoubt.collector.records.orders import InvalidOrder, StepOutcome, read
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.collector.views.batch_rows import batch_row
from indoubt.collector.views.batches import Batch, BatchVerdict, Settling, batches
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import row_to_json
from indoubt.lifecycle.verdicts import Verdict
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
    handle,
    outcome,
    pipeline,
    run_started,
    transaction_event,
)

RUN = run_started(0)
KAFKA, MYSQL = handle(), database_handle()
POSTGRES = database_handle("postgres", nonce="00000001")
ALL = (KAFKA, MYSQL, POSTGRES)


def told(of: Handle) -> Observation:
    return transaction_event(EventType.TRANSACTION_PREPARED, 500, of, handle=of.to_json())


PREPARED = [
    RUN,
    broker_record(BrokerStatus.ONGOING, 0),
    branch_listed(MYSQL),
    branch_listed(POSTGRES),
    *(told(one) for one in ALL),
]
DECIDED = [*PREPARED, decided(1, *ALL)]
KAFKA_DONE: list[Observation] = [
    broker_record(BrokerStatus.PREPARE_COMMIT, 1_100),
    broker_record(BrokerStatus.COMPLETE_COMMIT, 1_101),
]
KAFKA_UNDONE: list[Observation] = [
    broker_record(BrokerStatus.PREPARE_ABORT, 1_100),
    broker_record(BrokerStatus.COMPLETE_ABORT, 1_101),
]
MYSQL_DONE = branch_gone(MYSQL, BranchProof.COMMITTED)
MYSQL_UNDONE = branch_gone(MYSQL, BranchProof.NO_MARKER)
MYSQL_LOST = branch_gone(MYSQL, BranchProof.TOMBSTONE)
POSTGRES_DONE = branch_gone(POSTGRES, BranchProof.COMMITTED)
POSTGRES_UNDONE = branch_gone(POSTGRES, BranchProof.NO_MARKER)
NEWER = {"pipeline": pipeline(latest_run_offset=7, latest_run_ms=T0 + 600)}
REPLAYED = {"replayed_ms": T0 + 5_000}
V = BatchVerdict
EVERYWHERE, WITHOUT_MYSQL = ["kafka", "mysql", "postgres"], ["kafka", "postgres"]
OTHERS_DONE = [*KAFKA_DONE, POSTGRES_DONE]
ALL_TOLD = [outcome(2 + number, one, Settled.COMMITTED) for number, one in enumerate(ALL)]
ALL_LOST = [MYSQL_LOST, *KAFKA_UNDONE, outcome(2, POSTGRES, Settled.LOST)]
CASES: list[tuple[str, list[Observation], int, dict[str, Any], BatchVerdict, list[str], Settling | None]] = [
    ("undecided, its driver alive", [*PREPARED], 2_000, {}, V.UNDECIDED, [], None),
    ("undecided, a newer run", [*PREPARED], 2_000, NEWER, V.UNDECIDED, [], Settling.ABORT),
    ("undecided, one undone", [*PREPARED, MYSQL_UNDONE], 2_000, NEWER, V.UNDECIDED, [], Settling.ABORT),
    (
        "undecided, all undone",
        [*PREPARED, MYSQL_UNDONE, POSTGRES_UNDONE, *KAFKA_UNDONE],
        9_000,
        NEWER,
        V.ABORTED,
        [],
        None,
    ),
    ("abort decided", [*PREPARED, decided(1, *ALL, ruling=Ruling.ABORT)], 9_000, {}, V.UNDECIDED, [], Settling.ABORT),
    ("decided just now", [*DECIDED, MYSQL_DONE], 2_000, {}, V.IN_DOUBT, ["mysql"], None),
    ("decided, none committed", DECIDED, 9_000, {}, V.IN_DOUBT, [], Settling.COMMIT),
    ("one side committed", [*DECIDED, MYSQL_DONE], 9_000, {}, V.ONE_SIDE_ONLY, ["mysql"], Settling.COMMIT),
    (
        "two of three",
        [*DECIDED, MYSQL_DONE, *KAFKA_DONE],
        9_000,
        {},
        V.ONE_SIDE_ONLY,
        ["kafka", "mysql"],
        Settling.COMMIT,
    ),
    ("one committed, one lost", [*DECIDED, MYSQL_LOST, *OTHERS_DONE], 2_000, {}, V.ONE_SIDE_ONLY, WITHOUT_MYSQL, None),
    (
        "lost and brought back",
        [*DECIDED, MYSQL_LOST, *OTHERS_DONE],
        9_000,
        REPLAYED,
        V.WRITTEN_AGAIN,
        WITHOUT_MYSQL,
        None,
    ),
    ("all of it lost", [*DECIDED, *ALL_LOST], 9_000, {}, V.LOST, [], None),
    (
        "one vanished without proof",
        [*DECIDED, MYSQL_UNDONE, *OTHERS_DONE],
        9_000,
        {},
        V.ONE_SIDE_ONLY,
        WITHOUT_MYSQL,
        None,
    ),
    ("committed by hand, undecided", [*PREPARED, MYSQL_DONE], 9_000, NEWER, V.ONE_SIDE_ONLY, ["mysql"], None),
    (
        "committed a moment before its decision is seen",
        [*PREPARED, MYSQL_DONE],
        3_500,
        {},
        V.UNDECIDED,
        ["mysql"],
        None,
    ),
    ("everywhere", [*DECIDED, MYSQL_DONE, *KAFKA_DONE, POSTGRES_DONE], 9_000, {}, V.COMPLETE, EVERYWHERE, None),
    ("everywhere, told by outcomes", [*DECIDED, *ALL_TOLD], 9_000, {}, V.COMPLETE, EVERYWHERE, None),
]


def batches_at(at: int, observed: list[Observation], more: dict[str, Any]) -> list[Batch]:
    found = [case(view, at, **more) for view in views(folded(*observed), settled=True)]
    judged = [Judged(view=one.transaction, judgement=judge(one), pipeline=one.pipeline) for one in found]
    return batches(judged, T0 + at, commit_overdue_ms=2_000)


@pytest.mark.parametrize(
    ("observed", "at", "more", "verdict", "committed_on", "settling"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_verdict_of_a_batch(
    observed: list[Observation],
    at: int,
    more: dict[str, Any],
    verdict: BatchVerdict,
    committed_on: list[str],
    settling: Settling | None,
) -> None:
    (batch,) = batches_at(at, observed, more)
    assert (batch.verdict, list(batch.committed_on), batch.settling) == (verdict, committed_on, settling)
    assert {*batch.committed_on, *batch.missing_on} == {"kafka", "mysql", "postgres"}
    row = row_to_json(batch_row(batch))
    assert (row["pipeline"], row["checkpoint_id"], row["batch"], row["attempt"]) == (PREFIX, CHECKPOINT_ID, 41, 0)
    assert (row["rows"], len(row["transactions"]), row["key"]) == (100, 3, f"{PREFIX}/{CHECKPOINT_ID}/41/0")
    assert [side["resource_manager"] for side in row["sides"]] == ["kafka", "mysql", "postgres"]
    assert row["explanation"]


def test_each_transaction_of_a_batch_has_the_times_of_its_steps() -> None:
    (batch,) = batches_at(9_000, [*DECIDED, MYSQL_DONE, *KAFKA_DONE], {})
    times = {
        one.resource_manager: (one.opened_at_ms, one.prepared_at_ms, one.ended_at_ms)
        for one in batch_row(batch).transactions
    }
    since = {name: tuple(at and at - T0 for at in found) for name, found in times.items()}
    assert since == {"kafka": (0, 500, 1_100), "mysql": (0, 500, 3_000), "postgres": (0, 500, None)}


def test_a_batch_times_out_with_the_first_of_its_open_transactions() -> None:
    (batch,) = batches_at(9_000, [*DECIDED, MYSQL_DONE], {})
    (deadline_ms,) = {one.view.deadline_ms for one in batch.transactions if one.view.resource_manager == "kafka"}
    assert deadline_ms is not None
    assert batch_row(batch).deadline_ms == deadline_ms
    (ended,) = batches_at(9_000, [*DECIDED, MYSQL_DONE, *KAFKA_DONE], {})
    assert batch_row(ended).deadline_ms is None


def test_one_side_only_is_said_in_words() -> None:
    (batch,) = batches_at(9_000, [*DECIDED, MYSQL_DONE, *KAFKA_DONE], {})
    assert batch_row(batch).explanation == (
        "Committed on kafka and mysql, not on postgres (postgres: 1 open of 1). Settle it."
    )


def test_every_verdict_has_a_case() -> None:
    of_later_attempts = {V.ABORTED_WRITTEN_AGAIN}
    assert {one[4] for one in CASES} == set(BatchVerdict) - of_later_attempts


def test_what_was_lost_and_written_again_says_when() -> None:
    (batch,) = batches_at(9_000, [*DECIDED, MYSQL_LOST, *OTHERS_DONE], REPLAYED)
    row = row_to_json(batch_row(batch))
    assert (row["verdict"], row["written_again_at_ms"]) == ("lost, then written again", T0 + 5_000)
    assert "A later attempt wrote those rows again at 2026" in row["explanation"]
    states = {one["resource_manager"]: one["state"] for one in row["transactions"]}
    assert states == {"kafka": "committed", "mysql": "lost, then written again", "postgres": "committed"}


def test_a_batch_on_one_side_only_comes_first_then_the_newest() -> None:
    def batch(number: int, nonce: str, ends: bool) -> list[Observation]:
        mysql = replace(MYSQL, transaction=f"{PREFIX}:{number}:0:0:{nonce}", opened_at_ms=T0 + number)
        postgres = replace(POSTGRES, transaction=f"{PREFIX}:{number}:0:0:{nonce[::-1]}", opened_at_ms=T0 + number)
        ended = [branch_gone(mysql, BranchProof.COMMITTED)] if ends else []
        return [decided(number, mysql, postgres, batch=number), *ended, branch_listed(postgres)]

    found = batches_at(
        9_000, [RUN, *batch(41, "0000000a", False), *batch(42, "0000000b", True), *batch(43, "0000000c", False)], {}
    )
    assert [(one.batch_attempt.batch, one.verdict) for one in found] == [
        (42, V.ONE_SIDE_ONLY),
        (43, V.IN_DOUBT),
        (41, V.IN_DOUBT),
    ]


def test_a_later_attempt_that_is_complete_has_replayed_the_earlier_one() -> None:
    replay = replace(MYSQL, transaction=f"{PREFIX}:41:7:0:0000000c")
    observed = [
        *DECIDED,
        MYSQL_LOST,
        *KAFKA_DONE,
        POSTGRES_DONE,
        run_started(7, at=3_500, run="run-2"),
        decided(8, replay, attempt=7, at=4_000),
        branch_gone(replay, BranchProof.COMMITTED, at=4_100),
    ]
    found = {one.batch_attempt.attempt: one.verdict for one in batches_at(9_000, observed, {})}
    assert found == {0: V.WRITTEN_AGAIN, 7: V.COMPLETE}


def test_what_the_decision_does_not_list_is_no_part_of_it() -> None:
    """A task's earlier try prepared too; its decision lists the later one."""
    earlier = replace(MYSQL, transaction=f"{PREFIX}:41:0:0:0000000d")
    (batch,) = batches_at(
        9_000, [*DECIDED, MYSQL_DONE, *KAFKA_DONE, POSTGRES_DONE, branch_listed(earlier), told(earlier)], {}
    )
    assert (batch.verdict, len(batch.transactions)) == (V.COMPLETE, 3)


def test_the_revision_changes_with_each_part() -> None:
    seen = [batches_at(9_000, observed, {})[0].revision for observed in (PREPARED, DECIDED, [*DECIDED, MYSQL_DONE])]
    assert len(set(seen)) == 3
    assert batches_at(10_000, [*DECIDED], {})[0].batch_attempt == batch_attempt()


def test_what_needs_a_hand_counts_the_rows_of_a_batch_once() -> None:
    (batch,) = batches_at(9_000, DECIDED, {})
    (group,) = required(batch.transactions, NOTHING_SEEN, {}, T0, 0)
    assert (group.verdict, len(group.keys), group.rows) == (Verdict.COMMIT_IT, 3, 100)


def test_settle_takes_one_batch_and_ends_well_either_way() -> None:
    body = {"action": "settle", "keys": ["a/b/1/2"], "seen": {"a/b/1/2": "r"}, "reason": "one side only"}
    assert read(body).action is Action.SETTLE
    with pytest.raises(InvalidOrder, match="the key of one pipeline, or of one batch"):
        read(body | {"keys": ["a/b/1/2", "a/b/2/2"]})
    ended_well = {outcome for outcome in StepOutcome if outcome.fulfils(Action.SETTLE)}
    assert ended_well == {StepOutcome.COMMITTED, StepOutcome.ALREADY_COMMITTED, StepOutcome.ABORTED}


def test_of_a_complete_batch_all_that_was_decided_is_counted_also_what_left_memory() -> None:
    (whole,) = batches_at(9_000, [*DECIDED, MYSQL_DONE, *KAFKA_DONE, POSTGRES_DONE], {})
    left = [each for each in whole.transactions if each.view.resource_manager != "kafka"]
    (batch,) = batches(left, T0 + 9_000, 1_500)
    assert (batch.verdict, len(batch.transactions)) == (V.COMPLETE, 2)
    assert batch_row(batch).explanation == "All of its transactions (3) are committed."
