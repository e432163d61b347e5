"""The page of batches, and the order that settles one, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import attention
from tests.unit.app.contract_rows import batch, parts_of_batch, shared_batch
from tests.unit.app.page_driver import HOSTILE, button, knowing, labels, opened, press, said

pytestmark = pytest.mark.slow

OVER = {"verdict": "complete", "settle": None, "explanation": "All of its transactions (4) are committed."}


answers = knowing(lambda: Answers(batches=[shared_batch(), shared_batch(11, **OVER)]))


def test_a_batch_on_one_side_only_stands_out_with_all_its_parts(answers):
    page = opened("batches")
    for text in ("1 one side only", "batch 12, run 3", "Committed on mysql, not on kafka", "kafka: 2 open of 2",
                 "mysql: 2 committed of 2", "decided by run 3", "40 rows", "11 · 3", "complete"):  # fmt: skip
        assert text in said(page), text
    assert labels(page).count("Settle: commit …") == 1


def test_a_batch_counts_down_to_its_timeout_and_a_lost_one_has_the_remedy_of_the_overview(answers):
    page = opened("batches")
    assert "time left" in said(page)
    assert "Restart …" not in labels(page)
    (lost,) = batch(12, slots=1, pipeline="word-count", state="lost", verdict="lost", may_commit=False)
    answers.batches[0] |= {
        "verdict": "lost",
        "settle": None,
        "deadline_ms": None,
        "transactions": parts_of_batch([lost]),
    }
    keys = [lost["key"]]
    answers.attention.append(attention("transactions", pipeline="word-count", batch=12, keys=keys, verdict="lost"))
    page = opened("batches")
    assert "time left" not in said(page)
    assert labels(page).count("Restart …") == 1


def test_without_one_that_waits_the_page_says_so(answers):
    del answers.batches[0]
    page = opened("batches")
    assert "No batch is open or in doubt." in said(page)
    answers.batches.clear()
    assert "The history has no ended batch." in said(opened("batches"))


def test_only_one_pipelines_batches_are_asked_for(answers):
    answers.batches.append(shared_batch(4, pipeline="ip-count", **OVER))
    page = opened("batches")
    page.text_input(key="batch-pipeline-field").set_value("ip-count").run()
    assert "4 · 3" in said(page)
    assert "11 · 3" not in said(page)


def test_a_batch_is_settled_with_a_reason(answers):
    page = press(opened("batches"), "Settle: commit …")
    assert "<b>40 rows become visible everywhere.</b>" in said(page)
    assert "Its open transactions are committed: 2 transactions in kafka." in said(page)
    page = press(page, "Settle")
    assert "Give a reason of at least 3 characters" in said(page)
    assert answers.orders == []
    page.text_input(key="batch-order-reason").set_value("its driver is gone")
    page = press(page, "Settle")
    assert "✔ all transactions committed in 31 ms" in said(page)
    (order,) = answers.orders
    assert (order["action"], order["seen"]) == ("settle", {"word-count/1f0e/12/3": "r12"})
    page = press(page, "Close")
    assert labels(page).count("Settle: commit …") == 0


def test_each_part_says_how_it_ended_where_not_all_of_it_did(answers):
    ended = [("kafka:words-0:1:7", "committed", ""), ("mysql:words-0", "refused", "its database was not told")]
    steps = [
        {"key": key, "description": "commit", "outcome": outcome, "detail": detail} for key, outcome, detail in ended
    ]
    answers.give = lambda order: (200, {"audit": 9, "outcome": "failed", "took_ms": 40, "steps": steps})
    page = press(opened("batches"), "Settle: commit …")
    page.text_input(key="batch-order-reason").set_value("its driver is gone")
    page = press(page, "Settle")
    for text in (
        "✖ not all transactions committed",
        "<code>words-0</code><small> producer 1, epoch 7</small></span>: committed",
        "<code>words-0</code><small> mysql</small></span>: refused: its database was not told",
    ):
        assert text in said(page), text
    assert "kafka:words-0" not in said(page)


def test_an_undecided_batch_would_be_aborted(answers):
    answers.batches[0] = shared_batch(verdict="undecided", settle="abort", decided_at_ms=None, decided_by=None)
    page = press(opened("batches"), "Settle: abort …")
    assert "An abort decision is written to the decision log first" in said(page)


def test_a_batch_that_changed_meanwhile_refuses_the_order(answers):
    page = press(opened("batches"), "Settle: commit …")
    answers.batches[0] = shared_batch(revision="another")
    page.text_input(key="batch-order-reason").set_value("its driver is gone")
    page = press(page, "Settle")
    assert "Nothing was done." in said(page)


def test_of_very_many_the_most_urgent_are_shown_and_the_others_counted(answers):
    standing = [shared_batch(number) for number in range(1000, 1060)]
    answers.batches = [*standing, *(shared_batch(number, **OVER) for number in range(200, 350))]
    page = opened("batches")
    for text in (
        "60 one side only",
        "batch 1049, run 3",
        "10 less urgent batches not shown",
        "20 batches, 130 older behind them",
    ):
        assert text in said(page), text
    assert "batch 1050, run 3" not in said(page)


def test_older_batches_are_paged_by_the_collector_and_the_address_has_the_page(answers):
    answers.batches = [shared_batch(number, **OVER) for number in range(200, 320)]
    page = press(opened("batches"), "Older")
    assert ("219 · 3" in said(page), "220 · 3" in said(page)) == (False, True)
    assert button(page, "Newest").disabled is False
    page = opened("batches", after="100")
    assert "20 batches, no older one" in said(page)
    assert button(page, "Older").disabled is True
    assert "250 · 3" in said(opened("batches", after="50"))
    page = press(page, "Newest")
    assert "200 · 3" in said(page)
    assert "after" not in page.query_params


def test_another_pipeline_begins_at_its_newest_batch(answers):
    answers.batches = [shared_batch(number, **OVER) for number in range(200, 320)]
    page = opened("batches", after="50")
    page = page.text_input(key="batch-pipeline-field").set_value("nightly").run()
    assert "after" not in page.query_params
    assert "No ended batch is of nightly." in said(page)


def test_text_from_outside_stays_text(answers):
    answers.batches = [shared_batch(pipeline=HOSTILE, explanation=HOSTILE, verdict=HOSTILE, decided_by=HOSTILE)]
    page = press(opened("batches"), "Settle: commit …")
    assert "<img" not in said(page)
    assert "&lt;img" in said(page)
