"""The switch of the standing orders: one button stops all at once; to start them again takes a reason."""

from __future__ import annotations

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorError
from indoubt.app.components.markup import el
from indoubt.app.dialogs.order_form import REASON_CHARACTERS

KEY = "standing-form"
STOP_REASON = "stopped on page Collector"
_ASKED, _COMPLAINT = "standing_start_asked", "standing_complaint"


def switch_button(*, stopped: bool) -> None:
    """Write the button that stops all of them, or the one that opens the dialog to start them; below it, what went wrong."""
    is_operator = bool(st.session_state.get("is_operator"))
    st.button(
        "Start standing orders …" if stopped else "Stop all standing orders",
        key="standing-start" if stopped else "standing-stop",
        type="secondary" if stopped else "primary",
        disabled=not is_operator,
        help=None if is_operator else "To stop and start standing orders takes an operator.",
        on_click=_ask if stopped else _stop,
    )
    complaint = st.session_state.get(_COMPLAINT, "")
    if complaint:
        live.write(el("p", el("b", "✖ "), complaint, class_="warn", role="alert"))


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    if st.session_state.get(_ASKED):
        st.dialog("Start standing orders?", width="large", on_dismiss=_put_away)(_body)()


def _ask() -> None:
    st.session_state[_ASKED] = True
    st.session_state["show_dialog"] = True
    st.session_state.pop(_COMPLAINT, None)


def _put_away() -> None:
    st.session_state.pop(_ASKED, None)
    st.session_state.pop(_COMPLAINT, None)


def _body() -> None:
    with st.form(KEY, border=False, enter_to_submit=False):
        live.write(el("p", "The collector then commits and aborts by its file again, without a person."))
        st.text_input("Reason", key=f"{KEY}-reason", max_chars=500, placeholder="the audit shows it with your name")
        complaint = st.session_state.get(_COMPLAINT, "")
        if complaint:
            live.write(el("p", el("b", "✖ "), complaint, class_="warn", role="alert"))
        with st.container(horizontal=True):
            st.form_submit_button("Start", key=f"{KEY}-go", type="primary", on_click=_start)
            st.form_submit_button("Cancel", key=f"{KEY}-cancel", on_click=_put_away)


def _stop() -> None:
    _switch(stopped=True, reason=STOP_REASON)


def _start() -> None:
    reason = (st.session_state.get(f"{KEY}-reason") or "").strip()
    if len(reason) < REASON_CHARACTERS:
        st.session_state[_COMPLAINT] = f"Give a reason of at least {REASON_CHARACTERS} characters."
        return
    _switch(stopped=False, reason=reason)


def _switch(*, stopped: bool, reason: str) -> None:
    try:
        live.collector().switch_standing_orders(stopped=stopped, reason=reason)
    except CollectorError as error:
        # A stop that could not be written down holds all the same: the table shows it.
        st.session_state[_COMPLAINT] = str(error)
    else:
        _put_away()
