"""The pages of one batch, pipeline, partition or alert, by Streamlit's test driver over a server that answers by docs/api.md."""

from __future__ import annotations

import pytest

from indoubt.lifecycle import page_paths
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import alert, attention
from tests.unit.app.contract_pipeline_rows import application_series, job, pipeline, restore, series, timeout
from tests.unit.app.contract_rows import (
    batch,
    blocked,
    ended_transaction,
    foreign,
    given_order,
    hanging,
    parts_of_batch,
    raw_event,
    shared_batch,
)
from tests.unit.app.page_driver import HOSTILE, at, button, knowing, labels, opened, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(transactions=batch()))


def test_a_pipeline_and_a_partition_can_be_pasted_as_incident_notes(answers):
    answers.pipelines, answers.alerts = [pipeline()], [alert()]
    name = answers.transactions[0]["key"]
    answers.partition = {
        "topic": "orders", "partition": 2, "readers": blocked(), "read_by": ["billing"],
        "hanging": [], "open": [foreign("billing-1")], "ended": [],
    }  # fmt: skip
    notes = {}
    for path in (page_paths.pipeline("ip-count"), page_paths.partition("orders", 2)):
        page = at(path)
        notes[path] = next(code.value for code in page.code if code.language == "markdown")
        assert f"Page: {path}&zone=UTC" in notes[path]
        assert f"{path}&zone=UTC" in [code.value for code in page.code]
    of_pipeline, of_partition = notes.values()
    for text in (
        "## ip\\-count\n",
        "Reported last",
        "### Not settled",
        f"`{name.split(':')[1]}`: commit it",
        "### Alerts",
    ):
        assert text in of_pipeline, text
    for text in ("## orders\\-2\n", "### Readers", "`billing-1`: foreign", "Held back by"):
        assert text in of_partition, text


def test_a_partition_that_is_not_known_has_a_link_and_no_note(answers):
    page = opened("objects.partition", topic="nothing", partition="1")
    assert [code.language for code in page.code] == ["plaintext"]


def test_a_batch_has_its_attempts_its_transactions_and_its_order(answers):
    answers.batches = [shared_batch(transactions=parts_of_batch(answers.transactions)), shared_batch(11)]
    page = at(page_paths.batch("word-count", 12))
    for text in ("one side only", "run 3", "kafka: 2 open of 2", "commit decided by run 3", "None about it."):
        assert text in said(page), text
    assert page_paths.transaction(answers.transactions[0]["key"]) in said(page)
    page = button(page, "Settle: commit …").click().run()
    page.text_input(key="batch-order-reason").set_value("one side is committed")
    page = page.button(key="batch-order-go").click().run()
    assert answers.orders[0]["keys"] == ["word-count/1f0e/12/3"]


def test_a_batch_has_the_card_that_says_who_waits_and_what_happens_without_action(answers):
    number = answers.transactions[0]["batch"]
    answers.attention = [attention(batch=number + 1, pipeline="ip-count", headline="Of another batch.")]
    page = at(page_paths.batch("ip-count", number))
    for text in ("dashboard", "time left", "The broker aborts it, and decided rows are lost."):
        assert text in said(page), text
    assert "Of another batch." not in said(page)
    assert f"Commit batch {number} …" in labels(page)


def test_a_partition_has_its_cards_its_alerts_and_its_orders(answers):
    path = page_paths.partition("orders", 2)
    answers.partition = {
        "topic": "orders",
        "partition": 2,
        "readers": None,
        "read_by": [],
        "hanging": [],
        "open": [],
        "ended": [],
    }
    answers.attention = [
        attention("readers", target="orders-2", headline="It waits here."),
        attention("readers", key="readers/else", target="orders-3", headline="It waits elsewhere."),
        attention("transactions", verdict="hanging", target="", partitions=["orders-2"], headline="It hangs."),
    ]
    answers.alerts = [alert("A4", path=path, summary="about it"), alert("A5", path="/alerts", summary="about another")]
    page = said(at(path))
    assert "No watched consumer group reads it." in page
    assert "It waits here." in page
    assert "It waits elsewhere." not in page
    assert "It hangs." not in page, "what hangs has a card with its evidence"
    assert "about it" in page
    assert "about another" not in page
    assert "No order was given about it." in page
    answers.partition["read_by"] = ["billing", "audit"]
    assert "have read all of it" in said(at(path))


def test_a_checkpoint_of_flink_has_the_transactions_that_it_holds(answers):
    flink = {"pipeline": "eu/orders", "checkpoint": 34}
    answers.transactions = [
        foreign("orders-0-7", **flink),
        foreign("orders-1-7", **flink),
        foreign("other", **flink | {"checkpoint": 35}),
    ]
    page = at(page_paths.transaction(answers.transactions[0]["key"]))
    assert page_paths.batch("eu/orders", 34).replace("&", "&amp;") in said(page)
    page = at(page_paths.batch("eu/orders", 34))
    assert "checkpoint 34" in said(page)
    assert page_paths.transaction(answers.transactions[1]["key"]) in said(page)
    assert page_paths.transaction(answers.transactions[2]["key"]) not in said(page)


