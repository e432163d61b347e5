"""The demo's panel of faults, by Streamlit's own test driver: one press causes one fault."""

from __future__ import annotations

import httpx
import pytest
import streamlit as st

from indoubt.app.screens import fault_injection
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import given_order
from tests.unit.app.page_driver import answering, button, opened, said

pytestmark = pytest.mark.slow
TOUR = [{"title": "All is well", "text": "Look."}, {"title": "A batch in doubt", "text": "Press."}]
T0 = 1_795_000_000_000


@pytest.fixture
def caused(monkeypatch):
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            faults = [
                {"name": name, "title": name.upper(), "what_happens": "", "ready": True}
                for name in ("freeze", "abandon")
            ]
            return httpx.Response(200, json={"faults": faults, "log": [], "start_pipeline": False, "tour": TOUR})
        paths.append(request.url.path)
        return httpx.Response(200, json={"accepted": True, "message": f"caused {len(paths)}"})

    desk = httpx.Client(base_url="http://desk", transport=httpx.MockTransport(answer))
    with answering(Answers(), monkeypatch):
        monkeypatch.setattr(fault_injection, "_demo", lambda: desk)
        yield paths


def test_a_press_that_is_handed_over_twice_causes_one_fault(caused, monkeypatch):
    page = opened("fault_injection")
    button(page, "ABANDON").click().run()
    button(page, "ABANDON").click().run()
    assert caused == ["/faults/abandon"]
    assert "caused 1" in said(page)
    button(page, "FREEZE").click().run()
    assert caused == ["/faults/abandon", "/faults/freeze"], "another button is another press"
    monkeypatch.setattr(fault_injection, "SAME_CLICK_S", 0.0)
    button(page, "FREEZE").click().run()
    assert caused[2:] == ["/faults/freeze"], "and so is a later one"


def test_the_tour_goes_step_by_step_until_it_is_closed(caused):
    page = opened("fault_injection")
    assert "Tour · 1 of 2" in said(page)
    assert button(page, "Back").disabled
    button(page, "Next").click().run()
    assert "A batch in doubt" in said(page)
    assert button(page, "Next").disabled
    button(page, "Close").click().run()
    assert "A batch in doubt" not in said(page)
    button(page, "Show the tour").click().run()
    assert "Tour · 2 of 2" in said(page), "it goes on where it was closed"
    assert caused == []


def test_the_panel_says_why_buttons_are_off_what_struck_and_what_of_the_tour_is_done(monkeypatch):
    steps = [
        {"title": "Press", "text": "", "order": None, "since_ms": T0, "done_ms": T0},
        {"title": "Commit", "text": "", "order": "commit", "since_ms": T0, "done_ms": None},
    ]
    state = {"faults": [{"name": "freeze", "title": "FREEZE", "what_happens": "", "ready": False}], "tour": steps,
             "log": [{"at_ms": T0, "text": "Struck, 1.4 s after the press"}], "start_pipeline": False,
             "waits": {"why": "The driver is frozen.", "since_ms": T0}}  # fmt: skip
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=state))
    orders = Answers(audit=[given_order(at_ms=T0 - 1, action="commit")])
    with answering(orders, monkeypatch):
        monkeypatch.setattr(fault_injection, "_demo", lambda: httpx.Client(base_url="http://desk", transport=transport))
        page = opened("fault_injection")
        for text in ("The driver is frozen.", f'data-since="{T0}"', "Struck, 1.4 s", "✔ Done</b> at 11:06:40"):
            assert text in said(page), text
        button(page, "Next").click().run()
        assert "✔ Done" not in said(page), "an earlier commit does not count"
        orders.audit[0]["at_ms"] = T0 + 60_000
        assert "✔ Done</b> at 11:07:40" in said(page.run())


def test_a_browser_remembers_that_the_tour_was_closed(caused, monkeypatch):
    monkeypatch.setattr(type(st.context), "cookies", {"indoubt-tour": "closed"})
    page = opened("fault_injection")
    assert "Tour ·" not in said(page)
    button(page, "Show the tour").click().run()
    assert "Tour · 1 of 2" in said(page)
    assert caused == []
