"""The page of a long table stands in the address: a reload and a copied link show the same rows."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import abort, given_order, now_ms
from tests.unit.app.page_driver import knowing, opened, said

pytestmark = pytest.mark.slow
NEWEST_MS = now_ms()
"""Rows stand in the order of their numbers: the page sorts them by time."""


@knowing
def answers():
    known = Answers(
        audit=[given_order(n, at_ms=NEWEST_MS - n, reason=f"reason {n};") for n in range(120)],
        aborts=[abort(f"id-{n};", at_ms=NEWEST_MS - n, cause="timeout" if n % 2 else "fenced") for n in range(260)],
    )
    return known


def test_the_address_says_which_page_of_a_table_is_shown(answers):
    page = opened("audit", page="2")
    assert "reason 20;" in said(page)
    assert "reason 19;" not in said(page)
    assert page.pagination[0].value == 2


@pytest.mark.parametrize(("asked", "first"), [("99", 100), ("0", 0), ("x", 0), ("", 0)])
def test_a_number_that_is_no_page_is_the_nearest_page(answers, asked, first):
    assert f"reason {first};" in said(opened("audit", page=asked))


def test_a_chosen_page_stands_in_the_address_and_survives_a_reload(answers):
    page = opened("audit")
    page = page.pagination[0].set_value(3).run()
    assert "reason 40;" in said(page)
    assert (page.query_params["page"], page.query_params["rows"]) == ("3", "20")
    assert "reason 40;" in said(opened("audit", page="3"))
    page = page.pagination[0].set_value(1).run()
    assert "reason 0;" in said(page)
    assert "page" not in page.query_params


def test_another_filter_begins_at_its_first_page(answers):
    page = opened("aborts", page="3")
    assert "id-40;" in said(page)
    page = page.pills(key="abort-cause").set_value(["timeout"]).run()
    assert "page" not in page.query_params
    assert "id-1;" in said(page)
