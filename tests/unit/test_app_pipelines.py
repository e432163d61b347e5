"""The page of pipelines, and orders to their supervisors, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.settings import COLLECTOR_URL, TROUBLE_URL
from app.settings import TOKEN as TOKEN_VARIABLE
from tests.unit.app_contract_server import TOKEN, Answers, ContractServer, pipeline

HOSTILE = "<img src=x onerror=alert(1)> **bold** :red[x]"


@pytest.fixture
def answers(monkeypatch):
    known = Answers(pipelines=[pipeline()])
    with ContractServer(known) as server:
        monkeypatch.setenv(COLLECTOR_URL, server.url)
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        monkeypatch.delenv(TROUBLE_URL, raising=False)
        st.cache_resource.clear()
        yield known
        st.cache_resource.clear()


def opened() -> AppTest:
    def script() -> None:
        from app import live, pipeline_dialog, pipelines

        live.looked_again(live.top_line, every_s=live.LIVE_EVERY_S)
        pipelines.show()
        pipeline_dialog.show_if_asked()

    page = AppTest.from_function(script, default_timeout=20).run()
    assert not page.exception, page.exception
    return page


def said(page: AppTest) -> str:
    return "\n".join(element.proto.body for element in page.get("html"))


def press(page: AppTest, label: str) -> AppTest:
    """Press the one button of that label, and return the page after it."""
    (found,) = [one for one in page.button if one.label == label]
    return found.click().run()


def test_each_pipeline_is_shown_with_its_state_its_flow_and_its_last_sign_of_life(answers):
    answers.pipelines.append(pipeline("word-count", state="stopped", sink="mysql:word_counts", interval_ms=None))
    page = opened()
    for text in ("2 pipelines", "ip_count_source → ip_count_sink", "a checkpoint every 5.0 s", "run 88", "stopped",
                 "event checkpoint.completed", "mysql:word_counts"):  # fmt: skip
        assert text in said(page), text


def test_without_a_pipeline_it_says_why_none_is_there(answers):
    answers.pipelines.clear()
    assert "No run of a pipeline is in the decision log." in said(opened())


def test_a_restart_takes_a_reason_and_shows_what_its_supervisor_answered(answers):
    page = press(opened(), "Restart …")
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


def test_a_stop_needs_the_prefix_typed(answers):
    page = press(opened(), "Stop …")
    assert "nothing starts this pipeline again but you" in said(page)
    page.text_input(key="pipeline-order-reason").set_value("maintenance")
    page = press(page, "Stop")
    assert "ip-count was not typed as it is shown" in said(page)
    assert answers.orders == []
    page.text_input(key="pipeline-order-confirm").set_value("ip-count")
    page = press(page, "Stop")
    assert "✔ stopped in 31 ms" in said(page)
    assert [(order["action"], order["confirm"]) for order in answers.orders] == [("stop", "ip-count")]


def test_a_dry_run_sends_nothing_and_leaves_the_dialog_open(answers):
    page = press(opened(), "Restart …")
    page.text_input(key="pipeline-order-reason").set_value("look first")
    page = press(page, "Dry run")
    assert "Dry run: nothing was sent. Audit 512." in said(page)
    assert [order["dry_run"] for order in answers.orders] == [True]
    page = press(page, "Cancel")
    assert len(answers.orders) == 1


def test_a_run_that_started_meanwhile_refuses_the_order(answers):
    page = press(opened(), "Restart …")
    answers.pipelines[0] = pipeline(attempt=120, revision="120")
    page.text_input(key="pipeline-order-reason").set_value("its driver is frozen")
    page = press(page, "Restart")
    assert "Nothing was done." in said(page)
    assert "changed since it was shown" in said(page)


def test_an_unanswered_order_says_that_it_is_followed_up(answers):
    steps = [{"key": "pipeline:ip-count", "will": "order", "outcome": "unknown", "detail": "run 88 has not answered"}]
    answers.give = lambda order: (200, {"audit": 9, "outcome": "pending", "took_ms": 25_000, "steps": steps})
    page = press(opened(), "Restart …")
    page.text_input(key="pipeline-order-reason").set_value("its driver is frozen")
    page = press(page, "Restart")
    assert "sent, and not answered yet" in said(page)
    assert "run 88 has not answered" in said(page)


def test_a_viewer_sees_the_buttons_and_cannot_press_them(answers):
    answers.role = "viewer"
    page = opened()
    assert [one.disabled for one in page.button if one.label in ("Restart …", "Stop …")] == [True, True]


def test_a_name_from_outside_is_text(answers):
    answers.pipelines[0] = pipeline(HOSTILE, sign=HOSTILE, sink=HOSTILE, state=HOSTILE)
    page = press(opened(), "Stop …")
    assert "<img" not in said(page)
    assert "&lt;img src=x" in said(page)
