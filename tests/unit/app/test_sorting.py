"""A table of history stands in the order of the column whose head was clicked; the address has it, what is not known comes last."""

from __future__ import annotations

import html
import re

import pytest
import streamlit as st

from indoubt.app.components import sorting
from indoubt.app.components.links_and_buttons import Click, SortBy, click_text, read_click
from indoubt.app.dialogs import button_clicks
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import loss
from tests.unit.app.page_driver import knowing, opened, said

pytestmark = pytest.mark.slow


@knowing
def answers():
    rows = [loss("b-1", rows=None), loss("a-2", rows=7), loss("C-3", rows=31), loss("d-4", rows=0)]
    return Answers(losses=rows)


def shown(page) -> list[str]:
    return re.findall(r">([abCd]-\d)<", said(page))


def head(page, column: str) -> tuple[str, Click | None, str]:
    """Return how a table stands by a column (aria-sort), what a click on its head reports, and where it leads as a link."""
    found = re.search(
        rf'<th scope="col" aria-sort="(\w+)"[^>]*><a href="([^"]*)"[^>]*data-click="([^"]*)">{column}<', said(page)
    )
    assert found is not None, column
    return found[1], read_click(html.unescape(found[3])), html.unescape(found[2])


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        ("Rows", ["C-3", "a-2", "d-4", "b-1"]),
        ("-Rows", ["d-4", "a-2", "C-3", "b-1"]),
        ("Transaction", ["a-2", "b-1", "C-3", "d-4"]),
        ("-Transaction", ["d-4", "C-3", "b-1", "a-2"]),
        ("Ended", ["b-1", "a-2", "C-3", "d-4"]),
        ("-Ended", ["d-4", "C-3", "a-2", "b-1"]),
        ("magic", ["b-1", "a-2", "C-3", "d-4"]),
        ("-", ["b-1", "a-2", "C-3", "d-4"]),
    ],
)
def test_the_address_has_the_order(answers, asked, order):
    assert shown(opened("losses", **{"loss-sort": asked})) == order


def test_a_head_sorts_by_its_column_and_then_turns_the_order_round(answers):
    page = opened("losses")
    assert head(page, "Ended")[:2] == ("descending", SortBy(name="loss-sort", wanted="-Ended"))
    assert head(page, "Rows")[:2] == ("none", SortBy(name="loss-sort", wanted="Rows"))
    page = opened("losses", **{"loss-sort": "Rows", "page": "1", "zone": "UTC"})
    assert head(page, "Rows") == ("descending", SortBy(name="loss-sort", wanted="-Rows"), "?zone=UTC&loss-sort=-Rows")
    assert head(opened("losses", **{"loss-sort": "-Rows"}), "Rows")[:2] == (
        "ascending",
        SortBy(name="loss-sort", wanted="Rows"),
    )
    assert head(opened("losses", **{"loss-sort": "Transaction"}), "Transaction")[0] == "ascending"
    assert '<th scope="col" class="wide">Why</th>' in said(page)


def test_a_press_of_a_head_changes_its_order_in_the_address_and_nothing_else(monkeypatch):
    changed: dict[str, str] = {}
    monkeypatch.setattr(st, "query_params", changed)
    button_clicks.handle(click_text(SortBy(name="loss-sort", wanted="-Rows")))
    assert changed == {"loss-sort": "-Rows"}
    changed["page"] = "7"
    button_clicks.handle(click_text(SortBy(name="loss-sort", wanted="Rows")))
    assert changed == {"loss-sort": "Rows", "page": "1"}
    for name, wanted in (("loss-verdict", "lost"), ("loss-sort", "x" * (sorting.MOST_LETTERS + 1))):
        button_clicks.handle(click_text(SortBy(name=name, wanted=wanted)))
    assert changed == {"loss-sort": "Rows", "page": "1"}


def test_one_row_needs_no_order(answers):
    del answers.losses[1:]
    page = opened("losses")
    assert "aria-sort" not in said(page)
    assert '<th scope="col" class="wide">Rows</th>' in said(page)
