"""A line for each order that this person gave and has not seen the answer of: a reload of the page loses none."""

from __future__ import annotations

from datetime import UTC

import streamlit as st

from app import live
from app.client import sent_orders
from app.client.collector_client import CollectorError
from app.client.sent_orders import SentOrder
from app.components.markup import Html, el
from app.components.time_text import since
from app.dialogs import order_dialog

KEY = "sent-orders"


def show() -> None:
    """Write the lines; they refresh themselves while one of the orders has no answer."""
    if not _to_show():
        return
    is_followed = any(order.answer is None for order in _to_show())

    @st.fragment(run_every=live.LIVE_EVERY_S if is_followed else None, key=f"{KEY}-lines")
    def lines() -> None:
        now = _to_show()
        if is_followed and not any(order.answer is None for order in now):
            # The page is written once more, and this not again by itself.
            st.rerun()
        with st.container(key=KEY):
            for order in now:
                _line(order)

    lines()


def _to_show() -> list[SentOrder]:
    """Return those that no open dialog of this session shows."""
    return [order for order in sent_orders.SENT.of(live.asking_person()) if not order_dialog.is_shown(order)]


def _line(order: SentOrder) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key=f"{KEY}-{order.idempotency_key[:8]}"):
        with st.container():
            live.write(_said(order))
        if order.answer is not None:
            key = f"{KEY}-dismiss-{order.idempotency_key}"
            st.button("Dismiss", key=key, type="tertiary", on_click=sent_orders.SENT.dismiss, args=(order,))


def _said(order: SentOrder) -> Html:
    what, answer = f"{order.action.value.capitalize()} of {order.subject}", order.answer
    if answer is None:
        return el(
            "p", el("b", "◌ ", what), ": under way for ", since(order.sent_at_ms, UTC), class_="more", role="status"
        )
    if isinstance(answer, CollectorError):
        return el("p", el("b", "✖ ", what), ": ", str(answer), class_="warn", role="alert")
    is_done = answer.outcome == "accepted"
    ends = list(dict.fromkeys(step.outcome for step in answer.steps))
    said = f": {', '.join(ends) or answer.outcome} · audit {answer.audit}"
    tone = "good" if is_done else "urgent"
    return el("p", el("b", "✔ " if is_done else "✖ ", what), said, class_=f"result {tone}", role="status")
