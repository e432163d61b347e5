"""The pages by Streamlit's own test driver, over a server that answers by docs/api.md (no broker, no browser).

The driver never fires ``run_every`` and has no JavaScript: that the pages move by themselves is for the browser tests.
"""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from indoubt.app.screens import audit
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.rows.row_json import read_row
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_pipeline_rows import checkpoint
from tests.unit.app.contract_rows import abort, batch, blocked, foreign, given_order, hanging
from tests.unit.app.page_driver import HOSTILE, button, knowing, labels, opened, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(transactions=batch()))


def test_an_order_takes_a_reason_and_shows_its_result_in_place(answers):
    page = opened("overview")
    page = button(page, "Commit batch 1841 …").click().run()
    assert "EndTxn(commit) is sent for 4 transactions" in said(page)
    assert "decision 88213 lists this handle" in said(page)
    page.text_input(key="order-reason").set_value("driver frozen")
    page = button(page, "Commit 4 transactions").click().run()
    assert "committed 4 of 4 in 31 ms · audit 512" in said(page)
    assert [order["dry_run"] for order in answers.orders] == [False]
    page = page.button(key="order-close").click().run()
    assert "committed 4 of 4 in 31 ms · audit 512" in said(page)
    assert "order-reason" not in [one.key for one in page.text_input]


def without_answer(answers, loses: str) -> AppTest:
    """Return the page after an order whose answer never came."""
    answers.loses = loses
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    page.text_input(key="order-reason").set_value("driver frozen")
    page = button(page, "Commit 4 transactions").click().run()
    assert "The result is unknown." in said(page)
    answers.loses = ""
    return page


def test_an_order_without_an_answer_is_probed_and_not_sent_twice(answers):
    page = button(without_answer(answers, "answer"), "Ask for the result").click().run()
    assert "committed 4 of 4 in 31 ms · audit 512" in said(page)
    assert len(answers.orders) == 1


def test_an_order_that_never_arrived_is_not_taken_for_done(answers):
    page = button(without_answer(answers, "order"), "Ask for the result").click().run()
    assert "it never arrived and nothing was done" in said(page)
    assert "The result is unknown." in said(page)
    answers.loading = True
    page = button(page, "Ask for the result").click().run()
    assert "history is being loaded" in said(page)
    assert "The result is unknown." in said(page)
    assert answers.orders == []


def test_an_order_without_an_answer_may_have_been_refused(answers):
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    answers.transactions = batch(state="committed", revision="later")
    page.text_input(key="order-reason").set_value("driver frozen")
    answers.loses = "answer"
    page = button(page, "Commit 4 transactions").click().run()
    page = button(page, "Ask for the result").click().run()
    assert "Refused: nothing was done." in said(page)
    assert "changed since it was shown" in said(page)
    assert "Ask for the result" not in labels(page)


def test_without_a_reason_nothing_is_sent(answers):
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    page.text_input(key="order-reason").set_value(" x ")
    page = button(page, "Commit 4 transactions").click().run()
    assert "Give a reason of at least 3 characters" in said(page)
    assert answers.orders == []


def test_a_dry_run_sends_no_order_and_leaves_the_dialog_open(answers):
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    page.text_input(key="order-reason").set_value("look first")
    page = button(page, "Dry run").click().run()
    assert "Dry run: nothing was sent. Audit 512." in said(page)
    assert answers.orders[0]["dry_run"] is True
    assert "Commit 4 transactions" in labels(page)


def test_cancel_sends_nothing_and_closes(answers):
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    page = button(page, "Cancel").click().run()
    assert answers.orders == []
    assert "Commit 4 transactions" not in labels(page)


def test_the_dialog_names_and_sends_what_was_clicked_though_the_list_moved(answers):
    answers.transactions = [foreign("first"), foreign("second")]
    page = opened("overview")
    # Between the look and the click "first" ends and a new one takes its place on top.
    clicked = [one for one in page.button if one.label == "Abort …"][1]
    answers.transactions = [foreign("newcomer"), answers.transactions[1]]
    page = clicked.click().run()
    page.text_input(key="order-reason").set_value("its owner says so")
    page.text_input(key="order-confirm").set_value("second")
    page = button(page, "Abort 1 transaction").click().run()
    assert [row["transaction"] for row in answers.transactions] == ["newcomer"]
    assert "aborted 1 of 1" in said(page)


