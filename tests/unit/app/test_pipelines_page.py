"""The page of pipelines, and orders to their supervisors, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from indoubt.app.screens.pipelines import pipeline_buttons
from indoubt.lifecycle.rows.attention import Remedy
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import attention
from tests.unit.app.contract_pipeline_rows import application_series, pipeline, series
from tests.unit.app.contract_rows import now_ms
from tests.unit.app.page_driver import HOSTILE, knowing, labels, opened, press, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(pipelines=[pipeline()]))


def test_each_pipeline_is_shown_with_its_state_and_last_heartbeat(answers):
    answers.pipelines.append(pipeline("word-count", state="stopped", sink="mysql:word_counts", interval_ms=None))
    page = opened("pipelines")
    for text in ("2 pipelines", "ip_count_source → ip_count_sink", "a checkpoint every 5.0 s", "run 88", "stopped",
                 "a checkpoint was completed", "mysql:word_counts"):  # fmt: skip
        assert text in said(page), text


def test_a_driver_that_stands_still_is_not_called_running(answers):
    assert "running</span>" in said(opened("pipelines"))
    answers.attention = [attention()]
    page = opened("pipelines")
    assert "running</span>" not in said(page)
    assert "frozen</span>" in said(page)
    assert "No sign of life for 16 s." in said(page)


def test_a_pipeline_that_restarts_is_offered_no_second_restart(answers):
    assert "Restart …" in labels(opened("pipelines"))
    answers.pipelines[0]["restart"] = {"since_ms": now_ms() - 14_000, "run": 7, "usually_ms": None, "who": ""}
    page = opened("pipelines")
    assert "Stop …" in labels(page)
    assert "Restart …" not in labels(page)
    assert "run 7 is starting" in said(page)


@pytest.mark.parametrize(("severity", "tone"), [("critical", "urgent"), ("warning", "warning")])
def test_a_pipeline_is_not_shown_as_well_while_something_of_it_needs_attention(answers, severity, tone):
    of_it = {"verdict": "commit it", "severity": severity, "headline": "Decided, and not committed.", "target": ""}
    other = attention("readers", key="readers/else", pipeline="word-count", target="", headline="Of another one.")
    answers.attention = [attention("transactions", **of_it), other]
    page = said(opened("pipelines"))
    assert "running, 1 thing needs attention</span>" in page
    assert "Decided, and not committed. Its input is not processed." in page
    assert "Of another one." not in page
    assert f'class="card {tone}"' in page
    assert 'class="card good"' not in page


def test_its_last_hour_is_drawn_below_its_card(answers):
    answers.series = series(application_series(), application_series("foreign", managed=False))
    page = said(opened("pipelines"))
    assert "commits over time" in page
    assert "foreign" not in page


def test_without_a_pipeline_it_says_why_none_is_there(answers):
    answers.pipelines.clear()
    assert "No pipeline of yours has ever run here." in said(opened("pipelines"))


def test_a_restart_takes_a_reason_and_shows_what_its_supervisor_answered(answers):
    page = press(opened("pipelines"), "Restart …")
    assert "An order for run 88" in said(page)
    assert "pipeline-order-confirm" not in [one.key for one in page.text_input]
    page = press(page, "Restart")
    assert "Give a reason of at least 3 characters" in said(page)
    assert answers.orders == []
    page.text_input(key="pipeline-order-reason").set_value("its driver is frozen")
    page = press(page, "Restart")
    assert "✔ restarted in 31 ms" in said(page)
    (order,) = answers.orders
    assert (order["action"], order["keys"], order["seen"]) == (
        "restart",
        ["pipeline:ip-count"],
        {"pipeline:ip-count": "88"},
    )
    page = press(page, "Close")
    assert "An order for run 88" not in said(page)


def test_what_does_not_run_is_started_with_a_reason(answers):
    answers.pipelines[0] = pipeline(state="stopped", may_start=True)
    page = press(opened("pipelines"), "Start …")
    assert "runs the command that it was given for this pipeline" in said(page)
    page.text_input(key="pipeline-order-reason").set_value("its machine is back")
    page = press(page, "Start")
    assert "✔ started in 31 ms" in said(page)
    assert [(order["action"], order["keys"]) for order in answers.orders] == [("start", ["pipeline:ip-count"])]


def test_a_stop_needs_the_prefix_typed(answers):
    page = press(opened("pipelines"), "Stop …")
    assert "only you can start this pipeline again" in said(page)
    page.text_input(key="pipeline-order-reason").set_value("maintenance")
    page = press(page, "Stop")
    assert "The confirmation is not ip-count." in said(page)
    assert answers.orders == []
    page.text_input(key="pipeline-order-confirm").set_value("ip-count")
    page = press(page, "Stop")
    assert "✔ stopped in 31 ms" in said(page)
    assert [(order["action"], order["confirm"]) for order in answers.orders] == [("stop", "ip-count")]


def test_a_dry_run_sends_nothing_and_leaves_the_dialog_open(answers):
    page = press(opened("pipelines"), "Restart …")
    page.text_input(key="pipeline-order-reason").set_value("look first")
    page = press(page, "Dry run")
    assert "Dry run: nothing was sent. Audit 512." in said(page)
    assert [order["dry_run"] for order in answers.orders] == [True]
    page = press(page, "Cancel")
    assert len(answers.orders) == 1


def test_a_run_that_started_meanwhile_refuses_the_order(answers):
    page = press(opened("pipelines"), "Restart …")
    answers.pipelines[0] = pipeline(attempt=120, revision="120")
    page.text_input(key="pipeline-order-reason").set_value("its driver is frozen")
    page = press(page, "Restart")
    assert "Nothing was done." in said(page)
    assert "changed since it was shown" in said(page)


def test_what_became_of_an_order_without_an_answer_is_asked(answers):
    page = press(opened("pipelines"), "Restart …")
    page.text_input(key="pipeline-order-reason").set_value("its driver is frozen")
    answers.loses = "answer"
    page = press(page, "Restart")
    assert "The result is unknown." in said(page)
    page = press(page, "Ask for the result")
    assert "✔ restarted in 31 ms" in said(page)
    assert len(answers.orders) == 1


def test_an_unanswered_order_says_that_it_is_followed_up(answers):
    steps = [
        {"key": "pipeline:ip-count", "description": "order", "outcome": "unknown", "detail": "run 88 has not answered"}
    ]
    answers.give = lambda order: (200, {"audit": 9, "outcome": "pending", "took_ms": 25_000, "steps": steps})
    page = press(opened("pipelines"), "Restart …")
    page.text_input(key="pipeline-order-reason").set_value("its driver is frozen")
    page = press(page, "Restart")
    assert "sent, no answer yet" in said(page)
    assert "run 88 has not answered" in said(page)


def test_a_viewer_sees_the_buttons_and_cannot_press_them(answers):
    answers.role = "viewer"
    page = opened("pipelines")
    assert [one.disabled for one in page.button if one.label in ("Restart …", "Stop …")] == [True, True]


def test_a_name_from_outside_is_text(answers):
    answers.pipelines[0] = pipeline(HOSTILE, last_heartbeat=HOSTILE, sink=HOSTILE, state=HOSTILE)
    page = press(opened("pipelines"), "Stop …")
    assert "<img" not in said(page)
    assert "&lt;img src=x" in said(page)


@pytest.mark.parametrize(
    ("remedy", "first"), [(Remedy.RESTART, "Restart …"), (Remedy.START, "Start …"), (None, "Start …")]
)
def test_its_first_button_is_the_remedy_that_overview_names(remedy, first):
    row = SimpleNamespace(key="pipeline:ip-count", may_start=True, restart=None)
    shown = pipeline_buttons(row, SimpleNamespace(remedy=remedy) if remedy is not None else None)
    assert first in str(shown[0])
