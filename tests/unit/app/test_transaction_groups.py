"""Transactions of one batch are shown and ordered as one."""

from __future__ import annotations

import pytest

from indoubt.app.components.transaction_groups import grouped
from indoubt.app.dialogs import transactions_dialog
from indoubt.app.dialogs.order_text import how, what_happens
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.verdicts import Certainty, Verdict
from tests.unit.app.contract_rows import batch, foreign, transaction


def groups_of(*rows):
    return grouped(read_row(TransactionRow, row) for row in rows)


def test_slots_of_one_batch_attempt_are_one_group_by_slot():
    (group,) = groups_of(*reversed(batch(12, slots=3)))
    assert [one.slot for one in group.transactions] == [0, 1, 2]
    assert group.is_batch
    assert group.rows == 3 * 3101


def test_a_batch_in_several_resource_managers_counts_its_rows_once():
    kafka = batch(12, slots=2)
    mysql = [
        row | {"key": f"mysql:{n}", "resource_manager": "mysql", "producer_id": None} for n, row in enumerate(kafka)
    ]
    (group,) = groups_of(*kafka, *mysql)
    assert (group.resource_managers, group.rows) == (("kafka", "mysql"), 2 * 3101)
    assert what_happens(Action.COMMIT, group.transactions, ()) == "6,202 rows become visible."
    said = how(Action.COMMIT, group.transactions)
    assert "EndTxn(commit) is sent for 2 transactions, each with its own producer id and epoch" in said
    assert "XA COMMIT is sent for 2 transactions. Nothing else changes." in said


@pytest.mark.parametrize(
    ("action", "changes", "says"),
    [
        (Action.COMMIT, {"rows": 1}, "1 row becomes visible; dashboard reads on."),
        (Action.COMMIT, {"rows": None}, "Its rows become visible; dashboard reads on."),
        (
            Action.ABORT,
            {"rows": 1},
            "1 row is thrown away, and the pipeline's next run writes it again; dashboard reads on.",
        ),
        (
            Action.ABORT,
            {"managed": False, "loses_data": True},
            "3,101 rows are thrown away for good; dashboard reads on. If the program still lives, it gets an error.",
        ),
        (
            Action.ABORT,
            {"managed": False},
            "3,101 rows are thrown away, and its application writes them again; dashboard reads on.",
        ),
        (
            Action.ABORT,
            {"managed": False, "loses_data": True, "resource_manager": "postgres", "rows": 1},
            "1 row is thrown away for good, also if the owner has decided to commit; sessions that wait for its locks go on.",
        ),
    ],
)
def test_a_dialog_says_first_what_becomes_of_the_rows(action, changes, says):
    assert what_happens(action, groups_of(transaction(**changes))[0].transactions, ["dashboard"]) == says


@pytest.mark.parametrize(
    ("waiting", "says"),
    [
        ((), "become visible."),
        (("a", "b"), "; a and b read on."),
        (("a", "b", "c"), "; a, b and 1 more group read on."),
    ],
)
def test_a_dialog_names_who_reads_on(waiting, says):
    assert what_happens(Action.COMMIT, groups_of(transaction())[0].transactions, waiting).endswith(says)


def test_an_abort_of_a_foreign_branch_says_that_no_writer_is_fenced():
    branch = foreign("bank-7", key="postgres:bank-7@postgres") | {"resource_manager": "postgres", "producer_id": None}
    assert how(Action.ABORT, groups_of(branch)[0].transactions) == "ROLLBACK PREPARED is sent for 1 transaction."


def test_attempt_checkpoint_id_and_pipeline_separate_groups():
    rows = [
        transaction(attempt=1, key="a"),
        transaction(attempt=2, key="b"),
        transaction(checkpoint_id="checkpoint-2", key="c"),
    ]
    assert len(groups_of(*rows, transaction(pipeline="word-count", key="d"))) == 4


def test_two_thousand_ids_of_one_application_are_one_group():
    (group,) = groups_of(*(foreign(f"shop-{n}-1", pipeline="shop", key=f"shop:{n}") for n in range(2_000)))
    assert (len(group.transactions), group.is_batch) == (2_000, False)


def test_two_thousand_branches_of_one_application_are_one_group_in_each_database():
    rows = [
        foreign(f"201_{n}", pipeline="eu/orders", key=f"{kind}:{n}") | {"resource_manager": kind}
        for n in range(2_000)
        for kind in ("mysql", "postgres")
    ]
    found = groups_of(*rows, foreign("orders-0-3", pipeline="eu/orders"))
    assert sorted(len(group.transactions) for group in found) == [1, 2_000, 2_000]


def test_verdict_application_and_what_a_commit_must_repeat_separate_groups():
    likely = {"pipeline": "eu/orders", "verdict": "commit it", "may_commit": True}
    rows = [
        foreign("a-1", pipeline="shop", key="a"),
        foreign("a-2", pipeline="shop", verdict="in progress", key="b"),
        foreign("a-3", pipeline="shop 2", key="c"),
        foreign("o-1", **likely, commit_confirmation="chk-4", key="d"),
        foreign("o-2", **likely, commit_confirmation="chk-5", key="e"),
        foreign("o-3", **likely, commit_confirmation="chk-5", key="f"),
    ]
    assert sorted(len(group.transactions) for group in groups_of(*rows)) == [1, 1, 1, 1, 2]


def test_a_group_is_as_sure_as_the_least_sure_transaction_of_its_verdict():
    sure = [("commit it", "certain"), ("commit it", "likely"), ("in progress", "guess")]
    slots = [row | {"verdict": verdict, "certainty": certainty}
             for row, (verdict, certainty) in zip(batch(7, slots=3), sure, strict=True)]  # fmt: skip
    (group,) = groups_of(*slots)
    assert (group.verdict, group.certainty) == (Verdict.COMMIT_IT, Certainty.LIKELY)


def test_an_abort_of_several_of_one_application_takes_what_their_ids_begin_with():
    (group,) = groups_of(*(foreign(f"shop-{n}", pipeline="shop", key=f"s:{n}") for n in (17, 18)))
    shown = group.orderable(Action.ABORT)
    assert transactions_dialog.DIALOG.confirmation_text(Action.ABORT, shown) == "shop-1"


def test_rows_are_ordered_by_urgency_then_by_timeout():
    found = groups_of(
        foreign("late", deadline_ms=9_000),
        foreign("never", deadline_ms=None),
        foreign("soon", deadline_ms=5_000),
        *batch(7, slots=1),
    )
    assert [group.first.transaction for group in found] == ["ip-count-0-1", "soon", "late", "never"]


def test_a_group_has_its_most_urgent_verdict_and_its_earliest_timeout():
    rows = [transaction(verdict="in progress", deadline_ms=10, key="a"), transaction(slot=1, deadline_ms=5, key="b")]
    (group,) = groups_of(*rows)
    assert group.verdict is Verdict.COMMIT_IT
    assert group.deadline_ms == 5


def test_only_what_the_collector_allows_can_be_ordered():
    rows = [
        transaction(slot=0, key="a"),
        transaction(slot=1, key="b", may_commit=False),
        transaction(slot=2, key="c", state="committed"),
    ]
    (group,) = groups_of(*rows)
    assert [one.key for one in group.orderable(Action.COMMIT)] == ["a"]
    assert group.orderable(Action.ABORT) == ()


def test_the_token_stays_while_the_state_moves_and_differs_between_batches():
    open_, decided = groups_of(*batch(7, state="open"))[0], groups_of(*batch(7, state="decided"))[0]
    assert open_.token == decided.token
    assert open_.token != groups_of(*batch(8))[0].token
    assert len(open_.token) == 10
