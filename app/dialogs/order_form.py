"""The form of every order: a reason, what must be typed where something would be lost, its buttons; and how it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import uuid4

import streamlit as st

from app import live
from app.collector_client import CollectorError, Failure
from app.collector_rows import Action, Orderable, OrderResult
from app.markup import el, visible

REASON_CHARACTERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An order being given, and how far it has come."""

    action: Action
    rehearsal: OrderResult | None = None
    result: OrderResult | None = None
    refusal: CollectorError | None = None
    complaint: str = ""
    idempotency_key: str = ""
    """Of the order that was sent last: by it the collector is asked what became of one whose answer never came."""

    @property
    def has_no_answer(self) -> bool:
        """Say whether it was sent and nobody knows what became of it."""
        return self.refusal is not None and self.refusal.failure is Failure.NO_ANSWER_TO_ORDER


AnyAsked = TypeVar("AnyAsked", bound=Asked)


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


def sent(asked: AnyAsked, shown: Sequence[Orderable], order: Filled, *, dry_run: bool) -> AnyAsked:
    """Send the order; return it with what became of it."""
    key = "" if dry_run else uuid4().hex
    try:
        result = live.collector().order(
            asked.action, shown, reason=order.reason, dry_run=dry_run, confirm=order.confirm, idempotency_key=key
        )
    except CollectorError as error:
        return replace(asked, refusal=error, idempotency_key=key)
    said: dict[str, Any] = {"rehearsal": result} if dry_run else {"result": result}
    return replace(asked, complaint="", **said)


def ask_again_button(key: str, asked: Asked, ask: Callable[[], None]) -> None:
    """Write the button that asks what became of an order whose answer never came."""
    if asked.has_no_answer:
        st.button("Ask what became of it", key=f"{key}-ask-again", type="primary", on_click=ask)


def asked_again(asked: AnyAsked) -> AnyAsked:
    """Return an order whose answer never came with what the collector says became of it. Nothing is sent a second time."""
    try:
        result = live.collector().answer(asked.idempotency_key)
    except CollectorError as error:
        if error.failure is Failure.REFUSED:
            return replace(asked, refusal=error)
        return replace(asked, refusal=CollectorError(Failure.NO_ANSWER_TO_ORDER, f"{error}. Ask again"))
    if result is None:
        why = (
            "the collector has no answer to it yet: it is being carried out, or it never arrived, and then nothing was done. "
            "Ask again in a moment, and look at Audit before you give it anew"
        )
        return replace(asked, refusal=CollectorError(Failure.NO_ANSWER_TO_ORDER, why))
    return replace(asked, refusal=None, result=result)
