"""A table of history stands in the order that is chosen, which the address has; what is not known comes last."""

from __future__ import annotations

import re

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import loss
from tests.unit.app.page_driver import answering, opened, said

pytestmark = pytest.mark.slow


@pytest.fixture
def answers(monkeypatch):
    rows = [loss("b-1", rows=None), loss("a-2", rows=7), loss("C-3", rows=31), loss("d-4", rows=0)]
    with answering(Answers(losses=rows), monkeypatch) as known:
        yield known


def shown(page) -> list[str]:
    return re.findall(r">([abCd]-\d)<", said(page))


def test_the_order_is_chosen_and_goes_back(answers):
    page = opened("losses")
    assert shown(page) == ["b-1", "a-2", "C-3", "d-4"]
    page = page.selectbox(key="loss-sort").select("most rows first").run()
    assert shown(page) == ["C-3", "a-2", "d-4", "b-1"]
    page = page.selectbox(key="loss-sort").select("by transaction").run()
    assert shown(page) == ["a-2", "b-1", "C-3", "d-4"]
    page = page.selectbox(key="loss-sort").select("newest first").run()
    assert shown(page) == ["b-1", "a-2", "C-3", "d-4"]


def test_the_address_has_the_order(answers):
    assert shown(opened("losses", **{"loss-sort": "most rows first"})) == ["C-3", "a-2", "d-4", "b-1"]
    assert shown(opened("losses", **{"loss-sort": "by magic"})) == ["b-1", "a-2", "C-3", "d-4"]


@pytest.mark.parametrize("name", ["aborts", "checkpoints", "ids", "audit"])
def test_one_row_or_none_needs_no_order(answers, name):
    assert [one.key for one in opened(name).selectbox if one.key and one.key.endswith("-sort")] == []
