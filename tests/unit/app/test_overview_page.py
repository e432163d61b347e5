"""The overview: its headline, incidents with their steps and ends, and what it says in health."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import attention, incident, step
from tests.unit.app.contract_rows import batch, foreign, now_ms
from tests.unit.app.page_driver import knowing, labels, opened, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(transactions=batch()))


def test_overview_shows_first_what_needs_attention(answers):
    answers.transactions += [foreign()]
    page = opened("overview")
    assert "2 incidents need you" in said(page)
    assert "commit it" in said(page)
    assert {"Commit batch 1841 …", "Abort …", "Open"} <= set(labels(page))
    assert "checkpoints down" in said(page)
    assert "<span><b>dashboard</b> waits for " in said(page)
    assert "on 4 partitions, 40 records" in said(page)
    assert "The broker aborts it, and decided rows are lost." in said(page)


def test_a_batch_with_two_verdicts_is_one_incident_with_two_orders(answers):
    answers.transactions[0] |= {"verdict": "abort it", "may_commit": False, "may_abort": True}
    page = opened("overview")
    assert "1 incident needs you" in said(page)
    assert {"Commit batch 1841 …", "Abort batch 1841 …"} <= set(labels(page))


def test_overview_when_quiet_says_since_when(answers):
    answers.transactions = batch(state="open", verdict="in progress", may_commit=False)
    page = opened("overview")
    assert "✔ All well since " in said(page)
    assert "1 pipeline alive, 48 transactions committed in the last minute, " in said(page)
    assert labels(page) == []


def test_overview_is_not_well_while_a_pipeline_shows_no_life(answers):
    answers.transactions = batch(state="open", verdict="in progress", may_commit=False)
    silent = {"silent_since_ms": now_ms() - 13_000, "counted_after_ms": 30_000, "restart": None}
    restarts = {"restart": {"since_ms": now_ms() - 14_000, "run": 7, "usually_ms": 40_000, "who": ""}}
    answers.awaited = [{"pipeline": "ip-count", **silent}, {"pipeline": "word-count", **silent, **restarts}]
    page = opened("overview")
    assert "All well" not in said(page)
    assert "Nothing in doubt." in said(page)
    assert "counted as frozen at 30 s" in said(page)
    assert "run 7 is starting" in said(page)
    assert " of usually 40 s" in said(page)
    answers.transactions = batch()
    page = opened("overview")
    assert "1 incident needs you" in said(page)
    assert "run 7 is starting" in said(page)


def test_an_incident_shows_its_steps_and_how_far_they_are(answers):
    answers.transactions = batch(state="open", verdict="in progress", may_commit=False)
    done = step("t", what="Committed batch 41", state="done", note="by anna", remedy="commit", since_ms=now_ms())
    going = step(
        "p", state="under way", note="run 7 is starting", who="bob", since_ms=now_ms() - 14_000, usually_ms=40_000
    )
    answers.incidents = [incident(steps=[done, going], state="wait", severity="warning", headline="ip-count restarts.")]
    page = opened("overview")
    assert "1 incident goes on by itself: nothing to do now." in said(page)
    assert "goes on by itself</span>" in said(page)
    assert "<b>Committed batch 41</b> by anna, " in said(page)
    assert "<b>Restart the driver</b>: run 7 is starting, " in said(page)
    assert " of usually 40 s, ordered by bob" in said(page)
    assert "Restart …" not in labels(page), "a step that is under way is not offered again"
    assert "All well" not in said(page)


def test_a_lost_batch_offers_its_restart_once(answers):
    answers.transactions = batch(state="open", verdict="in progress", may_commit=False)
    lost = attention("transactions", verdict="lost", certainty="certain", badge="lost", batch=41, keys=["kafka:a:1:7"])
    again = step(lost["key"], what="Batch 41 is written again", note="the restart does it", remedy="open", target="")
    answers.incidents = [incident(lost, steps=[step("pipeline:ip-count"), again])]
    page = opened("overview")
    assert "<b>Batch 41 is written again</b>: the restart does it" in said(page)
    assert labels(page).count("Restart …") == 1


def test_an_incident_that_is_over_says_what_happened_and_counts_no_more(answers):
    answers.transactions = batch(state="open", verdict="in progress", may_commit=False)
    done = step("p", what="Restarted the driver", state="done", note="by anna", since_ms=now_ms())
    answers.incidents = [
        incident(
            steps=[done], state="over", over_at_ms=now_ms(), outcome="Nothing was lost.", headline="It was frozen."
        )
    ]
    page = opened("overview")
    assert "✔ All well since " in said(page)
    assert "Nothing was lost." in said(page)
    assert "<b>Restarted the driver</b> by anna, " in said(page)
    assert "It was frozen." not in said(page)
    assert "Open" not in labels(page)