def test_a_changed_transaction_refuses_the_order_and_shows_what_changed(answers):
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    answers.transactions[1] |= {"revision": "r2", "state": "committing", "producer_epoch": 8, "may_commit": False}
    page.text_input(key="order-reason").set_value("driver frozen")
    page = button(page, "Commit 4 transactions").click().run()
    assert "Refused: nothing was done." in said(page)
    assert "decided · commit it · epoch 7" in said(page)
    assert "committing · commit it · epoch 8" in said(page)
    page = button(page, "Use the current state").click().run()
    assert "Commit 3 transactions" in labels(page)


def test_what_loses_data_needs_the_id_typed(answers):
    answers.transactions = [foreign("abandoned-1")]
    page = button(opened("overview"), "Abort …").click().run()
    page.text_input(key="order-reason").set_value("owner is gone")
    page = button(page, "Abort 1 transaction").click().run()
    assert "The confirmation is not abandoned-1." in said(page)
    assert answers.orders == []
    page.text_input(key="order-confirm").set_value("abandoned-1")
    page = button(page, "Abort 1 transaction").click().run()
    assert answers.orders[0]["confirm"] == "abandoned-1"
    assert "aborted 1 of 1" in said(page)


def test_a_viewer_sees_the_orders_and_cannot_press_them(answers):
    answers.role = "viewer"
    page = opened("overview")
    assert button(page, "Commit batch 1841 …").disabled
    assert not button(page, "Open").disabled


def test_an_id_from_outside_is_text_on_every_page(answers):
    answers.transactions = [foreign(HOSTILE)]
    answers.aborts = [abort(HOSTILE, pipeline=HOSTILE)]
    hostile = given_order(who=HOSTILE, keys=[HOSTILE], reason=HOSTILE, detail=HOSTILE, evidence=[{"seen": HOSTILE}])
    answers.audit = [hostile]
    answers.checkpoints = [checkpoint(1, pipeline=HOSTILE, source=HOSTILE)]
    answers.hanging = [hanging(transaction=HOSTILE, topic=HOSTILE)]
    answers.blocked = [blocked(topic=HOSTILE, holder_transaction=HOSTILE, holder_key='"><img src=x onerror=alert(1)>')]
    answers.blocked[0]["groups"][0]["group"] = HOSTILE
    for name in ("overview", "pending", "readers", "aborts", "checkpoints", "audit"):
        page = opened(name)
        assert "&lt;img src=x onerror" in said(page), name
        assert "<img" not in said(page), name
        # What stands for a click in a live region is the test driver's own button; in a browser it is the markup above.
        written = [one.label for one in page.button if not (one.key or "").startswith("click-")]
        assert not any("<img" in one or "**bold" in one for one in written), name
        assert not page.markdown, "no element of these pages reads Markdown from outside"


def test_the_audit_is_searched_behind_its_newest(answers):
    answers.audit = [given_order(n, keys=[f"kafka:a-{n}:1:1@1"]) for n in range(600)]
    page = opened("audit", **{"audit-words": "a-599:"})
    assert "1 order," in said(page)
    assert "a-599" in said(page)
    page = page.text_input(key="audit-words-field").set_value("nobody").run()
    assert "No order has this text in it." in said(page)


def test_the_audit_says_when_an_order_was_given_when_it_ended_and_what_it_took(answers):
    given = 1_795_000_000_000
    answers.audit = [
        given_order(3, at_ms=given + 55_400, given_at_ms=given, action="restart"),
        given_order(2, at_ms=given + 70_000, given_at_ms=given, action="restart", outcome="failed"),
        given_order(1, at_ms=given, action="restart", outcome="refused"),
    ]
    page = said(opened("audit"))
    for text in ("11:06:40.000 UTC", "done in 55 s", "11:07:35", "failed after 1 min 10 s", "refused"):
        assert text in page, text
    assert ">accepted" not in page, "the word of the API is not shown"


def test_details_and_evidence_of_any_shape_become_lines():
    step = {"key": "k", "description": "EndTxn(commit) for producer 1", "outcome": "committed", "detail": ""}
    facts = [{"state": "open", "rows": None}, {"fact": "decided", "source": "decision log"}, {"seen": ["a", {"b": 1}]}]
    row = read_row(AuditRow, given_order(detail=json.dumps([step, step, {**step, "detail": "slow"}]), evidence=facts))
    done = "EndTxn(commit) for producer 1: committed"
    assert audit.detail_lines(row) == [done, f"{done} (slow)"]
    assert audit.evidence_lines(row) == ["state: open", "decided (decision log)", "seen: a", "seen: b: 1"]
    refused = read_row(AuditRow, given_order(detail="refused:\nit changed"))
    assert (audit.detail_lines(refused), audit.evidence_lines(refused)) == (["refused:", "it changed"], [])


