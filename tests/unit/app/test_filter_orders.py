"""Orders by filter on the Transactions page: what they are about, what must be typed, the parts, and what became of each."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.unit.app.contract_rows import batch, foreign
from tests.unit.app.contract_server import Answers
from tests.unit.app.page_driver import answering, button, labels, opened, said

pytestmark = pytest.mark.slow
NUMBER = 620


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
    return button(page, f"Abort {NUMBER} transactions").click().run()


def test_everything_of_a_verdict_is_ordered_in_parts(answers):
    page = asked()
    assert f"{NUMBER} of them hold what an abort may lose" in said(page)
    page = given(page)
    assert f"aborted {NUMBER} of {NUMBER}</b> · audit 512 to 514" in said(page)
    assert [(len(order["keys"]), order["each"], order["confirm"]) for order in answers.orders] == [
        (250, True, "bank-0"),
        (250, True, "bank-0"),
        (120, True, "bank-0"),
    ]
    assert len({order["idempotency_key"] for order in answers.orders}) == 3
    assert answers.orders[1]["reason"] == "the job is gone (part 2 of 3 of an order for 620: verdict foreign)"
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


def test_an_order_that_got_no_answer_halts_and_goes_on_under_its_key(answers):
    page = asked()
    answers.loses = "order"
    page = given(page)
    assert "It does not go on: " in said(page)
    assert f"aborted 0 of {NUMBER}</b> · {NUMBER} not sent" in said(page)
    answers.loses = ""
    page = button(page, "Go on").click().run()
    assert f"aborted {NUMBER} of {NUMBER}" in said(page)


def test_a_dry_run_of_an_order_by_filter_does_nothing_and_leads_back(answers):
    page = asked()
    page.text_input(key="filter-order-reason").set_value("look first")
    page = button(page, "Dry run").click().run()
    assert f"Dry run: nothing was sent. {NUMBER} of {NUMBER} would be aborted" in said(page)
    assert {order["dry_run"] for order in answers.orders} == {True}
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
    page = button(page, "Commit 4 transactions").click().run()
    assert "committed 4 of 4" in said(page)


def test_what_ended_meanwhile_is_not_asked_about(answers):
    page = opened("pending", verdict="foreign")
    answers.transactions = []
    page = pressed(page)
    assert "nothing is left to order" in said(page)
