"""Standing orders on page Collector, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import standing_order
from tests.unit.app.page_driver import HOSTILE, button, knowing, labels, opened, said

pytestmark = pytest.mark.slow
STOP, START = "Stop all standing orders", "Start standing orders …"


answers = knowing(lambda: Answers(standing_orders=[standing_order()]))


def test_each_order_is_shown_with_its_state_and_what_it_holds_back(answers):
    doubt = "observer 'decision log' does not see its source"
    answers.standing_orders.append(standing_order("clear", act="abort", state="held back", held=3, why=doubt))
    drawn = said(opened("collector_status"))
    for text in ("2 orders of carla", "save clicks", "acts", "eu/clicks", "less than 20 s left or driver gone",
                 "1 of 50, 0 dry runs", "held back", "3: observer"):  # fmt: skip
        assert text in drawn, text


def test_without_a_file_there_is_no_such_part_of_the_page(answers):
    answers.standing_orders.clear()
    page = opened("collector_status")
    assert "Standing orders" not in said(page)
    assert STOP not in labels(page)


def test_one_button_stops_all_and_to_start_them_takes_a_reason(answers):
    page = button(opened("collector_status"), STOP).click().run()
    assert answers.switches == [{"stopped": True, "reason": "stopped on page Collector"}]
    assert "all stopped by anna" in said(page)

    page = button(page, START).click().run()
    page = button(page, "Start").click().run()
    assert "Give a reason of at least 3 characters" in said(page)
    assert len(answers.switches) == 1
    page.text_input(key="standing-form-reason").set_value("the drill is over")
    page = button(page, "Start").click().run()
    assert answers.switches[1:] == [{"stopped": False, "reason": "the drill is over"}]
    assert STOP in labels(page.run())


def test_what_the_collector_could_not_write_down_is_said(answers):
    page = opened("collector_status")
    answers.history_error = "No space left on device"
    page = button(page, STOP).click().run()
    assert "history cannot be written: No space left on device" in said(page)


def test_a_viewer_may_not_press_it(answers):
    answers.role = "viewer"
    assert button(opened("collector_status"), STOP).disabled


def test_text_from_outside_stays_text(answers):
    answers.standing_orders = [
        standing_order(HOSTILE, applications=[HOSTILE], owner=HOSTILE, why=HOSTILE, held=1, state="held back")
    ]
    drawn = said(opened("collector_status"))
    assert "<img" not in drawn
    assert "&lt;img" in drawn