def test_the_audit_names_what_was_ordered(answers):
    answers.audit = [
        given_order(n, action=action, keys=keys)
        for n, (action, keys) in enumerate(
            [
                ("restart", ["pipeline:words"]),
                ("commit", ["kafka:1", "kafka:2", "kafka:3"]),
                ("settle", ["words/1f0e/4/0", "kafka:words-0-0:1:2", "mysql:words:4:0:0:ab"]),
            ]
        )
    ]  # fmt: skip
    page = said(opened("audit"))
    assert "1 pipeline, " in page
    assert "3 transactions, " in page
    assert "1 batch, 2 transactions, " in page
    for path, name in (
        ("/pipeline?name=words", "words"),
        ("/batch?pipeline=words&amp;number=4", "batch 4 of words"),
        ("/transaction?key=kafka%3Awords-0-0%3A1%3A2", "words-0-0"),
        ("/transaction?key=mysql%3Awords%3A4%3A0%3A0%3Aab", "words:4:0:0:ab"),
    ):
        assert f'href="{path}"' in page, path
        assert f"<code>{name}</code>" in page, name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("readers", "No reader waits"),
        ("aborts", "No transaction was aborted in all of history."),
        ("checkpoints", "The history has no checkpoint yet"),
        ("audit", "No order has been given"),
    ],
)
def test_empty_pages_say_so(answers, name, words):
    assert words in said(opened(name))


def test_blocked_readers_names_partition_holder_and_each_group(answers):
    answers.blocked = [blocked()]
    page = opened("readers")
    assert "120 offsets hidden on 1 partition, 1 group waits" in said(page)
    assert "88,100 → 88,220" in said(page)
    assert 'href="/transaction?key=kafka%3Aorders-1%3A4711%3A5%401"' in said(page)
    assert 'href="/partition?topic=orders&amp;partition=2"' in said(page)
    assert 'href="/pipeline?name=shop"' in said(page)
    assert "kafka streams" in said(page)
    assert "waiting <time data-since=" in said(page)
    assert "markers only" in said(page)
    assert "No reader waits" not in said(page)


def test_a_missing_commit_marker_is_written_from_the_page(answers):
    answers.hanging = [hanging()]
    page = opened("readers")
    assert "orders-1 is CompleteCommit, epoch 6" in said(page)
    assert "Abort …" not in labels(page)
    page = button(page, "Commit …").click().run()
    assert "The missing commit marker is written to 1 partition: orders-2" in said(page)
    page.text_input(key="order-reason").set_value("KAFKA-20734")
    page = button(page, "Commit 1 transaction").click().run()
    assert [(order["action"], order["keys"], order["seen"]) for order in answers.orders] == [
        ("commit", ["hanging:orders-2:4711:5:88100"], {"hanging:orders-2:4711:5:88100": "h1"})
    ]
    assert "committed 1 of 1" in said(page)


def test_the_abort_of_a_hanging_transaction_needs_typed_confirmation(answers):
    answers.hanging = [
        hanging(transaction="", may_commit=False, may_abort=True, loses_data=True, confirm="orders-2", rule=1)
    ]
    page = button(opened("readers"), "Abort …").click().run()
    assert "producer 4711" in said(page)
    page.text_input(key="order-reason").set_value("its application is gone")
    page = button(page, "Abort 1 transaction").click().run()
    assert "The confirmation is not orders-2." in said(page)
    page.text_input(key="order-confirm").set_value("orders-2")
    answers.hanging[0]["revision"] = "h2"
    page = button(page, "Abort 1 transaction").click().run()
    assert "Refused: nothing was done." in said(page)
    page = button(page, "Use the current state").click().run()
    page.text_input(key="order-reason").set_value("its application is gone")
    page.text_input(key="order-confirm").set_value("orders-2")
    page = button(page, "Abort 1 transaction").click().run()
    assert [order["confirm"] for order in answers.orders] == ["orders-2", "orders-2"]
    assert "aborted 1 of 1" in said(page)


def test_a_hanging_transaction_is_ordered_from_the_overview_too(answers):
    answers.transactions, answers.hanging = [], [hanging()]
    page = opened("overview")
    assert "1 incident needs you" in said(page)
    assert {"Commit …", "Open"} <= set(labels(page))


def test_a_lost_collector_is_said_and_the_page_comes_back(answers):
    answers.loading = True
    page = opened("overview")
    assert 'role="alert"' in said(page)
    assert "history is being loaded" in said(page)
    answers.loading = False
    page = page.run()
    assert "1 incident needs you" in said(page)
    assert 'role="alert"' not in said(page)


def test_a_refused_token_is_said_without_the_token(answers):
    answers.token = "another"
    page = opened("overview")
    assert "the token is not known" in said(page)
    assert TOKEN not in said(page)