@pytest.mark.parametrize(
    ("number", "words"), [("13", "&amp;search-pipeline=word-count&amp;search-span=all"), ("x", "")]
)
def test_a_batch_that_is_not_known_is_said_to_be_so(answers, number, words):
    page = opened("objects.batch", pipeline="word-count", number=number)
    assert f'href="/history?show=search{words}"' in said(page)


def test_a_pipeline_has_its_state_orders_and_what_is_open(answers):
    answers.pipelines, answers.timeouts = [pipeline()], [timeout()]
    answers.alerts = [alert()]
    page = at(page_paths.pipeline("ip-count"))
    for text in ("running", "ip_count_source → ip_count_sink", "4 transactions", "too short", "A2 commit overdue"):
        assert text in said(page), text
    assert {"Restart …", "Stop …"} <= set(labels(page))


def test_a_pipeline_has_how_long_readers_waited_and_a_bar_chooses_its_time(answers):
    answers.pipelines, answers.series = [pipeline()], series(application_series())
    page = at(page_paths.pipeline("ip-count"))
    from_ms = answers.series["from_ms"] + 60_000
    assert "the highest has 1 min 05 s" in said(page)
    assert f'href="/pipeline?name=ip-count&amp;from={from_ms}&amp;until={from_ms + 59_999}"' in said(page)
    assert '<i class="unseen" style="left:50.00%;width:25.00%">' in said(page), "nobody looked at the third bucket"
    answers.series = series(application_series(longest_wait_ms=[0] * 4))
    assert "No reader waited." in said(at(page_paths.pipeline("ip-count")))


def test_a_frozen_pipeline_is_not_called_running(answers):
    answers.pipelines = [pipeline()]
    answers.transactions, answers.attention = [], [attention()]
    page = at(page_paths.pipeline("ip-count"))
    assert "No sign of life for 16 s." in said(page)
    assert "running</span>" not in said(page)


def test_a_pipeline_of_which_something_needs_attention_is_not_shown_as_well(answers):
    answers.pipelines = [pipeline()]
    # The contract server has open transactions to commit of it.
    page = said(at(page_paths.pipeline("ip-count")))
    assert "running, 1 thing needs attention" in page
    assert 'class="card good"' not in page


def test_the_page_of_an_alert_has_its_remedy_and_says_if_the_alert_went_before_it_is_silenced(answers):
    answers.pipelines, answers.alerts = [pipeline()], [alert()]
    answers.transactions, answers.attention = [], [attention()]
    page = at(page_paths.alert(answers.alerts[0]["key"]))
    assert [one for one in labels(page) if one.endswith("…")] == ["Restart …", "Silence …"]
    silence = button(page, "Silence …")
    answers.alerts = []
    assert "This alert has gone since this page showed it" in said(silence.click().run())


def test_an_application_without_a_supervisor_offers_no_restart(answers):
    answers.transactions, answers.jobs = [foreign("billing-1")], [job(pipeline="eu/billing")]
    page = at(page_paths.pipeline("billing-1"))
    assert "indoubt cannot restart it" in said(page)
    assert "Restart …" not in labels(page)
    assert "RUNNING" in said(at(page_paths.pipeline("eu/billing")))


def test_an_alert_leads_to_what_it_is_about_and_can_be_silenced(answers):
    answers.alerts = [alert(), alert("A5", summary="the same batch"), alert("A6", group="another", summary="not this")]
    page = at(page_paths.alert(answers.alerts[0]["key"]))
    assert "decision 88213 lists it" in said(page)
    assert "the same batch" in said(page)
    assert "not this" not in said(page)
    assert "Open what it is about" in labels(page)
    page = button(page, "Silence …").click().run()
    assert "silence-form-reason" in [one.key for one in page.text_input] + [one.key for one in page.text_area]
    assert "it was resolved long ago" in said(opened("objects.alert", key="A1|none")).lower()


def test_a_partition_has_who_waits_what_holds_it_and_what_ended(answers):
    row = foreign("billing-1")
    answers.partition = {
        "topic": "orders", "partition": 2, "readers": blocked(holder_key=row["key"], holder_transaction="billing-1"),
        "read_by": ["billing"],
        "hanging": [hanging()], "open": [row], "ended": [ended_transaction("billing-0")],
    }  # fmt: skip
    answers.hanging = [hanging()]
    page = at(page_paths.partition("orders", 2))
    for text in (
        "120 offsets hidden",
        "billing",
        "Held back by",
        "commit marker on the partition",
        "billing-0",
        "markers only",
        page_paths.pipeline("shop"),
    ):
        assert text in said(page), text
    assert page_paths.transaction(row["key"]) in said(page)
    assert "Commit …" in labels(page)
    assert 'href="/history?show=search"' in said(opened("objects.partition", topic="orders", partition="x"))


