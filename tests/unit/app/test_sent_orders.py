"""An order under way shows so at once, and neither a closed dialog nor a reload of the page loses its result."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from indoubt.app import live
from indoubt.app.dialogs import order_dialog, run_lines
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import pipeline
from tests.unit.app.contract_rows import batch, parts_of_batch, shared_batch
from tests.unit.app.page_driver import answering, button, labels, opened, said

pytestmark = pytest.mark.slow
LIMIT_S = 20.0


@pytest.fixture
def answers(monkeypatch):
    with answering(Answers(transactions=batch(), pipelines=[pipeline()]), monkeypatch) as known:
        monkeypatch.setattr(order_dialog, "MOMENT_S", 0.0)
        known.may_answer.clear()
        yield known
        known.may_answer.set()


def given() -> AppTest:
    """Return the overview with the commit of its batch under way."""
    page = button(opened("overview"), "Commit batch 1841 …").click().run()
    page.text_input(key="order-reason").set_value("driver frozen")
    return button(page, "Commit 4 transactions").click().run()


def answer(answers: Answers) -> None:
    """Let the collector answer, and wait until the app has it."""
    answers.may_answer.set()
    answers.runs.end()


def test_the_dialog_says_that_it_is_under_way_and_then_shows_the_result(answers):
    page = given()
    assert "Under way" in said(page)
    assert "Commit 4 transactions" not in labels(page), "it cannot be given a second time"
    assert answers.runs.came.wait(LIMIT_S)
    answer(answers)
    page = page.run()
    assert "committed 4 of 4 in 31 ms · audit 512" in said(page)
    page = button(page, "Close").click().run()
    assert "Commit of batch 1841" not in said(page), "it was seen"
    assert len(answers.orders) == 1


def test_a_reload_shows_what_is_under_way_and_its_result_until_it_is_dismissed(answers):
    given()
    reloaded = opened("pending")
    assert "Commit of batch 1841 of ip-count" in said(reloaded)
    assert "under way for" in said(reloaded)
    answer(answers)
    reloaded = reloaded.run()
    assert "committed · audit 512" in said(reloaded)
    reloaded = button(reloaded, "Dismiss").click().run()
    assert "audit 512" not in said(reloaded)


def test_a_page_asks_once_which_orders_it_has_a_line_for(answers):
    given()
    answers.asked.clear()
    assert "under way for" in said(opened("overview"))
    assert answers.asked.count("orders/runs") == 1


def test_what_was_dismissed_is_remembered_as_long_as_the_collector_may_list_it(answers):
    given()
    answer(answers)
    (run,) = live.collector().runs()
    run_lines.dismiss(replace(run, run="older"))
    assert set(run_lines._dismissed) == {"older"}
    run_lines._dismissed["older"] -= run_lines.LISTED_S
    run_lines.dismiss(run)
    assert set(run_lines._dismissed) == {run.run}


def under_way(key: str, **changes: object) -> dict[str, object]:
    order = {"at_ms": 1, "who": "carla", "action": "commit", "keys": [key], "reason": "driver frozen", "audit": None}
    return {**order, **changes}


def test_after_a_restart_of_the_app_the_page_of_its_object_shows_an_order_under_way(answers):
    key = answers.transactions[1]["key"]
    answers.batches = [shared_batch(1841, pipeline="ip-count", transactions=parts_of_batch(answers.transactions))]
    answers.under_way = [
        under_way(key),
        under_way(answers.pipelines[0]["key"], action="restart", reason="stands still"),
        under_way("kafka:another:1:1", reason="of another"),
    ]
    pages = {
        path: said(opened(name, **query))
        for path, (name, query) in {
            "transaction": ("objects.transaction", {"key": key}),
            "batch": ("objects.batch", {"pipeline": "ip-count", "number": "1841"}),
            "pipeline": ("objects.pipeline", {"name": "ip-count"}),
        }.items()
    }
    for path in ("transaction", "batch"):
        assert "◌ Commit</b>: under way for" in pages[path], path
        assert "Ordered by carla: driver frozen" in pages[path], path
    assert "◌ Restart</b>: under way for" in pages["pipeline"]
    assert not any("of another" in text for text in pages.values())
    answers.under_way = [under_way(key, audit=7)]
    assert "looks up how it ended (audit 7)" in said(opened("objects.transaction", key=key))


def test_what_was_refused_after_a_reload_says_why(answers):
    given()
    answers.transactions[0]["revision"] = "another"
    answer(answers)
    assert "changed since it was shown" in said(opened("overview"))


def test_an_order_about_a_pipeline_is_under_way_too(answers):
    page = button(opened("pipelines"), "Restart …").click().run()
    page.text_input(key="pipeline-order-reason").set_value("its driver stands still")
    page = button(page, "Restart").click().run()
    assert "Under way" in said(page)
    answer(answers)
    assert "restarted" in said(page.run())
