"""Trends: what the plots of an application's days show, and what is said where there is nothing to show."""

from __future__ import annotations

import pytest

from indoubt.app import live
from indoubt.app.screens import trends
from tests.unit.app import contract_pipeline_rows as rows
from tests.unit.app.contract_answers import Answers
from tests.unit.app.page_driver import HOSTILE, answering

pytestmark = pytest.mark.slow
NONE = [None, None, None]


def drawn(monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]) -> str:
    with answering(Answers(trends=answer), monkeypatch):
        return "".join(map(str, trends.render(live.collector(), {}).values()))


def test_each_application_has_its_days(monkeypatch: pytest.MonkeyPatch) -> None:
    page = drawn(monkeypatch, rows.trends(rows.trend(), more=3))
    for text in (
        "commits <b>3,000<small> 14 aborted</small><small>, 1 lost</small></b>",
        "aborted: timeout 13, client 1",
        "open for <b>longest 52 s, p99 now 2.1 s</b>",
        "left of the timeout <b>least 8.0 s of 1 min 00 s</b>",
        "ids <b>12<small> 4 new on the last day</small></b>",
        "3 quieter applications not shown",
    ):
        assert text in page, text
    assert page.count('<i class="unseen"') == 4, "a day without a result is no zero"


def test_branches_of_a_database_show_how_long_they_were_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = dict.fromkeys(
        (
            "committed",
            "aborted",
            "lost",
            "open_p50_ms",
            "open_p99_ms",
            "open_longest_ms",
            "timeout_ms",
            "margin_least_ms",
        ),
        NONE,
    )
    branches = rows.trend(
        "xa", **nothing, ids=NONE, new_ids=NONE, causes=[], branches=[3, 4, 5], branch_longest_ms=[9, 8, 7_000]
    )
    page = drawn(monkeypatch, rows.trends(branches))
    assert "ended <b>12 branches</b>" in page
    assert "prepared for <b>longest 7.0 s</b>" in page


def test_where_nothing_is_there_the_page_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set INDOUBT_HISTORY_ARCHIVE" in drawn(monkeypatch, rows.trends())
    assert "Nothing was computed yet" in drawn(monkeypatch, rows.trends(is_archived=True))


def test_a_name_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HOSTILE not in drawn(monkeypatch, rows.trends(rows.trend(HOSTILE)))
