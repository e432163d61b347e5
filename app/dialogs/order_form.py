"""The form of every order: a reason, a confirmation if data would be lost, and buttons; and how the order is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import uuid4

import streamlit as st

from app import live
from app.client.collector_client import CollectorError, Failure
from app.client.collector_rows import Orderable
from app.components.markup import el
from lifecycle.orders import Action
from lifecycle.rows.orders import OrderResult
from lifecycle.visible_text import visible

REASON_CHARACTERS = 3
COMMIT_WARNING = "A commit is right only if the job is then restored from this checkpoint or a later one. If so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An order in its dialog, and its result so far."""

    action: Action
    dry_run_result: OrderResult | None = None
    result: OrderResult | None = None
    refusal: CollectorError | None = None
    complaint: str = ""
    idempotency_key: str = ""
    """Of the last order that was sent; with it the app asks for a result whose answer never came."""

    @property
    def has_no_answer(self) -> bool:
        """True if the order was sent and its answer never came."""
        return self.refusal is not None and self.refusal.failure is Failure.NO_ANSWER_TO_ORDER


AnyAsked = TypeVar("AnyAsked", bound=Asked)


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
        st.text_input("Reason", key=f"{key}-reason", max_chars=500, placeholder="the audit keeps it with your name")
        if confirmation_text:
            live.write(el("p", f"{warning}, type ", el("code", confirmation_text), ".", class_="warn"))
            st.text_input("Confirmation", key=f"{key}-confirm", autocomplete="off")
        if complaint:
            live.write(el("p", el("b", "✖ "), complaint, class_="warn", role="alert"))
        with st.container(horizontal=True, key=f"{key}-{'destructive' if is_destructive else 'buttons'}"):
            st.form_submit_button(go, key=f"{key}-go", type="primary", on_click=give, args=(False,))
            st.form_submit_button("Dry run", key=f"{key}-dry-run", on_click=give, args=(True,))
            st.form_submit_button("Cancel", key=f"{key}-cancel", on_click=cancel)


def filled(key: str, *, confirmation_text: str, dry_run: bool) -> Filled:
    """Return what the operator typed."""
    reason = (st.session_state.get(f"{key}-reason") or "").strip()
    confirm = (st.session_state.get(f"{key}-confirm") or "").strip()
    # An id may contain characters that no keyboard has: the visible text for them counts too.
    if confirmation_text and confirm == visible(confirmation_text).strip():
        confirm = confirmation_text
    complaint = ""
    if len(reason) < REASON_CHARACTERS:
        complaint = f"Give a reason of at least {REASON_CHARACTERS} characters: the audit keeps it with the order."
    elif confirmation_text and confirm != confirmation_text and not dry_run:
        complaint = f"The confirmation is not {visible(confirmation_text)}. Nothing was done."
    return Filled(reason=reason, confirm=confirm, complaint=complaint)


def sent(asked: AnyAsked, shown: Sequence[Orderable], order: Filled, *, dry_run: bool) -> AnyAsked:
    """Send the order; return it with its result."""
    key = "" if dry_run else uuid4().hex
    try:
        result = live.collector().order(
            asked.action, shown, reason=order.reason, dry_run=dry_run, confirm=order.confirm, idempotency_key=key
        )
    except CollectorError as error:
        return replace(asked, refusal=error, idempotency_key=key)
    answer: dict[str, Any] = {"dry_run_result": result} if dry_run else {"result": result}
    return replace(asked, complaint="", **answer)


def ask_again_button(key: str, asked: Asked, ask: Callable[[], None]) -> None:
    """Write the button that asks for the result of an order whose answer never came."""
    if asked.has_no_answer:
        st.button("Ask for the result", key=f"{key}-ask-again", type="primary", on_click=ask)


def asked_again(asked: AnyAsked) -> AnyAsked:
    """Return the order with the result that the collector now has for it. The order is not sent a second time."""
    try:
        result = live.collector().answer(asked.idempotency_key)
    except CollectorError as error:
        if error.failure is Failure.REFUSED:
            return replace(asked, refusal=error)
        return replace(asked, refusal=CollectorError(Failure.NO_ANSWER_TO_ORDER, f"{error}. Ask again"))
    if result is None:
        why = (
            "the collector has no result yet. The order is still running, or it never arrived and nothing was done. "
            "Ask again in a moment, and read Audit before you repeat the order"
        )
        return replace(asked, refusal=CollectorError(Failure.NO_ANSWER_TO_ORDER, why))
    return replace(asked, refusal=None, result=result)
