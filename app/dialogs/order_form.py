"""The form of every order: a reason, a confirmation if data would be lost, and buttons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from indoubt.app import live
from indoubt.app.components.markup import el
from indoubt.lifecycle.rows.order_request import MIN_REASON
from indoubt.lifecycle.visible_text import visible

COMMIT_WARNING = "A commit is right only if the job is then restored from this checkpoint or a later one. If so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What the operator typed, and what is wrong with it; without a complaint the order may be sent."""

    reason: str
    confirm: str
    complaint: str


def write_over() -> None:
    """Write nothing where the form may stand: behind the result of an order and its button. So the form goes with the result.

    Streamlit removes what a run did not write only when the run has ended in peace, and another run may come between.
    """
    live.write(el("span"))


def write_reason(key: str, placeholder: str = "the audit keeps it with your name") -> None:
    """Write the field for a reason, inside of a form; it has the focus when its dialog opens (static/dialogs.js)."""
    st.text_input("Reason", key=f"{key}-reason", max_chars=500, placeholder=placeholder)


def write_complaint(complaint: str) -> None:
    """Write what is wrong with what was filled in; nothing where nothing is."""
    if complaint:
        live.write(el("p", el("b", "✖ "), complaint, class_="warn", role="alert"))


def show(
    key: str,
    *,
    go: str,
    warning: str,
    confirmation_text: str,
    complaint: str,
    is_destructive: bool,
    give: Callable[[bool], None],
    cancel: Callable[[], None],
) -> None:
    """Write the form; its widgets' keys begin with ``key``, and ``give`` gets True for a dry run.

    The button of a destructive order is red.
    """
    with st.form(f"{key}-form", border=False, enter_to_submit=False):
        write_reason(key)
        if confirmation_text:
            live.write(el("p", f"{warning}, type ", el("code", confirmation_text), ".", class_="warn"))
            st.text_input("Confirmation", key=f"{key}-confirm", autocomplete="off")
        write_complaint(complaint)
        with st.container(horizontal=True, key=f"{key}-{'destructive' if is_destructive else 'buttons'}"):
            st.form_submit_button(go, key=f"{key}-go", type="primary", on_click=give, args=(False,))
            st.form_submit_button("Dry run", key=f"{key}-dry-run", on_click=give, args=(True,))
            st.form_submit_button("Cancel", key=f"{key}-cancel", on_click=cancel)


def filled(key: str, *, confirmation_text: str = "", dry_run: bool = False) -> Filled:
    """Return what the operator typed."""
    reason = (st.session_state.get(f"{key}-reason") or "").strip()
    confirm = (st.session_state.get(f"{key}-confirm") or "").strip()
    # An id may contain characters that no keyboard has: the visible text for them counts too.
    if confirmation_text and confirm == visible(confirmation_text).strip():
        confirm = confirmation_text
    complaint = ""
    if len(reason) < MIN_REASON:
        complaint = f"Give a reason of at least {MIN_REASON} characters: the audit keeps it with the order."
    elif confirmation_text and confirm != confirmation_text and not dry_run:
        complaint = f"The confirmation is not {visible(confirmation_text)}. Nothing was done."
    return Filled(reason=reason, confirm=confirm, complaint=complaint)
