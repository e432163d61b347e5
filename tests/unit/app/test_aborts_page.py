"""The page of aborts, by Streamlit's own test driver over a server that answers by docs/api.md."""

from __future__ import annotations

import pytest

from indoubt.app.screens import aborts
from indoubt.lifecycle import page_paths
from tests.unit.app import contract_rows
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import now_ms
from tests.unit.app.page_driver import answering, opened, said

pytestmark = pytest.mark.slow


def abort(number: int, cause: str) -> dict[str, object]:
    """Return a row of the aborts; the first is the newest."""
    return contract_rows.abort(f"orders-{number}", at_ms=now_ms() - number * 1_000, cause=cause)


@pytest.fixture
def answers(monkeypatch):
    monkeypatch.setattr(aborts, "MAX_ROWS", 3)
    rows = [*(abort(number, "client") for number in range(5)), abort(5, "timeout"), abort(6, "fenced")]
    with answering(Answers(aborts=rows), monkeypatch) as known:
        yield known


def test_a_cause_is_found_behind_more_of_others_than_a_page_takes(answers):
    page = opened("aborts")
    assert "orders-5" not in said(page)
    page = page.pills(key="abort-cause").set_value(["timeout"]).run()
    assert page_paths.transaction(answers.aborts[5]["key"]) in said(page)
    assert "orders-0" not in said(page)
    page = page.pills(key="abort-cause").set_value(["timeout", "fenced"]).run()
    assert "orders-5" in said(page)
    assert "orders-6" in said(page)


def test_one_whose_rows_were_written_again_is_not_red_and_says_when(answers):
    answers.aborts[:] = [abort(0, "timeout") | {"verdict": "lost"}]
    assert 'class="badge urgent"' in said(opened("aborts"))
    again = {"verdict": "lost, then written again", "written_again_at_ms": 1_795_000_000_000}
    answers.aborts[:] = [abort(0, "timeout") | again]
    page = said(opened("aborts"))
    assert "lost, then written again" in page
    assert 'data-at="1795000000000"' in page
    assert 'class="badge urgent"' not in page


def test_a_cause_in_the_address_is_asked_for_at_once(answers):
    page = opened("aborts", **{"abort-cause": "fenced"})
    assert "orders-6" in said(page)
    assert "orders-0" not in said(page)


def test_a_cause_that_nothing_has_leaves_the_choice(answers):
    page = opened("aborts").pills(key="abort-cause").set_value(["operator"]).run()
    assert [one.key for one in page.pills] == ["abort-cause"]
    assert "orders-0" not in said(page)


def test_without_an_abort_the_page_says_that_none_is_in_history(answers):
    answers.aborts.clear()
    page = said(opened("aborts"))
    assert "No transaction was aborted in all of history." in page
    assert "✔" not in page
    page = said(opened("aborts", **{"abort-pipeline": "orders"}))
    assert "No transaction of orders was aborted in all of history." in page


def test_older_ones_are_a_press_away_and_the_newest_another(answers):
    page = opened("aborts")
    assert "at least 4 earlier ones behind them" in said(page)
    assert page.button(key="abort-newest").disabled
    page = page.button(key="abort-older").click().run()
    assert "orders-3" in said(page)
    assert "orders-0" not in said(page)
    page = page.button(key="abort-older").click().run()
    assert "orders-6" in said(page)
    assert page.button(key="abort-older").disabled
    page = page.button(key="abort-newest").click().run()
    assert "orders-0" in said(page)


def test_an_application_is_found_behind_more_of_others_than_a_page_takes(answers):
    answers.aborts.append(abort(9, "client") | {"pipeline": "billing"})
    page = opened("aborts")
    assert "orders-9" not in said(page)
    page = page.text_input(key="abort-pipeline-field").set_value("billing").run()
    assert "orders-9" in said(page)
    assert "orders-0" not in said(page)


def test_all_that_history_counted_is_drawn_by_cause(answers):
    answers.abort_counts = answers.abort_counts | {
        "counts": [
            {"bucket": 2, "cause": "timeout", "transactions": 12_000},
            {"bucket": 9, "cause": "client", "transactions": 3},
        ]
    }
    drawn = said(opened("aborts"))
    assert "timeout 12,000" in drawn
    assert "client 3" in drawn
    assert "client 3" not in said(opened("aborts", **{"abort-cause": "timeout"}))


def test_a_time_is_asked_for_that_lies_behind_the_newest(answers):
    first, last = answers.aborts[6]["at_ms"], answers.aborts[5]["at_ms"]
    page = opened("aborts", **{"from": str(first), "until": str(last)})
    assert "orders-5" in said(page)
    assert "orders-6" in said(page)
    assert "orders-4<" not in said(page)


def test_a_bar_shows_its_time_alone_and_keeps_the_other_filters(answers, monkeypatch):
    monkeypatch.setattr(aborts, "MAX_ROWS", 50)
    first, last = answers.aborts[5]["at_ms"], answers.aborts[4]["at_ms"]
    answers.abort_counts["counts"] = [{"bucket": 2, "cause": "timeout", "transactions": 1}]
    page = opened("aborts", **{"abort-cause": "timeout"})
    assert 'href="/history?abort-cause=timeout&amp;from=' in said(page)
    page = opened("aborts", **{"from": str(first), "until": str(last)})
    assert "orders-5" in said(page)
    assert "orders-4" in said(page)
    assert "orders-3<" not in said(page)
    page = page.button(key="abort-time-whole").click().run()
    assert "orders-3<" in said(page)
