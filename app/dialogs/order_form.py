"""The form of every order: a reason, a confirmation if data would be lost, and buttons; and how the order is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TypeVar

import streamlit as st

from app import live
from app.client import sent_orders
from app.client.collector_client import CollectorError, Failure
from app.client.collector_rows import Orderable
from app.client.sent_orders import SentOrder
from app.components.markup import el
from app.components.time_text import since
from lifecycle.orders import Action
from lifecycle.rows.orders import OrderResult
from lifecycle.visible_text import visible

REASON_CHARACTERS = 3
MOMENT_S, LOOK_S = 0.3, 0.5
"""How long an order is waited for before the dialog says that it is under way, and how often it then looks."""
_SHOWN = "sent_order_shown"
COMMIT_WARNING = "A commit is right only if the job is then restored from this checkpoint or a later one. If so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An order in its dialog, and its result so far."""

    action: Action
    dry_run_result: OrderResult | None = None
    result: OrderResult | None = None
    refusal: CollectorError | None = None
    under_way: SentOrder | None = None
    """The order itself, until its answer is here."""
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


def sent(asked: AnyAsked, subject: str, shown: Sequence[Orderable], order: Filled, *, dry_run: bool) -> AnyAsked:
    """Send the order; return it with its result, or under way where that takes longer than a moment.

    ``subject``: what it is about, in words.
    """
    if dry_run:
        try:
            result = live.collector().order(
                asked.action, shown, reason=order.reason, dry_run=True, confirm=order.confirm
            )
        except CollectorError as error:
            return replace(asked, refusal=error)
        return replace(asked, complaint="", dry_run_result=result)
    sent_now = SentOrder(
        action=asked.action,
        subject=subject,
        shown=shown,
        reason=order.reason,
        confirm=order.confirm,
        person=live.asking_person(),
    )
    sent_orders.SENT.send(sent_now, live.settings())
    st.session_state[_SHOWN] = sent_now
    sent_now.wait(MOMENT_S)
    return answered(replace(asked, complaint="", under_way=sent_now, idempotency_key=sent_now.idempotency_key))


def answered(asked: AnyAsked) -> AnyAsked:
    """Return the order with its answer, once that is there."""
    order = asked.under_way
    if order is None or order.answer is None:
        return asked
    live.collector().forget()
    sent_orders.SENT.dismiss(order)
    if isinstance(order.answer, CollectorError):
        return replace(asked, under_way=None, refusal=order.answer)
    return replace(asked, under_way=None, result=order.answer)


def show_under_way(key: str, order: SentOrder) -> None:
    """Write that the order is under way, until it is answered. Nothing waits for it here: the dialog can be closed."""

    @st.fragment(run_every=LOOK_S, key=f"{key}-under-way-watched")
    def watch() -> None:
        if order.answer is not None:
            # The dialog shows the result; this is not written again.
            st.rerun()
        with st.container(key=f"{key}-under-way"):
            said = el(
                "p", el("b", "◌ Under way"), " for ", since(order.sent_at_ms, UTC), class_="result", role="status"
            )
            live.write(said)
            live.write(el("p", "Closing this hides it: each page has a line with its result.", class_="more"))

    watch()
    write_over()


def is_shown(order: SentOrder) -> bool:
    """Say whether the open dialog of this session shows an order."""
    return st.session_state.get(_SHOWN) is order


def put_away() -> None:
    """The dialog is closed: what is under way has a line on the pages from now on."""
    st.session_state.pop(_SHOWN, None)


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
