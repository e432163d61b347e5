"""A click that leads to another page gets there, whatever else is clicked meanwhile."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import streamlit as st

from indoubt.app.components.links_and_buttons import OpenPage, click_text
from indoubt.app.dialogs import button_clicks

OVERVIEW, TRANSACTION = (SimpleNamespace(url_path=path) for path in ("", "transaction"))
PAGES = {"": OVERVIEW, "transaction": TRANSACTION}
PRESS = click_text(OpenPage(path="/transaction?key=kafka%3Aorders-0%3A0%3A4"))


class Switches:
    """A run of the page that asks for another page, without a browser."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.query: dict[str, str] = {}
        monkeypatch.setattr(st, "session_state", {})
        monkeypatch.setattr(st, "query_params", SimpleNamespace(to_dict=lambda: self.query))
        monkeypatch.setattr(st, "switch_page", lambda page, query_params: self._switch(page, dict(query_params)))

    def _switch(self, page: SimpleNamespace, query: dict[str, str]) -> None:
        self.asked.append((page.url_path, query))
        self.query = query

    def run(self, shown: SimpleNamespace) -> int:
        """Run the page once; return how often another page was asked for so far."""
        button_clicks.go_where_clicked(PAGES, shown)
        return len(self.asked)


def test_a_press_leads_to_its_page_once(monkeypatch):
    switches = Switches(monkeypatch)
    button_clicks.handle(PRESS)
    assert switches.run(OVERVIEW) == 1
    assert switches.asked == [("transaction", {"key": "kafka:orders-0:0:4"})]
    assert switches.run(TRANSACTION) == 1
    # Whoever goes back to the overview stays there.
    assert switches.run(OVERVIEW) == 1


def test_a_switch_that_another_run_overtakes_is_made_up_for(monkeypatch):
    switches = Switches(monkeypatch)
    button_clicks.handle(PRESS)
    assert switches.run(OVERVIEW) == 1
    # The run of another widget shows the old page, though the address has the query of the new one already.
    assert switches.run(OVERVIEW) == 2
    assert switches.run(TRANSACTION) == 2


def test_a_page_that_is_never_reached_is_not_asked_for_without_end(monkeypatch):
    switches = Switches(monkeypatch)
    button_clicks.handle(PRESS)
    for _ in range(9):
        switches.run(OVERVIEW)
    assert len(switches.asked) == button_clicks.MOST_SWITCHES


def test_an_address_without_a_page_leads_nowhere(monkeypatch):
    switches = Switches(monkeypatch)
    button_clicks.handle(click_text(OpenPage(path="/elsewhere")))
    assert switches.run(OVERVIEW) == 0


@pytest.mark.parametrize(
    ("click", "says"),
    [
        ("no JSON", "a click that this app does not know"),
        ("[]", "a click that this app does not know"),
        ('{"Erase": {}}', "a click that this app does not know"),
        ('{"OpenPage": {}, "ShowNew": {}}', "a click that this app does not know"),
        ('{"ChooseTime": {"first_ms": "soon", "last_ms": 2}}', "a click that this app does not know"),
        (
            '{"AskOrder": {"action": "erase", "subject": "transactions", "keys": ["k"]}}',
            "a click that this app does not know",
        ),
        ('{"AskSilence": {"alert": "A2|k", "cluster": "us"}}', "this page shows another cluster now"),
    ],
)
def test_a_click_that_is_none_or_of_another_cluster_is_said_to_be_so(monkeypatch, click, says):
    monkeypatch.setattr(st, "session_state", {})
    button_clicks.handle(click)
    assert says in st.session_state["click_failed"]
