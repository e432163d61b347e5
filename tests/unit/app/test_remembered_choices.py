"""What a browser remembers of its user's choices, and the downloads of what a list shows."""

from __future__ import annotations

import csv
import json

import pytest
import streamlit as st

from indoubt.app import live
from indoubt.app.components import list_menu, paging
from indoubt.lifecycle.rows.partitions import BlockedRow
from indoubt.lifecycle.rows.row_json import read_row
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import batch, blocked, loss
from tests.unit.app.page_driver import answering, labels, opened, said

pytestmark = pytest.mark.slow
IN_JANUARY_MS = 1_767_225_600_000


@pytest.fixture
def answers(monkeypatch):
    with answering(
        Answers(transactions=[row for number in range(60) for row in batch(number, slots=1)]), monkeypatch
    ) as known:
        yield known


def commits(page) -> int:
    return sum(label.startswith("Commit batch") for label in labels(page))


def test_a_chosen_number_of_rows_holds_on_every_list(answers):
    page = opened("pending")
    assert commits(page) == 20
    page = page.selectbox(key="rows-a-page").set_value(50).run()
    assert commits(page) == 50
    assert page.query_params["rows"] == "50"


def test_a_browser_says_at_its_next_visit_what_was_chosen(answers, monkeypatch):
    kept = {"indoubt-rows": "100", "indoubt-zone": "Europe/Berlin", "indoubt-tour": "closed"}
    monkeypatch.setattr(type(st.context), "cookies", kept)
    assert commits(opened("pending")) == 60
    assert live.zone_name() == "Europe/Berlin"
    assert live.remembered() == kept


def test_the_address_wins_for_this_session_and_is_no_choice(answers, monkeypatch):
    kept = {"indoubt-rows": "100", "indoubt-zone": "Europe/Berlin"}
    monkeypatch.setattr(type(st.context), "cookies", kept)
    answers.losses = [loss(at_ms=IN_JANUARY_MS)]
    page = opened("losses", zone="Asia/Tokyo")
    assert "2026-01-01 09:00:00.000 JST" in said(page)
    del page.query_params["zone"]
    page = page.run()
    assert "09:00:00.000 JST" in said(page), "another page of the same session"
    assert "zone-chosen" not in page.session_state
    assert commits(opened("pending", rows="50")) == 50


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../../etc/passwd", "x" * 300])
def test_a_zone_that_is_none_changes_nothing(answers, zone):
    answers.losses = [loss(at_ms=IN_JANUARY_MS)]
    assert "2026-01-01 00:00:00.000 UTC" in said(opened("losses", zone=zone))


@pytest.mark.parametrize("kept", ["", "7", "x"])
def test_a_cookie_that_is_no_choice_changes_nothing(kept, monkeypatch):
    monkeypatch.setattr(type(st.context), "cookies", {"indoubt-rows": kept, "indoubt-zone": kept})
    assert paging.rows_a_page(50) == 50
    assert live.zone_name() == "UTC"


@pytest.mark.parametrize(
    ("name", "downloads"),
    [("pending", "transactions"), ("readers", "readers"), ("timeouts", "timeouts"), ("pipelines", "pipelines"),
     ("alerts", "alerts"), ("search", "search")],
)  # fmt: skip
def test_each_list_offers_csv_and_json(answers, name, downloads):
    page = opened(name)
    keys = [one.proto.id for one in page.get("download_button")]
    for kind in ("csv", "json"):
        assert any(f"{downloads}-{kind}" in key for key in keys), keys


def test_what_is_in_a_cell_is_text_or_json():
    row = read_row(BlockedRow, blocked())
    (head, line) = list_menu.csv_text([row], "eu").splitlines()
    cells = dict(zip(head.split(","), next(csv.reader([line])), strict=True))
    assert json.loads(cells["groups"])[0]["group"] == row.groups[0].group
    assert head.startswith("cluster_name,")
    assert line.startswith("eu,")
    assert list_menu.csv_text([row], "").splitlines() == [each.partition(",")[2] for each in (head, line)]
