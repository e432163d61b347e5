"""What a page shows by itself stays while the collector is away; a page that is opened then says why it shows nothing."""

from __future__ import annotations

import pytest

from app.client import last_answers
from app.client.last_answers import LastAnswers
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import pipeline
from tests.unit.app.contract_rows import foreign
from tests.unit.app.page_driver import answering, opened, said


@pytest.fixture
def answers(monkeypatch):
    prefix = {"prefix": "bank", "ids": 7, "example": "bank-1", "growth_per_hour": 0.5, "created_last_hour": 0, "stale_ids": 1,
              "checkpoint_ids": 0, "fenced_last_hour": 0, "newest_at_ms": 1, "oldest_at_ms": 1, "leaks": False, "shared": False,
              "why": ""}  # fmt: skip
    with answering(Answers(transactions=[foreign()], pipelines=[pipeline()], ids=[prefix]), monkeypatch) as known:
        yield known


@pytest.mark.slow
def test_a_table_stays_while_the_collector_is_away_and_is_of_now_again(answers):
    page = opened("ids")
    assert "<code" in said(page)
    assert "bank" in said(page)
    answers.loading = True
    page = page.run()
    assert "bank" in said(page)
    assert 'class="lost"' not in said(page)
    assert 'class="lost"' in said(opened("ids")), "whoever comes now is told"
    answers.loading = False
    answers.ids[0]["prefix"] = "shop"
    assert "shop" in said(page.run())


def test_only_what_was_kept_is_looked_back_at():
    last = LastAnswers()
    asked = iter(range(10))
    assert last.get("a", lambda: next(asked)) == 0
    with last.keeping():
        assert last.get("a", lambda: next(asked)) == 1
    with last.looking_back():
        assert last.get("a", lambda: next(asked)) == 1
        assert last.get("b", lambda: next(asked)) == 2
    assert last.get("a", lambda: next(asked)) == 3


def test_no_more_answers_are_kept_than_the_last(monkeypatch):
    monkeypatch.setattr(last_answers, "MOST", 2)
    last = LastAnswers()
    with last.keeping():
        for name in "abac":
            last.get(name, lambda name=name: name)
    with last.looking_back():
        assert [last.get(name, lambda: "asked") for name in "abc"] == ["a", "asked", "c"]
