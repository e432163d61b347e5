"""A stretch of time that is chosen on a picture filters the tables beside it, and stands in the address."""

from __future__ import annotations

import pytest
import streamlit as st

from indoubt.app.components.links_and_buttons import ChooseTime, click_text
from indoubt.app.dialogs import button_clicks
from indoubt.app.screens import checkpoints
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import checkpoint, checkpoint_gaps
from tests.unit.app.page_driver import answering, knowing, opened, said

pytestmark = pytest.mark.slow
T0 = 1_795_000_000_000


@knowing
def answers():
    rows = [
        checkpoint(number, started_at_ms=T0 + number * 60_000, ended_at_ms=T0 + number * 60_000 + 900)
        for number in range(10)
    ]
    return Answers(checkpoints=rows)


def test_the_table_shows_the_chosen_time_alone_and_goes_back_to_all(answers):
    page = opened("checkpoints", **{"from": str(T0 + 60_000), "until": str(T0 + 200_000)})
    assert "3 checkpoints" in said(page)
    assert "only 2026-11-18 11:07:40.000 UTC to 2026-11-18 11:10:00.000 UTC" in said(page)
    page = page.button(key="checkpoint-durations-whole").click().run()
    assert "10 checkpoints" in said(page)
    assert "from" not in page.query_params


def test_a_filter_beside_the_chosen_time_stays_when_all_of_it_is_shown_again(answers):
    ends = {"from": str(T0 + 60_000), "until": str(T0 + 200_000)}
    page = opened("checkpoints", **{"checkpoint-pipeline": "ip-count", "page": "2", **ends})
    page = page.button(key="checkpoint-durations-whole").click().run()
    assert not page.exception, page.exception
    assert "10 checkpoints" in said(page)
    assert page.query_params["checkpoint-pipeline"] in ("ip-count", ["ip-count"])
    assert not {"from", "until", "page"} & set(page.query_params)


def test_a_bar_that_is_pressed_chooses_its_time_and_leaves_filters_alone(monkeypatch):
    # A widget is bound to the filter: it could not be set with the rest of the address.
    query = {"abort-cause": "timeout", "page": "3"}
    monkeypatch.setattr(st, "query_params", query)
    button_clicks.handle(click_text(ChooseTime(first_ms=T0, last_ms=T0 + 59_999)))
    assert query == {"abort-cause": "timeout", "page": "1", "from": str(T0), "until": str(T0 + 59_999)}


def test_a_time_behind_the_newest_is_asked_for(answers, monkeypatch):
    monkeypatch.setattr(checkpoints, "MAX_ROWS", 3)
    answers.checkpoints.reverse()
    page = opened("checkpoints", **{"from": str(T0), "until": str(T0 + 61_000)})
    assert "2 checkpoints" in said(page)


@pytest.mark.parametrize("query", [{}, {"from": "1"}, {"from": "x", "until": "2"}, {"from": "1" * 30, "until": "2"}])
def test_an_address_without_a_whole_stretch_chooses_nothing(query, answers):
    assert "10 checkpoints" in said(opened("checkpoints", **query))


def test_a_pipeline_is_looked_for_behind_the_newest_of_others(monkeypatch):
    rows = [checkpoint(number, started_at_ms=T0, ended_at_ms=T0 + 900) for number in range(600)]
    rows.append(checkpoint(7, pipeline="quiet", started_at_ms=T0 - 9_000, ended_at_ms=T0 - 8_000))
    gaps = [checkpoint_gaps(rows[0]["pipeline"]), checkpoint_gaps("quiet")]
    with answering(Answers(checkpoints=rows, checkpoint_gaps=gaps), monkeypatch):
        page = opened("checkpoints")
        assert "500 checkpoints" in said(page)
        page.selectbox(key="checkpoint-pipeline").select("quiet").run()
        assert "1 checkpoint<" in said(page)
        assert "1 checkpoint<" in said(opened("checkpoints", **{"checkpoint-pipeline": "quiet"}))


def typed(page, first, last):
    page.text_input(key="checkpoint-durations-From").set_value(first)
    page.text_input(key="checkpoint-durations-Until").set_value(last)
    return next(one for one in page.button if one.label == "Show this time").click().run()


def test_a_time_is_typed_in_the_readers_zone(answers):
    page = typed(opened("checkpoints", zone="Europe/Berlin"), "2026-11-18 12:07:40", "2026-11-18 12:10")
    assert "only 2026-11-18 12:07:40.000 CET to 2026-11-18 12:10:00.000 CET" in said(page)
    assert "3 checkpoints" in said(page)
    assert page.query_params["from"] in (str(T0 + 60_000), [str(T0 + 60_000)])


def test_a_time_without_an_end_lasts_until_now(answers):
    assert "6 checkpoints" in said(typed(opened("checkpoints"), "2026-11-18 11:10:40 UTC", ""))


@pytest.mark.parametrize(
    ("first", "last", "wrong"),
    [("", "", "From:"), ("yesterday", "2026-11-18 11:10", "From:"), ("2026-11-18", "soon", "Until:"),
     ("x", "y", "From and Until:")],
)  # fmt: skip
def test_what_is_no_time_is_named_and_chooses_nothing(answers, first, last, wrong):
    page = typed(opened("checkpoints"), first, last)
    assert f"{wrong} this takes a date and a time such as 2026-11-21 14:00." in said(page)
    assert "10 checkpoints" in said(page)
    assert "from" not in page.query_params
