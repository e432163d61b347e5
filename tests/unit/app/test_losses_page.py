"""The page of data loss, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import loss
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow


@knowing
def answers():
    undone = [
        loss(),
        loss("ip-count-0-1", pipeline="ip-count", verdict="harmless", why="It was never decided.", offsets=[], rows=31),
    ]
    return Answers(losses=undone)


def test_each_abort_says_whether_rows_are_missing_why_and_where(answers):
    page = opened("losses")
    for text in ("1 lost, 1 harmless", "Checkpoint 88 counts it as written", "orders-0", "offsets 1,200 to 1,449, likely",
                 "orders-1", "certain", "It was never decided.", "31"):  # fmt: skip
        assert text in said(page), text


REPLAYED = loss("ip-count-1-1", pipeline="ip-count", managed=True, verdict="lost, then written again", offsets=[],
                written_again_at_ms=1_795_000_000_000)  # fmt: skip
UNKNOWN = loss("billing-1", pipeline="billing", verdict="unknown", offsets=[])


@pytest.mark.parametrize(
    ("undone", "answer"),
    [
        ([REPLAYED], "Nothing of yours is lost.<"),
        ([REPLAYED, UNKNOWN], "Nothing of yours is lost. 1 abort of other programs: ask its owner.<"),
        ([loss()], "Nothing of yours is lost. 1 transaction of other programs is lost.<"),
        ([loss(managed=True), UNKNOWN, UNKNOWN],
         "1 transaction of yours is lost. A restart of the pipeline writes its rows again. "
         "2 aborts of other programs: ask the owner of each.<"),
        ([loss("ip-count-0-0", managed=True, verdict="unknown")], "1 abort of yours cannot be judged: see why below.<"),
        ([loss(f"id-{number}", verdict="harmless") for number in range(210)],
         "Among the newest 200: Nothing of yours is lost.<"),
    ],
)  # fmt: skip
def test_the_page_answers_in_words(answers, undone, answer):
    answers.losses = undone
    assert f">{answer}" in said(opened("losses"))


def test_what_was_written_again_is_not_red_and_says_when(answers):
    answers.losses = [REPLAYED]
    page = said(opened("losses"))
    assert "lost, then written again" in page
    assert 'data-at="1795000000000"' in page
    assert 'class="badge urgent"' not in page
    assert 'class="warn"' not in page


def test_without_one_undone_the_page_says_that_none_is_in_history(answers):
    answers.losses.clear()
    page = said(opened("losses"))
    assert "No transaction was aborted in all of history." in page
    assert "✔" not in page


def test_the_id_of_a_log_line_tells_what_became_of_it(answers):
    page = opened("losses")
    answers.losses.append(
        loss("flink-orders-0-2", verdict="not lost", why="It was committed before the crash.", offsets=[], rows=None)
    )
    page.text_input(key="loss-transaction").set_value(" flink-orders-0-2 ").run()
    for text in ("Outcome of flink-orders-0-2", "1 not lost", "It was committed before the crash."):
        assert text in said(page), text
    assert "Checkpoint 88" not in said(page)
    page.text_input(key="loss-transaction").set_value("never-seen").run()
    assert "The history has no ended transaction with the id <code>never-seen</code>" in said(page)


def test_a_verdict_is_chosen_and_an_unknown_one_is_shown(answers):
    answers.losses.append(loss("other", verdict="half lost", why="A newer collector's word."))
    page = opened("losses")
    assert "half lost" in said(page)
    page.button_group(key="loss-verdict").set_value(["harmless"]).run()
    assert "It was never decided." in said(page)
    assert "Checkpoint 88 counts it as written" not in said(page)


def test_of_very_many_a_page_is_shown_and_the_others_are_a_press_away(answers):
    answers.losses = [loss(f"id-{number}") for number in range(210)]
    page = opened("losses")
    assert "200 lost, at least 10 earlier ones behind them" in said(page)
    assert "id-19" in said(page)
    assert "id-20" not in said(page)
    page = page.button(key="loss-older").click().run()
    assert "id-209" in said(page)
    assert "id-19" not in said(page)


def test_a_verdict_is_looked_for_behind_the_newest_of_others(answers):
    many = [loss(f"id-{number}", verdict="harmless") for number in range(210)]
    answers.losses = [*many, loss("the-one", verdict="lost")]
    page = opened("losses", **{"loss-verdict": "lost"})
    assert "the-one" in said(page)
    assert "1 lost" in said(page)
    page = opened("losses")
    assert "the-one" not in said(page)
    page.button_group(key="loss-verdict").set_value(["lost"]).run()
    assert "the-one" in said(page)
    assert "id-0<" not in said(page)


def test_text_from_outside_stays_text(answers):
    answers.losses = [loss(HOSTILE, pipeline=HOSTILE, why=HOSTILE, partitions=[HOSTILE], offsets=[], verdict=HOSTILE)]
    page = opened("losses")
    assert "<img" not in said(page)
    assert "&lt;img" in said(page)
