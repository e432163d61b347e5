"""The pages of ids, of Flink's jobs and of the collector itself, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import quarantined
from tests.unit.app.contract_pipeline_rows import job, prefix_ids
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow


answers = knowing(Answers)


def test_prefixes_that_leak_or_are_shared_stand_first(answers):
    leaking = prefix_ids(
        "export", ids=5_210, growth_per_hour=212.5, stale_ids=5_100, leaks=True, why="New ids all the time."
    )
    answers.ids = [prefix_ids(), leaking, prefix_ids("billing", shared=True, fenced_last_hour=3, why="Two writers.")]
    page = opened("ids")
    drawn = said(page)
    for text in (
        "5,226 ids, 1 prefix growing, 1 prefix used twice",
        "leaks",
        "5,210",
        "212",
        "5,100",
        "New ids all the time.",
        "shared",
        "not growing",
    ):
        assert text in drawn, text
    assert drawn.index("export") < drawn.index("billing") < drawn.index("ip-count")
    assert drawn.count('class="plot"') == 3
    assert drawn.count('class="bars warning"') == 1, "the one that leaks"


def test_without_an_id_the_page_says_so(answers):
    assert "No transactional id has been used yet." in said(opened("ids"))


def test_flinks_jobs_stand_below_the_pipelines_where_there_are_any(answers):
    assert "Flink jobs" not in said(opened("pipelines"))
    answers.jobs = [job(), job("never-restored", restored_from=None, restarts=None)]
    drawn = said(opened("pipelines"))
    for text in (
        "2 jobs",
        "orders-to-lake",
        "RUNNING",
        "flink-eu",
        "checkpoint 88, <time data-exact=",
        "never-restored",
    ):
        assert text in drawn, text


def test_lost_transactions_that_are_no_longer_listed_are_counted(answers):
    assert "no longer listed" not in said(opened("collector_status"))
    answers.lost_forgotten = 1
    assert "1 lost transaction that nothing replayed" in said(opened("collector_status"))


def test_how_far_history_is_archived_is_shown_and_why_not(answers):
    assert "<dt>archive</dt>" not in said(opened("collector_status"))
    answers.archive = {"archived_until_ms": 1_795_000_000_000}
    assert "<dt>archive</dt><dd>all before <time" in said(opened("collector_status"))
    answers.archive = {"archived_until_ms": 0, "archive_error": "archive s3://b/h: AWS Error SLOW_DOWN"}
    assert "archive s3://b/h: AWS Error SLOW_DOWN" in said(opened("collector_status"))


def test_the_collector_shows_its_observers_and_what_it_quarantined(answers):
    answers.quarantined = [quarantined(), quarantined(1_240, error="value has no magic byte")]
    drawn = said(opened("collector_status"))
    for text in ("orders-eu at 127.0.0.1:9092", "<b>anna</b> (operator)", "orders are audited as anna.", "8,812", "transaction log",
                 "no such directory", "2 records", "0 · 41", "0 · 1,240", "value has no magic byte", "specversion"):  # fmt: skip
        assert text in drawn, text
    assert "? 2<span> quarantined</span>" in drawn, "the bar of every page counts them"


def test_an_unwritable_history_is_shown_on_every_page(answers):
    assert "history not written" not in said(opened("collector_status"))
    answers.history_error = "No space left on device"
    drawn = said(opened("collector_status"))
    assert "history not written: no orders" in drawn
    assert "cannot be written: No space left on device" in drawn
    assert "3 rows not on disk yet" in drawn
    assert "history not written: no orders" in said(opened("ids"))


def test_a_viewer_sees_why_no_order_is_taken_and_where_orders_are_given(answers):
    answers.role = "viewer"
    drawn = said(opened("collector_status"))
    assert "You may look here, not order: run &#x27;indoubt commit KEY&#x27; where indoubt was started" in drawn
    assert "for every order from here" not in drawn


def test_text_from_outside_stays_text(answers):
    answers.ids = [prefix_ids(HOSTILE, why=HOSTILE, example=HOSTILE)]
    answers.jobs = [job(HOSTILE, cluster=HOSTILE, state=HOSTILE)]
    answers.quarantined = [quarantined(source=HOSTILE, error=HOSTILE, value=HOSTILE)]
    for name in ("ids", "pipelines", "collector_status"):
        drawn = said(opened(name))
        assert "<img" not in drawn
        assert "&lt;img" in drawn


def test_a_standby_says_where_orders_go(answers):
    assert "standby" not in opened("ids").session_state["rights"]
    answers.standby_of = "https://collector-b:8650"
    page = opened("ids")
    assert "A standby answers: orders go to https://collector-b:8650." in page.session_state["rights"]
    assert page.session_state["may_order"]
