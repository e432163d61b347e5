"""Orders by filter on the Transactions page: what they are about, what must be typed, how far they are, what became of each."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from indoubt.app import live
from indoubt.lifecycle.orders import Action, Role
from indoubt.lifecycle.persons import Person
from indoubt.lifecycle.rows.orders import OrderRun
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import batch, foreign
from tests.unit.app.page_driver import answering, button, labels, opened, said

pytestmark = pytest.mark.slow
NUMBER = 620
LIMIT_S = 30.0
ANNA, BERT = Person(name="anna", role=Role.OPERATOR), Person(name="bert", role=Role.OPERATOR)


@pytest.fixture
def answers(monkeypatch):
    with answering(
        Answers(transactions=[foreign(f"bank-{n:04}", pipeline="bank") for n in range(NUMBER)]), monkeypatch
    ) as known:
        yield known


def pressed(page: AppTest) -> AppTest:
    """Return the page after the order above the list; the row of what is not listed whole has the same."""
    return next(one for one in page.button if one.label == f"Abort all {NUMBER} …").click().run()


def asked() -> AppTest:
    page = pressed(opened("pending", verdict="foreign"))
    assert f"Each of {NUMBER} transactions is aborted by itself, most urgent first, in 3 parts" in said(page)
    return page


def given(page: AppTest, reason: str = "the job is gone", confirm: str = "bank-0") -> AppTest:
    page.text_input(key="filter-order-reason").set_value(reason)
    page.text_input(key="filter-order-confirm").set_value(confirm)
    return watched(button(page, f"Abort {NUMBER} transactions").click().run())


def ended(run: OrderRun) -> OrderRun:
    """Return the run once it is over."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (now := live.collector().run(run.run, steps=True)).is_over:
        assert time.monotonic() < deadline_s, "no part was answered"
        time.sleep(0.02)
    return now


def watched(page: AppTest) -> AppTest:
    """Return the page as it is once nothing is being sent."""
    for run in live.collector().runs():
        ended(run)
    return page.run()


def test_everything_of_a_verdict_is_ordered_in_parts(answers):
    page = asked()
    assert f"{NUMBER} of them hold what an abort may lose" in said(page)
    page = given(page)
    assert f"aborted {NUMBER} of {NUMBER}</b> · audit 512 to 514" in said(page)
    (sent,) = answers.orders
    assert (sent["reason"], sent["confirm"], sent["filter"]) == ("the job is gone", "bank-0", {"verdict": "foreign"})
    assert answers.transactions == []


@pytest.mark.parametrize(
    ("reason", "confirm", "says"),
    [("x", "bank-0", "Give a reason"), ("the job is gone", "bank", "The confirmation is not bank-0")],
)
def test_without_a_reason_or_the_text_nothing_is_sent(answers, reason, confirm, says):
    assert says in said(given(asked(), reason, confirm))
    assert answers.orders == []


def test_what_changed_since_is_refused_alone_and_counted_with_why(answers):
    page = asked()
    for row in answers.transactions[3:5]:
        row["revision"] = "later"
    page = given(page)
    assert f"aborted {NUMBER - 2} of {NUMBER}</b> · 2 refused" in said(page)
    assert "Refused: 2" in said(page)
    assert "it changed since" in said(page)
    assert [row["transaction"] for row in answers.transactions] == ["bank-0003", "bank-0004"]


def test_a_run_that_ends_before_the_dialog_looks_is_shown_with_its_reasons(answers):
    page = asked()
    answers.transactions[3]["revision"] = "later"
    given(page)
    (run,) = live.collector().runs()
    # The dialog was opened on the run as it stood when it began.
    asked_then = page.session_state["filter-order-asked"]
    page.session_state["filter-order-asked"] = replace(asked_then, run=replace(run, is_over=False, steps=()))
    assert "it changed since" in said(page.run())


def test_an_order_that_got_no_answer_is_given_again_under_its_key_and_begins_once(answers):
    page = asked()
    answers.loses = "answer"
    page = given(page)
    assert "It may have been carried out" in said(page)
    answers.loses = ""
    page = watched(button(page, f"Abort {NUMBER} transactions").click().run())
    assert f"aborted {NUMBER} of {NUMBER}" in said(page)
    assert len(answers.runs.rows) == 1


def test_what_the_collector_refuses_is_said_in_the_dialog(answers):
    page = asked()
    answers.role = "viewer"
    assert "orders need an operator token" in said(given(page))
    assert answers.orders == []


def test_a_dry_run_of_an_order_by_filter_does_nothing_and_leads_back(answers):
    page = asked()
    page.text_input(key="filter-order-reason").set_value("look first")
    page = watched(button(page, "Dry run").click().run())
    assert f"Dry run: nothing was sent. {NUMBER} of {NUMBER} would be aborted" in said(page)
    assert {sent["dry_run"] for sent in answers.orders} == {True}
    assert len(answers.transactions) == NUMBER
    page = button(page, "Back to the order").click().run()
    assert f"Abort {NUMBER} transactions" in labels(page)


def by_filter(page: AppTest) -> list[Any]:
    return [label for label in labels(page) if " all " in label]


def test_an_order_by_filter_takes_one_verdict_or_one_application(answers):
    answers.transactions = [foreign(f"bank-{n}", pipeline="bank") for n in range(3)] + batch(pipeline="orders")
    assert by_filter(opened("pending")) == []
    assert by_filter(opened("pending", verdict="foreign")) == ["Abort all 3 …"]
    assert by_filter(opened("pending", verdict="commit it")) == ["Commit all 4 …"]
    assert by_filter(opened("pending", verdict="commit it,foreign")) == []
    assert by_filter(opened("pending", **{"filter-words": "bank"})) == ["Abort all 3 …"]
    assert by_filter(opened("pending", **{"filter-words": "ban"})) == [], "a part of a name is no application"
    page = button(opened("pending", verdict="commit it"), "Commit all 4 …").click().run()
    page.text_input(key="filter-order-reason").set_value("its driver is frozen")
    page = watched(button(page, "Commit 4 transactions").click().run())
    assert "committed 4 of 4" in said(page)


