"""The page of one transaction, by Streamlit's own test driver over a server that answers by docs/api.md."""

from __future__ import annotations

import pytest

from indoubt.lifecycle import page_paths
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import alert, incident
from tests.unit.app.contract_pipeline_rows import pipeline
from tests.unit.app.contract_rows import (
    batch,
    blocked,
    ended_transaction,
    foreign,
    given_order,
    loss,
    parts_of_batch,
    raw_event,
    shared_batch,
)
from tests.unit.app.page_driver import at, button, knowing, labels, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(transactions=batch()))


def test_a_transaction_says_what_it_is_what_to_do_and_why(answers):
    answers.batches = [shared_batch(1841, pipeline="ip-count", transactions=parts_of_batch(answers.transactions))]
    key = answers.transactions[1]["key"]
    page = at(page_paths.transaction(key))
    for text in ("commit it", "The broker aborts it, and decided rows are lost.", "decision 88213 lists this handle",
                 "3,101 rows", "prepared", "decided: commit", "dashboard", " 2 of 4 ", 'class="edge"',
                 page_paths.batch("ip-count", 1841).replace("&", "&amp;"), "/partition?topic=ip_count_sink"):  # fmt: skip
        assert text in said(page), text
    assert page_paths.transaction(answers.transactions[0]["key"]) in said(page), "the one before it is linked"


def test_its_orders_open_todays_dialog_over_the_whole_batch(answers):
    page = at(page_paths.transaction(answers.transactions[0]["key"]))
    page = button(page, "Commit batch 1841 …").click().run()
    page.text_input(key="order-reason").set_value("its driver is frozen")
    page = button(page, "Commit 4 transactions").click().run()
    assert "committed 4 of 4" in said(page)
    assert len(answers.orders[0]["keys"]) == 4


def test_a_foreign_one_is_aborted_alone_where_that_loses_rows(answers):
    answers.transactions = [foreign("first"), foreign("second")]
    page = at(page_paths.transaction(answers.transactions[1]["key"]))
    page = button(page, "Abort …").click().run()
    page.text_input(key="order-reason").set_value("its owner is gone")
    page.text_input(key="order-confirm").set_value("second")
    page = button(page, "Abort 1 transaction").click().run()
    assert [row["transaction"] for row in answers.transactions] == ["first"]


def test_an_open_one_says_where_it_writes_as_far_as_its_partition_tells(answers):
    answers.transactions = [foreign("billing-1", partitions=["orders-2", "orders-3"])]
    key = answers.transactions[0]["key"]
    answers.blocked = [blocked(holder_key=key), blocked(partition=3, holder_key="kafka:another:1:1")]
    writes = said(at(page_paths.transaction(key))).partition("Writes")[2].partition("</table>")[0]
    _, held, other = writes.split("<tr>")[1:]
    assert ">88,100</td>" in held
    assert ">at most 88,220</td>" in held
    assert "88,220" not in other, "who holds that one back is another"


@pytest.mark.parametrize(
    ("known", "texts"),
    [
        (True, (">88,100</td>", ">88,104</td>", "reported by the leader")),
        (False, ("Its offsets are not known: it was open for less than 5 s",)),
    ],
    ids=["known", "not known"],
)
def test_an_ended_one_says_where_it_wrote_or_that_this_is_not_known(answers, known, texts):
    where = {
        "partition": "orders-2",
        "first": 88_100,
        "next": 88_104,
        "certainty": "likely",
        "how": "reported by the leader",
    }
    row = foreign("billing-1", state="committed", verdict="settled", may_abort=False, partitions=["orders-2"])
    answers.transactions = [{**row, "loss": loss("billing-1", verdict="not lost", offsets=[where] if known else [])}]
    writes = said(at(page_paths.transaction(row["key"]))).partition("Writes")[2].partition("</section>")[0]
    assert [text for text in texts if text not in writes] == []
    assert ("not known" in writes) is not known


