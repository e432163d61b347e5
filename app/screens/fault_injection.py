"""Fault injection: the demo's guided tour, and a button for each of its faults. Only if INDOUBT_FAULT_INJECTION_URL is set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx
import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import Html, el, plain_label
from indoubt.app.components.time_text import clock_time, since
from indoubt.app.components.viewer_choices import TOUR, TOUR_CLOSED, TOUR_OPEN

EVERY_S = 1.5
LIMIT_S = 10.0
SAME_CLICK_S = 1.0
"""A second click within this time after the answer counts as the same click."""
TOUR_STEP = "tour_step"
ORDERS_LOOKED_AT = 20


@st.cache_resource(on_release=lambda client: client.close())
def _demo() -> httpx.Client:
    return httpx.Client(base_url=live.settings().fault_injection_url or "", timeout=LIMIT_S, trust_env=False)


def show() -> None:
    """Write the panel: the faults, what each does, and the log so far."""
    with st.container(key="fault-injection"):
        live.write(el("h3", "Fault injection", el("small", " demo only")))
        try:
            state = _demo().get("/faults").raise_for_status().json()
            faults, log, steps = list(state["faults"]), list(state.get("log") or []), list(state.get("tour") or [])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            live.write(
                el(
                    "div",
                    f"✖ The demo does not answer at {live.settings().fault_injection_url}: {error}",
                    class_="lost",
                )
            )
            return
        _tour(steps)
        # The button is always there: one that comes and goes would move the others away from the pointer.
        waits = bool(state.get("start_pipeline"))
        _button("Start the pipeline again", "/start-pipeline", key="start-pipeline", ready=waits)
        live.write(_waits(state.get("waits")))
        for fault in faults:
            _fault(fault)
        live.write(_answer(st.session_state.get("fault_answer"), log))
        with st.container(key="fault-log"):
            live.write(_log(log))


def _tour(steps: Sequence[dict[str, Any]]) -> None:
    """Write the step at which this session is, with buttons to go on, back and to close, which a browser remembers.

    Nothing where the demo gives no steps.
    """
    if not steps:
        return
    if TOUR.remembered == TOUR_CLOSED:
        st.button("Show the tour", key="tour-open", on_click=_close_tour, args=(False,), type="tertiary")
        return
    at = min(st.session_state.get(TOUR_STEP, 0), len(steps) - 1)
    step = steps[at]
    done_ms = _done_ms(step)
    with st.container(key="tour", border=True):
        live.write(
            el(
                "div",
                el("small", f"Tour · {at + 1} of {len(steps)}"),
                el("h4", str(step.get("title") or "")),
                el("p", str(step.get("text") or "")),
                done_ms is not None
                and el("p", el("b", "✔ Done"), f" at {clock_time(done_ms, live.zone())}", role="status"),
                class_="tour",
            )
        )
        with st.container(horizontal=True):
            st.button("Back", key="tour-back", disabled=at == 0, on_click=_go_to_step, args=(at - 1,))
            st.button("Next", key="tour-next", disabled=at == len(steps) - 1, on_click=_go_to_step, args=(at + 1,),
                      type="primary" if done_ms is not None else "secondary")  # fmt: skip
            st.button("Close", key="tour-close", on_click=_close_tour, args=(True,), type="tertiary")


def _done_ms(step: dict[str, Any]) -> int | None:
    """Return when a step's fault struck, or the order was given that it asks for, or None."""
    order, since_ms = step.get("order"), step.get("since_ms")
    if step.get("done_ms") is not None or order is None or since_ms is None:
        return step.get("done_ms")
    try:
        given = live.collector().audit(limit=ORDERS_LOOKED_AT)
    except CollectorError:
        return None
    fitting = (
        row.at_ms for row in given if row.action == order and row.outcome == "accepted" and row.at_ms >= since_ms
    )
    return min(fitting, default=None)


def _go_to_step(step: int) -> None:
    st.session_state[TOUR_STEP] = step


def _close_tour(closed: bool) -> None:
    TOUR.remember(TOUR_CLOSED if closed else TOUR_OPEN)


def _fault(fault: dict[str, Any]) -> None:
    name = str(fault["name"])
    with st.container(gap=None):
        title, ready = plain_label(fault.get("title") or name), bool(fault.get("ready"))
        _button(title, f"/faults/{quote(name, safe='')}", key=f"fault-{name}", ready=ready)
        live.write(el("p", str(fault.get("what_happens") or ""), class_="what-happens"))


def _button(label: str, path: str, *, key: str, ready: bool) -> None:
    st.button(label, key=key, disabled=not ready, width="stretch", on_click=_press, args=(path,))


def _press(path: str) -> None:
    # Streamlit may deliver a click twice, if the fragment refreshes while the first click is still being answered.
    if (
        (last := st.session_state.get("fault_clicked"))
        and last[0] == path
        and time.monotonic() - last[1] < SAME_CLICK_S
    ):
        return
    try:
        answer = _demo().post(path).json()
        shown = (bool(answer.get("accepted")), str(answer.get("message") or ""))
    except (httpx.HTTPError, ValueError, AttributeError) as error:
        shown = (False, f"The demo did not answer, so the fault may or may not have happened: {error}")
    st.session_state["fault_answer"] = shown
    st.session_state["fault_clicked"] = (path, time.monotonic())


def _waits(waits: dict[str, Any] | None) -> Html:
    """Return why buttons are off, and for how long they have been."""
    if not waits:
        return el("p", "", class_="what-happens", role="status")
    return el(
        "p",
        el("b", "… "),
        str(waits.get("why") or ""),
        " So far ",
        since(int(waits.get("since_ms") or 0)),
        ".",
        class_="what-happens",
        role="status",
    )


def _answer(answer: tuple[bool, str] | None, log: Sequence[dict[str, Any]]) -> Html:
    """Return what became of the press: the newest line of the log, where it was accepted."""
    if answer is None:
        return el("p", "Press a button and watch the page.", class_="what-happens")
    accepted, message = answer
    if accepted and log:
        message = str(log[-1].get("text") or "")
    return el("p", el("b", "✔ " if accepted else "✖ "), message, class_="said-line", role="status")


def _log(log: list[dict[str, Any]]) -> Html:
    lines = [
        el("li", el("small", clock_time(int(entry.get("at_ms") or 0), live.zone())), " ", str(entry.get("text") or ""))
        for entry in reversed(log[-12:])
    ]
    return el("ul", *lines, class_="log") if lines else el("p", "", class_="log")
