"""The bar above every page: where one is connected, the zone of times, and who looks."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from indoubt.app.components import bar
from indoubt.app.components.links_and_buttons import ChooseZone, click_text, read_click
from tests.unit.app.contract_answers import Answers
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow


answers = knowing(Answers)


def test_the_raw_name_of_the_cluster_is_on_the_page_of_the_collector_alone(answers, monkeypatch):
    status = answers.status() | {
        "cluster": "cBzFtDfOTVGU9FQPTWk4Bg",
        "bootstrap": "kafka-1:9092,kafka-2:9092,kafka-3:9092",
    }
    monkeypatch.setattr(answers, "status", lambda: status)
    assert ">kafka-1:9092 +2</span>" in said(opened("ids"))
    assert ">cBzFtDfOTVGU9FQPTWk4Bg" not in said(opened("ids"))
    assert "cBzFtDfOTVGU9FQPTWk4Bg at kafka-1:9092" in said(opened("collector_status"))


def test_the_menu_names_the_zones_and_who_this_is():
    def script(who: str) -> None:
        from indoubt.app import live
        from indoubt.app.components import bar
        from indoubt.app.components.markup import el

        live.write(bar.menu(["UTC", "Europe/Berlin"], "UTC", who, el("p", "may look, not order")))

    drawn = said(AppTest.from_function(script, kwargs={"who": HOSTILE}).run())
    assert "<img" not in drawn
    assert drawn.index('aria-current="true"') < drawn.index("Europe/Berlin")
    assert "may look, not order" in drawn
    assert "data-find" in bar.SEARCH


@pytest.mark.parametrize(("asked", "shown"), [("Europe/Berlin", ["Europe/Berlin"]), ("../../etc/passwd", None)])
def test_a_press_chooses_a_zone_that_there_is(answers, asked, shown):
    def script(click: str) -> None:
        from indoubt.app.dialogs import button_clicks

        button_clicks.handle(click)

    click = click_text(ChooseZone(name=asked))
    assert read_click(click) == ChooseZone(name=asked)
    page = AppTest.from_function(script, kwargs={"click": click}).run()
    assert not page.exception
    assert page.query_params.get("zone") in (shown, shown and shown[0])