def test_hostile_names_are_shown_as_text(answers):
    answers.transactions = [foreign(HOSTILE, partitions=[f"{HOSTILE}-1"])]
    answers.events = [raw_event(what=HOSTILE, raw={HOSTILE: HOSTILE})]
    answers.earlier, answers.alerts = [ended_transaction(HOSTILE)], [alert(summary=HOSTILE)]
    for path in (
        page_paths.transaction(answers.transactions[0]["key"]),
        page_paths.pipeline(HOSTILE),
        page_paths.batch(HOSTILE, 1),
        page_paths.alert(answers.alerts[0]["key"]),
    ):
        assert "<img" not in said(at(path)), path


def test_a_batch_and_a_pipeline_have_the_orders_about_them(answers):
    answers.batches = [shared_batch(1841, pipeline="ip-count", transactions=parts_of_batch(answers.transactions))]
    answers.pipelines = [pipeline()]
    for number, key in enumerate((answers.transactions[1]["key"], answers.pipelines[0]["key"], "kafka:other:1:1@1")):
        answers.audit.append(given_order(number, at_ms=1, who=f"person-{number}", keys=[key], outcome="dry_run"))
    page = said(at(page_paths.batch("ip-count", 1841)))
    assert "person-0" in page
    assert "dry run" in page
    assert "person-1" not in page
    assert "person-2" not in page
    page = said(at(page_paths.pipeline("ip-count")))
    assert "person-1" in page
    assert "person-0" not in page


def test_a_partition_has_the_orders_of_what_is_open_on_it(answers):
    one = answers.transactions[0]
    answers.transactions.append(foreign("billing-1"))
    answers.partition = {
        "topic": "ip_count_sink", "partition": 0, "readers": None, "read_by": [], "hanging": [], "ended": [],
        "open": [one, answers.transactions[-1]],
    }  # fmt: skip
    page = at(page_paths.partition("ip_count_sink", 0))
    shown = said(page).partition("Open on it")[2].partition("</section>")[0]
    assert "Commit batch 1841 …" in shown
    assert all(row["key"] in shown for row in answers.transactions[:4]), "of the whole batch, as in the list"
    assert shown.count("data-order") == 2
    answers.partition["open"] = [{**one, "may_commit": False, "verdict": "in progress"}]
    answers.transactions = answers.partition["open"]
    shown = said(at(page_paths.partition("ip_count_sink", 0))).partition("Open on it")[2].partition("</section>")[0]
    assert ">Orders<" not in shown


def test_an_alert_about_its_readers_is_about_the_transaction_that_they_wait_for(answers):
    one = answers.transactions[0]
    of_readers = {"pipeline": "ip-count", "partition": "ip_count_sink-0", "transaction": one["transaction"]}
    answers.alerts = [
        alert(
            "A4", path=page_paths.partition("ip_count_sink", 0), labels=of_readers, found_at_ms=one["opened_at_ms"] + 1
        )
    ]
    path = page_paths.transaction(one["key"])
    assert "A4 commit overdue" in said(at(path))
    answers.alerts[0]["found_at_ms"] = one["opened_at_ms"] - 1
    assert "None about it." in said(at(path)), "it was about an earlier one of the same id"


def test_an_alert_may_outlast_the_transaction_that_it_is_about(answers):
    answers.transactions = batch(state="committed", verdict="settled", deadline_ms=None, may_commit=False)
    path = page_paths.transaction(answers.transactions[0]["key"])
    page = at(path)
    assert "None about it." in said(page)
    answers.alerts = [alert(path=path)]
    assert "A2 commit overdue" in said(page.run())


def test_what_a_restore_from_each_checkpoint_of_a_job_does(answers):
    answers.jobs = [job(state="FAILED")]
    assert "No retained checkpoint of it was read" in said(at(page_paths.pipeline("flink-eu/orders-to-lake")))
    answers.restores = [
        restore(41, commits=2, deadline_ms=1_764_000_900_000, advice="Commit 2 open transactions first."),
        restore(40, is_safe=False, twice=4, advice="Writes 4 a second time."),
        restore(39, certainty="guess", doubts=["<b>set back</b> to 38"]),
    ]
    page = said(at(page_paths.pipeline("flink-eu/orders-to-lake")))
    for text in ("If it is restored", "it is FAILED", "41 (newest)", "Commit 2 open transactions first. (likely)",
                 "Writes 4 a second time.", "But &lt;b&gt;set back&lt;/b&gt; to 38."):  # fmt: skip
        assert text in page, text
