"""The switch of the standing orders: one button stops all at once; to start them again takes a reason."""

from __future__ import annotations

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import el
from indoubt.app.dialogs import order_form
from indoubt.app.dialogs.dialog import Dialog

KEY = "standing-form"
STOP_REASON = "stopped on page Collector"
_NOT_STOPPED = "standing_complaint"


class StandingOrdersDialog(Dialog[str]):
    """Starts them again; what is asked is what was wrong with the last try, empty before the first."""

    key = KEY

    def switch_button(self, *, stopped: bool) -> None:
        """Write the button that stops all of them, or the one that opens the dialog to start them; below it, what went wrong."""
        is_operator = bool(st.session_state.get("is_operator"))
        st.button(
            "Start standing orders …" if stopped else "Stop all standing orders",
            key="standing-start" if stopped else "standing-stop",
            type="secondary" if stopped else "primary",
            disabled=not is_operator,
            help=None if is_operator else "To stop and start standing orders takes an operator.",
            on_click=self.open if stopped else self._stop,
            args=("",) if stopped else (),
        )
        order_form.write_complaint(st.session_state.get(_NOT_STOPPED, ""))

    def title(self, asked: str) -> str:
        """Return the question."""
        return "Start standing orders?"

    def body(self, asked: str) -> None:
        """Write what that means, and the form."""
        with st.form(self.key, border=False, enter_to_submit=False):
            live.write(el("p", "The collector then commits and aborts by its file again, without a person."))
            order_form.write_reason(self.key, "the audit shows it with your name")
            order_form.write_complaint(asked)
            with st.container(horizontal=True):
                st.form_submit_button("Start", key=f"{KEY}-go", type="primary", on_click=self._start)
                st.form_submit_button("Cancel", key=f"{KEY}-cancel", on_click=self.put_away)

    def _stop(self) -> None:
        st.session_state[_NOT_STOPPED] = _switched(stopped=True, reason=STOP_REASON)

    def _start(self) -> None:
        filled = order_form.filled(self.key)
        complaint = filled.complaint or _switched(stopped=False, reason=filled.reason)
        if complaint:
            self.keep(complaint)
        else:
            self.put_away()


def _switched(*, stopped: bool, reason: str) -> str:
    """Switch them; return what is wrong, or an empty text. A stop that could not be written down holds all the same."""
    try:
        live.collector().switch_standing_orders(stopped=stopped, reason=reason)
    except CollectorError as error:
        return str(error)
    return ""


DIALOG = StandingOrdersDialog()