def test_commits_of_several_checkpoints_are_ordered_one_condition_at_a_time(answers):
    found = {"chk-3": 2, "": 1, "chk-4": 3}
    answers.transactions = [
        foreign(f"{name or 'decided'}-{n}", pipeline="bank", may_commit=True, may_abort=False, commit_confirmation=name)
        for name, number in found.items()
        for n in range(number)
    ]
    page = button(opened("pending", verdict="foreign"), "Commit all 6 …").click().run()
    assert "2 transactions</b> if the job is restored from <code>chk-3</code> or later" in said(page)
    assert "1 transaction</b> for which nothing must be typed" in said(page)
    page = page.button(key="filter-order-choose-2").click().run()
    assert "3 others with it rest on other conditions: not part of this order." in said(page)
    page = button(page, "Another condition").click().run()
    page = page.button(key="filter-order-choose-0").click().run()
    page.text_input(key="filter-order-reason").set_value("it was restored from chk-3")
    page.text_input(key="filter-order-confirm").set_value("chk-4")
    page = button(page, "Commit 2 transactions").click().run()
    assert "The confirmation is not chk-3" in said(page)
    assert answers.orders == []
    page.text_input(key="filter-order-confirm").set_value("chk-3")
    page = watched(button(page, "Commit 2 transactions").click().run())
    assert "committed 2 of 2" in said(page)
    assert [sent["confirm"] for sent in answers.orders] == ["chk-3"]
    assert "Commit of 2 transactions: 2 done</b> · verdict foreign, chk-3" in said(opened("pending"))


def test_what_ended_meanwhile_is_not_asked_about(answers):
    page = opened("pending", verdict="foreign")
    answers.transactions = []
    page = pressed(page)
    assert "nothing is left to order" in said(page)


def begun() -> OrderRun:
    """Return an order as the dialog gives it."""
    wanted = {"verdict": "foreign"}
    (condition,) = live.collector().preview(Action.ABORT, wanted).conditions
    return live.collector().begin_filter_run(
        Action.ABORT,
        wanted,
        condition.fingerprint,
        reason="the job is gone",
        dry_run=False,
        confirm=condition.confirm,
        idempotency_key="once",
    )


def opened_run(page: AppTest) -> AppTest:
    """Return the page after *Open* in the only line of an order; each row of the list has a button of that name."""
    (found,) = [one for one in page.button if (one.key or "").startswith("sent-orders-open")]
    return found.click().run()


def test_a_reload_in_the_middle_shows_the_order_and_then_its_result(answers):
    answers.may_answer.clear()
    run = begun()
    page = opened("pending")
    assert f"Abort of {NUMBER} transactions: 0 done</b> · {NUMBER} to go · verdict foreign" in said(page)
    assert "Dismiss" not in labels(page)
    answers.may_answer.set()
    ended(run)
    page = opened("pending")
    assert f"✔ Abort of {NUMBER} transactions: {NUMBER} done" in said(page)
    page = opened_run(page)
    assert f"aborted {NUMBER} of {NUMBER}</b> · audit 512 to 514" in said(page)
    page = button(page, "Close").click().run()
    assert "Abort of" not in said(page), "its end was seen"
    assert len(answers.orders) == 1


def test_a_page_that_is_opened_in_the_middle_watches_the_order_until_its_end(answers):
    answers.may_answer.clear()
    begun()
    page = opened_run(opened("pending"))
    assert "Closing this hides it: the collector goes on" in said(page)
    answers.may_answer.set()
    page = watched(page)
    assert f"aborted {NUMBER} of {NUMBER}" in said(page)


def test_two_persons_do_not_see_each_others_orders(answers, monkeypatch):
    who = [ANNA]
    monkeypatch.setattr(live, "asking_person", lambda: who[0])
    page = given(asked())
    assert f"aborted {NUMBER} of {NUMBER}" in said(page)
    assert [run["who"] for run in answers.runs.rows.values()] == ["anna"], "the audit has the name of who gave it"
    assert f"Abort of {NUMBER} transactions: {NUMBER} done" in said(opened("pending"))
    who[0] = BERT
    assert "Abort of" not in said(opened("pending"))
    who[0] = ANNA
    page = button(opened("pending"), "Dismiss").click().run()
    assert "Abort of" not in said(page)


def test_a_stopped_order_ends_after_its_part(answers):
    answers.may_answer.clear()
    begun()
    assert answers.runs.came.wait(LIMIT_S)
    page = opened_run(opened("pending"))
    page = button(page, "Stop after this part").click().run()
    assert "Stop after this part" not in labels(page)
    answers.may_answer.set()
    page = watched(page)
    assert f"aborted 250 of {NUMBER}</b> · {NUMBER - 250} not sent" in said(page)
    assert "It does not go on: </b>anna stopped it." in said(page)
    assert len(answers.transactions) == NUMBER - 250


def test_an_order_that_the_collector_cannot_be_asked_about_is_shown_as_it_was(answers):
    answers.may_answer.clear()
    begun()
    page = opened_run(opened("pending"))
    answers.loading = True
    assert "history is being loaded" in said(page.run())
    answers.loading = False
    answers.may_answer.set()
    assert f"aborted {NUMBER} of {NUMBER}" in said(watched(page))
