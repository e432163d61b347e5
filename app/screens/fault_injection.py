"""Make trouble: the demo's faults, one button each. There only where INDOUBT_TROUBLE_URL is set."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import httpx
import streamlit as st

from app import live
from app.markup import Html, el, plain_label
from app.time_text import clock_time

EVERY_S = 1.5
LIMIT_S = 10.0
SAME_PRESS_S = 1.0
"""So soon after its answer a press of the same button is the same press."""


@st.cache_resource(on_release=lambda client: client.close())
def _demo() -> httpx.Client:
    return httpx.Client(base_url=live.settings().trouble_url or "", timeout=LIMIT_S, trust_env=False)


def show() -> None:
    """Write the panel: what can be broken, what happens then, and what happened so far."""
    with st.container(key="trouble"):
        live.write(el("h3", "Make trouble", el("small", " demo only")))
        try:
            state = _demo().get("/faults").raise_for_status().json()
            faults, log = list(state["faults"]), list(state.get("log") or [])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            live.write(
                el("div", f"✖ The demo does not answer at {live.settings().trouble_url}: {error}", class_="lost")
            )
            return
        # Always in its place: a button that comes and goes would move the others from under the pointer.
        waits = bool(state.get("start_pipeline"))
        _button("Start the pipeline again", "/start-pipeline", key="start-pipeline", ready=waits)
        for fault in faults:
            _fault(fault)
        live.write(_said(st.session_state.get("trouble_said")))
        with st.container(key="trouble-log"):
            live.write(_log(log))


def _fault(fault: dict[str, Any]) -> None:
    name = str(fault["name"])
    with st.container(gap=None):
        title, ready = plain_label(fault.get("title") or name), bool(fault.get("ready"))
        _button(title, f"/faults/{quote(name, safe='')}", key=f"fault-{name}", ready=ready)
        live.write(el("p", str(fault.get("what_happens") or ""), class_="what-happens"))


def _button(label: str, path: str, *, key: str, ready: bool) -> None:
    st.button(label, key=key, disabled=not ready, width="stretch", on_click=_press, args=(path,))


def _press(path: str) -> None:
    # Streamlit was seen to hand one click over twice, when a fragment looked again while the first was being answered.
    if (
        (last := st.session_state.get("trouble_pressed"))
        and last[0] == path
        and time.monotonic() - last[1] < SAME_PRESS_S
    ):
        return
    try:
        answer = _demo().post(path).json()
        said = (bool(answer.get("accepted")), str(answer.get("message") or ""))
    except (httpx.HTTPError, ValueError, AttributeError) as error:
        said = (False, f"The demo did not answer: {error}")
    st.session_state["trouble_said"] = said
    st.session_state["trouble_pressed"] = (path, time.monotonic())


def _said(said: tuple[bool, str] | None) -> Html:
    if said is None:
        return el("p", "Press one and watch the page.", class_="what-happens")
    accepted, message = said
    return el("p", el("b", "✔ " if accepted else "✖ "), message, class_="said-line", role="status")


def _log(log: list[dict[str, Any]]) -> Html:
    lines = [
        el("li", el("small", clock_time(int(entry.get("at_ms") or 0), live.zone())), " ", str(entry.get("text") or ""))
        for entry in reversed(log[-12:])
    ]
    return el("ul", *lines, class_="log") if lines else el("p", "", class_="log")
