"""The form of every order: a reason, what must be typed where something would be lost, and its buttons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from app import live
from app.markup import el, visible

REASON_CHARACTERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What was typed, and what is wrong with it; an empty complaint: the order may be given."""

    reason: str
    confirm: str
    complaint: str


def show(
    key: str,
    *,
    go: str,
    warning: str,
    to_type: str,
    complaint: str,
    give: Callable[[bool], None],
    cancel: Callable[[], None],
) -> None:
    """Write the form; its widgets' keys begin with ``key``, and ``give`` is called with whether it is a dry run."""
    with st.form(f"{key}-form", border=False, enter_to_submit=False):
        st.text_input("Reason", key=f"{key}-reason", max_chars=500, placeholder="goes to the audit, with your name")
        if to_type:
            live.write(el("p", f"{warning}, type ", el("code", to_type), ".", class_="warn"))
            st.text_input("To confirm", key=f"{key}-confirm", autocomplete="off")
        if complaint:
            live.write(el("p", el("b", "✖ "), complaint, class_="warn", role="alert"))
        with st.container(horizontal=True):
            st.form_submit_button(go, key=f"{key}-go", type="primary", on_click=give, args=(False,))
            st.form_submit_button("Dry run", key=f"{key}-dry-run", on_click=give, args=(True,))
            st.form_submit_button("Cancel", key=f"{key}-cancel", on_click=cancel)


def filled(key: str, *, to_type: str, dry_run: bool) -> Filled:
    """Return what stands in the form."""
    reason = (st.session_state.get(f"{key}-reason") or "").strip()
    confirm = (st.session_state.get(f"{key}-confirm") or "").strip()
    # An id may hold signs that nobody can type: what is drawn for them counts.
    if to_type and confirm == visible(to_type).strip():
        confirm = to_type
    complaint = ""
    if len(reason) < REASON_CHARACTERS:
        complaint = f"Give a reason of at least {REASON_CHARACTERS} characters: it is kept with the order in the audit."
    elif to_type and confirm != to_type and not dry_run:
        complaint = f"{visible(to_type)} was not typed as it is shown. Nothing was done."
    return Filled(reason=reason, confirm=confirm, complaint=complaint)