def test_an_ended_one_has_its_end_and_no_orders(answers):
    answers.transactions = batch(state="committed", verdict="settled", deadline_ms=None, may_commit=False)
    page = at(page_paths.transaction(answers.transactions[0]["key"]))
    assert "open for 655 ms" in said(page)
    assert "time left" not in said(page)
    assert [label for label in labels(page) if label.startswith(("Commit", "Abort"))] == []


def test_its_raw_events_are_chosen_by_their_source(answers):
    answers.events = [
        raw_event(what="PrepareCommit"),
        raw_event("decision log", "decision: commit by run 7", source="transaction_decisions"),
    ]
    page = at(page_paths.transaction(answers.transactions[0]["key"]))
    assert "PrepareCommit" in said(page)
    assert "transaction_decisions-7 at 4711" in said(page)
    keys = [one.proto.id for one in page.get("download_button")]
    assert any("events-csv" in key for key in keys), keys
    assert any("events-json" in key for key in keys), keys
    page = page.segmented_control(key="event-kind").set_value("decision log").run()
    assert "PrepareCommit" not in said(page)
    assert "decision: commit by run 7" in said(page)
    again = at(f"{page_paths.transaction(answers.transactions[0]['key'])}&event-kind=decision+log")
    assert "PrepareCommit" not in said(again)
    assert "PrepareCommit" in said(at(f"{page_paths.transaction(answers.transactions[0]['key'])}&event-kind=orders"))


def test_orders_about_it_and_earlier_ones_of_its_id_are_below(answers):
    key = answers.transactions[0]["key"]
    answers.audit = [given_order(keys=[key], reason="frozen"), given_order(513, keys=["kafka:another:1:1"])]
    answers.earlier = [ended_transaction(), ended_transaction(state="lost", open_ms=61_000)]
    page = at(page_paths.transaction(key))
    assert "audit 513" not in said(page)
    for text in ("done", "anna", "frozen", "audit 512", "900 ms", "1 min 01 s", "lost"):
        assert text in said(page), text
    assert page_paths.transaction(answers.earlier[0]["key"]) in said(page)


def test_it_can_be_pasted_as_an_incident_note(answers):
    key = answers.transactions[0]["key"]
    page = at(page_paths.transaction(key))
    note = next(code.value for code in page.code if code.language == "markdown")
    assert note.startswith("## ip\\-count, batch 1841: commit it\n")
    assert page_paths.transaction(key) in note
    assert f"{page_paths.transaction(key)}&zone=UTC" in [code.value for code in page.code]


def test_alerts_about_it_or_its_batch_are_linked(answers):
    row = answers.transactions[0]
    answers.alerts = [
        alert(path=page_paths.transaction(row["key"])),
        alert("A5", path=page_paths.batch("ip-count", 1841), summary="of its batch"),
        alert("A6", path="/collector", summary="of something else"),
    ]
    page = at(page_paths.transaction(row["key"]))
    assert page_paths.alert(answers.alerts[0]["key"]) in said(page)
    assert "of its batch" in said(page)
    assert "of something else" not in said(page)


def test_an_unknown_transaction_leads_to_the_history(answers):
    page = at(page_paths.transaction("kafka:nobody:1:2@3"))
    assert "it never saw it, or it has left history" in said(page)
    assert 'href="/history?show=search&amp;search-transaction=nobody&amp;search-span=all"' in said(page)


def test_a_lost_one_offers_to_restart_its_pipeline(answers, monkeypatch):
    answers.transactions = batch(state="lost", verdict="lost", deadline_ms=None, may_commit=False)
    answers.pipelines = [pipeline()]
    part = answers.overview()["incidents"][0]["parts"][0]
    whole = answers.overview() | {
        "incidents": [incident({**part, "remedy": "restart", "target": answers.pipelines[0]["key"]})]
    }
    monkeypatch.setattr(answers, "overview", lambda: whole)
    page = button(at(page_paths.transaction(answers.transactions[0]["key"])), "Restart …").click().run()
    assert "pipeline-order-reason" in [one.key for one in page.text_input]
