"""The list of open transactions: rows by batch and application, filters, who waits, what is offered."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import attention
from tests.unit.app.contract_rows import batch, blocked, foreign
from tests.unit.app.page_driver import knowing, labels, opened, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(transactions=batch()))


def test_pending_shows_a_row_for_each_batch_whose_parts_unfold(answers):
    answers.transactions += batch(1842, pipeline="word-count", verdict="in progress", state="open", may_commit=False)
    page = opened("pending")
    assert "8 open transactions in 2 batches or applications" in said(page)
    assert said(page).count("<summary>4 transactions</summary>") == 2
    assert said(page).count('href="/transaction?key=kafka') == 10, "each row opens, and each of its transactions"


def test_a_lost_batch_has_the_remedy_of_the_overview_in_its_row(answers):
    assert "Restart …" not in labels(opened("pending"))
    lost = batch(12, slots=2, pipeline="word-count", state="lost", verdict="lost", may_commit=False)
    answers.transactions += lost
    keys = [row["key"] for row in lost]
    answers.attention.append(attention("transactions", pipeline="word-count", batch=12, keys=keys, verdict="lost"))
    assert labels(opened("pending")).count("Restart …") == 1


def test_two_hundred_batches_come_in_pages(answers):
    answers.transactions = [row for number in range(200) for row in batch(number, slots=1)]
    page = opened("pending")
    assert sum(label.startswith("Commit batch") for label in labels(page)) == 20
    assert "200 open transactions" in said(page)


def test_the_ids_of_one_application_are_one_row_that_unfolds(answers):
    ids = [f"word-count-app-7d1c2a9e-1b7e-4c44-9f61-77d50c31aa3d-{number}" for number in range(30)]
    answers.transactions = [foreign(name, pipeline="word-count-app", verdict="in progress") for name in ids]
    page = opened("pending")
    assert said(page).count("<article") == 1
    assert "30 open transactions" in said(page)
    assert said(page).count("<li>") == 20
    assert "and 10 others: search for an id to see it alone" in said(page)
    assert "An order by filter" not in said(page), "all of them are listed"
    assert '<span class="ends">50c31aa3d-19</span>' in said(page), "the end of a name is never cut"


def test_two_thousand_ids_of_one_application_are_one_row_with_all_of_them(answers):
    ids = [f"bank-{number:08x}-1b7e-4c44-9f61-77d50c31aa3d-1" for number in range(2_000)]
    answers.transactions = [foreign(name, pipeline="bank") for name in ids]
    page = opened("pending")
    assert said(page).count("<article") == 1
    assert "2,000 open transactions" in said(page)
    assert "not shown" not in said(page)
    assert "◇ foreign 2,000" in labels(page)
    assert "and 1,980 others: search for an id to see it alone" in said(page)
    assert "The buttons above reach the 500 that are listed." in said(page)
    assert "Abort all 2,000 …" in labels(page)


def test_what_is_looked_for_is_found_behind_the_most_urgent(answers):
    answers.transactions += [foreign(f"bank-{number}", pipeline="bank") for number in range(600)]
    answers.transactions += [foreign("the-one", pipeline="shop", verdict="in progress")]
    page = opened("pending", **{"filter-words": "THE-ONE"})
    assert said(page).count("<article") == 1
    assert "1 open transaction" in said(page)
    assert "the filter hides 604 others" in said(page)
    page = opened("pending", verdict="in progress")
    assert "the-one" in said(page)
    assert "◇ foreign 600" in labels(page), "the others can be added"


def test_words_that_leave_some_of_an_application_out_offer_no_order_for_all_of_it(answers):
    answers.transactions = [foreign(f"bank-{number:03}", pipeline="bank") for number in range(700)]
    assert "An order by filter reaches all" in said(opened("pending"))
    page = opened("pending", **{"filter-words": "bank-0"})
    assert "100 open transactions" in said(page)
    answers.transactions += [foreign(f"other-{number:03}", pipeline="bank") for number in range(700)]
    page = opened("pending", **{"filter-words": "bank-"})
    assert "700 open transactions" in said(page)
    assert "An order by filter reaches all" not in said(page)


def test_who_waits_behind_a_transaction_stands_in_its_row(answers):
    answers.transactions = [foreign()]
    answers.blocked = [blocked(holder_key=answers.transactions[0]["key"])]
    page = opened("pending")
    assert "billing</span>" in said(page)
    assert "audit</span>" not in said(page), "it has read everything"


def test_a_verdict_is_chosen_by_a_link_that_says_how_many_there_are(answers):
    answers.transactions += [foreign()]
    page = opened("pending")
    assert {"✔ commit it 4", "◇ foreign 1", "include settled"} <= set(labels(page))
    assert 'href="/transactions?verdict=foreign"' in said(page)
    page.query_params["verdict"] = "foreign"
    page = page.run()
    assert said(page).count("<article") == 1
    assert "the filter hides 4 others" in said(page)
    assert 'href="/transactions?verdict=commit+it%2Cforeign"' in said(page), "a second one is added"
    assert 'href="/transactions"' in said(page), "the chosen one is taken out"


def test_pending_with_nothing_and_with_a_filter_that_fits_nothing(answers):
    page = opened("pending")
    page = page.text_input(key="filter-words-field").set_value("nobody").run()
    assert "No pending transaction matches the filter." in said(page)
    assert "show=search&amp;search-transaction=" in said(page)
    assert "the filter hides 4 others" in said(page)
    answers.transactions = []
    page = page.text_input(key="filter-words-field").set_value("").run()
    assert "Nothing is pending" in said(page)
