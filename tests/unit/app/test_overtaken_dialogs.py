"""An open dialog follows the world: who or what was faster takes the place of its form."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from indoubt.app.dialogs import order_dialog
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import pipeline
from tests.unit.app.contract_rows import batch, foreign, given_order, now_ms, shared_batch
from tests.unit.app.page_driver import answering, button, labels, opened, said

pytestmark = pytest.mark.slow


@pytest.fixture
def answers(monkeypatch):
    monkeypatch.setattr(order_dialog, "STAYS_S", 0.0)
    with answering(Answers(transactions=batch()), monkeypatch) as known:
        yield known


def opened_commit() -> AppTest:
    return button(opened("overview"), "Commit batch 1841 …").click().run()


def order(answers: Answers, action: str, keys: list[str], **changes: Any) -> dict[str, Any]:
    """Return an entry of the audit, of now unless changed."""
    return given_order(who="bert", action=action, keys=keys, reason="I was faster", **changes)


def test_the_order_of_another_person_takes_the_place_of_the_form(answers):
    page = opened_commit()
    keys = [row["key"] for row in answers.transactions]
    answers.audit = [order(answers, "commit", keys)]
    answers.transactions = []
    page = page.run()
    assert "<b>bert committed this " in said(page)
    assert "I was faster" in said(page)
    assert "Commit 4 transactions" not in labels(page)
    assert "Use the current state" not in labels(page)
    page = button(page, "Close").click().run()
    assert "bert committed this" not in said(page)
    assert answers.orders == []


def test_an_order_from_before_the_dialog_is_not_who_was_faster(answers):
    page = opened_commit()
    keys = [row["key"] for row in answers.transactions]
    answers.audit = [order(answers, "commit", keys, at_ms=now_ms() - 60_000)]
    answers.transactions = []
    assert "<b>They have ended.</b>" in said(page.run())


def test_the_form_stays_for_a_moment_under_the_finger_that_presses_it(answers, monkeypatch):
    monkeypatch.setattr(order_dialog, "STAYS_S", 3600.0)
    page = opened_commit()
    for row in answers.transactions:
        row |= {"revision": "later", "state": "committed", "may_commit": False}
    page = page.run()
    assert "<b>They are committed.</b> No order from here did that." in said(page)
    page.text_input(key="order-reason").set_value("driver frozen")
    page = button(page, "Commit 4 transactions").click().run()
    assert "Refused: nothing was done." in said(page), "the collector judges it, as ever"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": "lost"}, "Kafka aborted them at the timeout."),
        ({"state": "committing", "may_commit": False}, "They have changed since you opened this."),
    ],
)
def test_what_no_order_did_is_said_too(answers, changes, says):
    page = opened_commit()
    for row in answers.transactions:
        row |= {"revision": "later", **changes}
    if changes["state"] == "lost":
        page.session_state["order-asked"] = _timed_out(page.session_state["order-asked"])
    page = page.run()
    assert f"<b>{says}</b>" in said(page)
    assert "Commit 4 transactions" not in labels(page)


def test_an_order_may_be_in_time_after_the_timeout(answers):
    page = opened_commit()
    assert "The time ran out" not in said(page)
    page.session_state["order-asked"] = _timed_out(page.session_state["order-asked"])
    page = page.run()
    assert "an order may still be in time" in said(page)
    assert "Commit 4 transactions" in labels(page)


def _timed_out(asked: Any) -> Any:
    from dataclasses import replace

    return replace(asked, target=tuple(replace(row, deadline_ms=now_ms() - 1_000) for row in asked.target))


def test_what_changed_in_part_is_ordered_as_it_is_now(answers):
    page = opened_commit()
    answers.transactions[1] |= {"revision": "later", "state": "committed", "may_commit": False}
    page = page.run()
    assert "They have changed since you opened this." in said(page)
    assert "committed · commit it · epoch 7" in said(page)
    page = button(page, "Use the current state").click().run()
    assert "Commit 3 transactions" in labels(page)


def test_an_order_of_another_that_is_under_way_is_not_given_twice(answers):
    page = opened_commit()
    answers.under_way = [
        {"at_ms": now_ms(), "who": "bert", "action": "commit", "keys": [answers.transactions[0]["key"]],
         "reason": "I was faster", "audit": None}
    ]  # fmt: skip
    page = page.run()
    assert "bert gave the order to commit this: under way for " in said(page)
    assert "Commit 4 transactions" not in labels(page)


def test_one_whose_end_is_looked_up_may_be_given_again(answers):
    answers.under_way = [
        {"at_ms": now_ms(), "who": "bert", "action": "commit", "keys": [answers.transactions[0]["key"]],
         "reason": "no answer came", "audit": 7}
    ]  # fmt: skip
    assert "Commit 4 transactions" in labels(opened_commit().run())


def test_the_form_stays_while_the_collector_cannot_be_asked(answers):
    page = opened_commit()
    answers.loading = True
    assert "Commit 4 transactions" in labels(page.run())


def test_a_foreign_transaction_that_its_owner_ended_is_not_aborted(answers):
    answers.transactions = [foreign("billing-1")]
    page = button(opened("pending"), "Abort …").click().run()
    answers.transactions[0] |= {"revision": "later", "state": "committed", "may_abort": False}
    assert "<b>It is committed.</b> No order from here did that." in said(page.run())


def test_a_restart_that_another_person_gave_takes_the_place_of_the_form(answers):
    answers.pipelines = [pipeline()]
    key = answers.pipelines[0]["key"]
    page = button(opened("pipelines"), "Restart …").click().run()
    answers.pipelines[0] |= {"revision": "next", "attempt": 89}
    page = page.run()
    assert "<b>Run 89 has started, by no order from here.</b>" in said(page)
    page = button(button(page, "Close").click().run(), "Restart …").click().run()
    answers.audit = [order(answers, "restart", [key])]
    page = page.run()
    assert "<b>bert restarted this " in said(page)
    assert answers.orders == []


def test_a_batch_that_has_changed_says_how_it_stands(answers):
    answers.batches = [shared_batch()]
    page = button(opened("batches"), "Settle: commit …").click().run()
    answers.batches[0] |= {
        "revision": "later",
        "settle": None,
        "explanation": "All of its transactions (4) are committed.",
    }
    page = page.run()
    assert "It has changed since you opened this.</b> All of its transactions (4) are committed." in said(page)
    assert "Settle" not in labels(page)
