"""A line for each order that this person gave and has not seen the end of: a reload of the page loses none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import since
from indoubt.app.dialogs.filter_order_text import in_one_line
from indoubt.lifecycle.rows.orders import OrderRun

KEY = "sent-orders"
_SHOWN = "run_shown"
LISTED_S = 3600.0
"""So long the collector lists a run that is over."""
_dismissed: dict[str, float] = {}
"""Runs whose end was seen in this process, and when: as long as the collector may list them."""


def show_in_dialog(run: OrderRun) -> None:
    """Note that the open dialog of this session shows a run: it needs no line."""
    st.session_state[_SHOWN] = run.run


def put_away() -> None:
    """The dialog is closed: what is under way has a line on the pages from now on."""
    st.session_state.pop(_SHOWN, None)


def dismiss(run: OrderRun) -> None:
    """Show a run no more, whose end was seen."""
    now_s = time.monotonic()
    for old in [number for number, seen_s in tuple(_dismissed.items()) if now_s - seen_s > LISTED_S]:
        _dismissed.pop(old, None)
    _dismissed[run.run] = now_s


def show(open_again: Callable[[OrderRun], None]) -> None:
    """Write a line for each order, on every page; they refresh themselves while one of the orders goes on.

    ``open_again`` opens the dialog of an order by filter.
    """

    def to_show() -> Sequence[OrderRun]:
        try:
            runs = live.collector().runs()
        except CollectorError:
            # The top of the page says so.
            return []
        return [run for run in runs if run.run not in _dismissed and run.run != st.session_state.get(_SHOWN)]

    if not (first := to_show()):
        return
    is_followed = any(not run.is_over for run in first) and _SHOWN not in st.session_state
    of_page = [first]

    @st.fragment(run_every=live.LIVE_EVERY_S if is_followed else None, key=f"{KEY}-lines")
    def lines() -> None:
        # The page has just asked; each run after that asks anew.
        now = of_page.pop() if of_page else to_show()
        if now:
            with st.container(key=KEY):
                for run in now:
                    _line(run, open_again)
        if is_followed and all(run.is_over for run in now):
            # The page is written once more, and this not again by itself.
            st.rerun()

    lines()


def _line(run: OrderRun, open_again: Callable[[OrderRun], None]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key=f"{KEY}-{run.run}"):
        with st.container():
            live.write(in_one_line(run) if run.filter else _in_one_line(run))
        if run.filter and st.button("Open", key=f"{KEY}-open-{run.run}"):
            open_again(run)
            # A dialog is opened by the page, not by a part of it.
            st.rerun()
        if run.is_over:
            name = f"{KEY}-dismiss-{run.run}"
            st.button("Dismiss", key=name, type="tertiary", on_click=dismiss, args=(run,))


def _in_one_line(run: OrderRun) -> Html:
    what = f"{run.action.value.capitalize()} of {run.what}"
    if not run.is_over:
        return el("p", el("b", "◌ ", what), ": under way for ", since(run.begun_at_ms), class_="more", role="status")
    if run.halted:
        return el("p", el("b", "✖ ", what), ": ", run.halted, class_="warn", role="alert")
    is_done = run.outcome == "accepted"
    audit = f" · audit {run.audits[0]}" if run.audits else ""
    said = f": {', '.join(run.outcomes) or run.outcome}{audit}"
    tone = "good" if is_done else "urgent"
    return el("p", el("b", "✔ " if is_done else "✖ ", what), said, class_=f"result {tone}", role="status")
