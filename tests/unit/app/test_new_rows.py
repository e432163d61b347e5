"""The quiet line above a table: what came since is counted, and the table is written again only when its reader asks for it."""

from __future__ import annotations

import pytest

from indoubt.app import live
from indoubt.app.components.markup import join
from indoubt.app.screens import new_rows
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import checkpoint
from tests.unit.app.contract_rows import loss, now_ms
from tests.unit.app.page_driver import button, knowing, labels, opened, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers())


def line(listed: str, since: str, of: str = "{}") -> str:
    return join(new_rows.render(live.collector(), {"list": listed, "since": since, "of": of}).values())


def test_what_came_since_is_counted_and_nothing_is_said_while_nothing_did(answers):
    now = now_ms()
    answers.losses = [loss("a", at_ms=now), loss("b", at_ms=now - 1_000), loss("a", at_ms=now - 9_000)]
    assert "2 new since" in line("losses", str(now - 9_000))
    assert "1 new since" in line("losses", str(now - 9_000), of='{"transaction": "b"}')
    assert line("losses", str(now)) == '<p class="news" role="status"></p>'


def test_very_many_are_not_counted_to_the_end(answers):
    now = now_ms()
    answers.checkpoints = [checkpoint(number, ended_at_ms=now - number) for number in range(150)]
    assert "100 or more new" in line("checkpoints", "0")


@pytest.mark.parametrize(
    ("listed", "since", "of"),
    [("nothing", "0", "{}"), ("aborts", "yesterday", "{}"), ("aborts", "9" * 40, "{}"), ("losses", "0", '{"no": "such"}'),
     ("losses", "0", "[1]"), ("losses", "0", "no JSON")],
)  # fmt: skip
def test_what_a_browser_should_not_ask_has_an_empty_line(answers, listed, since, of):
    assert line(listed, since, of) == '<p class="news"></p>'


def test_the_table_stays_until_its_reader_asks_for_what_is_new(answers):
    now = now_ms()
    answers.checkpoints = [checkpoint(41, ended_at_ms=now - 60_000)]
    page = opened("checkpoints")
    assert "show" not in labels(page)
    answers.checkpoints = [checkpoint(42, ended_at_ms=now - 1_000), *answers.checkpoints]
    assert "1 new since" in line("checkpoints", str(now - 60_000))
    assert "number=42" not in said(page)
    page.run()
    assert "number=42" in said(page)


def test_a_press_on_show_is_answered_by_nothing_but_the_new_rows(answers, monkeypatch):
    answers.checkpoints = [checkpoint(41)]
    real = new_rows._newest
    monkeypatch.setattr(new_rows, "_newest", lambda times: real(times) - 1)
    page = opened("checkpoints")
    button(page, "show").click().run()
    assert not page.exception
    assert "reload the page" not in said(page)
