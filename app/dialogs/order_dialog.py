"""The dialog of an order for transactions: what will happen, why it is safe, a reason, and the result.

It uses the transactions as they were shown when the button was pressed. The session keeps them. A later refresh of the page
may reorder or end them, but it changes neither what the dialog names nor what it sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from app import live
from app.client.collector_client import CollectorError, Failure
from app.components.markup import el, join, plain_label
from app.components.presses import DESTRUCTIVE
from app.components.transaction_groups import TransactionGroup
from app.dialogs import order_form
from app.dialogs.order_text import (
    changes_table,
    refusal_text,
    result_line,
    safety_facts,
    steps_table,
    transactions_table,
    what_will_happen,
)
from lifecycle.counted_nouns import counted
from lifecycle.identity import PREFIX_PATTERN
from lifecycle.orders import Action, common_beginning
from lifecycle.rows.orders import OrderResult
from lifecycle.rows.transactions import TransactionRow
from lifecycle.visible_text import visible

KEY = "order"
_ORDER, _LAST = "order", "last_order"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOrder(order_form.Asked):
    """An order for transactions as they were shown; ``now``: the same transactions after the order was refused."""

    shown: tuple[TransactionRow, ...]
    now: tuple[TransactionRow | None, ...] = ()

    @property
    def subject(self) -> str:
        """Return ``batch 12 of ip-count``, ``foreign transaction billing-0``, or how many there are."""
        first = self.shown[0]
        if first.ours and first.batch is not None and PREFIX_PATTERN.fullmatch(first.pipeline):
            return f"batch {first.batch} of {first.pipeline}"
        kind = "hanging " if first.is_hanging else "" if first.ours else "foreign "
        if len(self.shown) == 1:
            return f"{kind}transaction {visible(first.transaction)}"
        return counted(len(self.shown), f"{kind}transaction")

    @property
    def confirmation_text(self) -> str:
        """Return what the operator must type: the id of what an abort loses, the checkpoint that a commit rests on, or nothing."""
        if self.action is Action.COMMIT:
            return next((shown.commit_confirmation for shown in self.shown if shown.commit_confirmation), "")
        # Of several it is what their ids begin with, as the collector has it.
        return common_beginning([transaction.confirmation_text for transaction in self.shown if transaction.loses_data])


def ask(action: Action, shown: tuple[TransactionRow, ...]) -> None:
    """Open the dialog on these transactions as they were shown."""
    st.session_state[_ORDER] = AskedOrder(action=action, shown=shown)
    st.session_state["show_dialog"] = True


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    st.session_state.pop("show_dialog", None)
    asked = st.session_state.get(_ORDER)
    if asked is None:
        return
    title = f"{asked.action.value.capitalize()} {plain_label(asked.subject)}?"
    st.dialog(title, width="large", on_dismiss=_put_away)(_body)()


def show_last_result() -> None:
    """Write the result of the last order until the user dismisses it."""
    done = st.session_state.get(_LAST)
    if done is None:
        return
    with st.container(key="last-order", horizontal=True, vertical_alignment="center"):
        live.write(result_line(done.action, done.subject, done.result))
        st.button("Dismiss", key="last-order-dismiss", type="tertiary", on_click=lambda: st.session_state.pop(_LAST))


def _put_away() -> None:
    order_form.put_away()
    asked = st.session_state.pop(_ORDER, None)
    if asked is not None and asked.result is not None:
        st.session_state[_LAST] = asked


def _body() -> None:
    asked: AskedOrder | None = st.session_state.get(_ORDER)
    if asked is None:
        st.rerun()
    if asked.under_way is not None:
        st.session_state[_ORDER] = asked = _answered(asked)
    if asked.under_way is not None:
        order_form.show_under_way(KEY, asked.under_way)
    elif asked.result is not None:
        _show_result(asked, asked.result)
    elif asked.refusal is not None:
        _show_refusal(asked, asked.refusal)
    else:
        _show_question(asked)


def _show_question(asked: AskedOrder) -> None:
    zone = live.zone()
    live.write(el("div", el("h3", "What will happen"), el("p", what_will_happen(asked.action, asked.shown)),
                  transactions_table(asked.shown, zone),
                  el("h3", "Why it is safe" if not asked.confirmation_text else "What is known"),
                  safety_facts(asked.action, asked.shown, zone), class_="order"))  # fmt: skip
    if asked.dry_run_result is not None:
        with st.container(key="order-dry-result"):
            heading = f"Dry run: nothing was sent. Audit {asked.dry_run_result.audit}."
            live.write(
                el(
                    "div",
                    el("h3", heading),
                    steps_table(asked.dry_run_result, asked.shown, dry_run=True),
                    class_="order",
                )
            )
    order_form.show(
        KEY,
        go=f"{asked.action.value.capitalize()} {counted(len(asked.shown), 'transaction')}",
        warning="No known source can restore these rows. To abort anyway"
        if asked.action is Action.ABORT
        else order_form.COMMIT_WARNING,
        confirmation_text=asked.confirmation_text,
        complaint=asked.complaint,
        is_destructive=asked.action in DESTRUCTIVE,
        give=partial(_give, asked),
        cancel=_put_away,
    )


def _give(asked: AskedOrder, dry_run: bool) -> None:
    """Give the order that was shown, once; its result replaces it in the session."""
    if st.session_state.get(_ORDER) is not asked:
        return
    order = order_form.filled(KEY, confirmation_text=asked.confirmation_text, dry_run=dry_run)
    if order.complaint:
        st.session_state[_ORDER] = replace(asked, complaint=order.complaint)
        return
    sent = order_form.sent(asked, asked.subject, asked.shown, order, dry_run=dry_run)
    st.session_state[_ORDER] = _answered(sent)


def _answered(sent: AskedOrder) -> AskedOrder:
    """Return the order with its answer, once that is there; with what was shown as it is now, where it was refused."""
    asked = order_form.answered(sent)
    return replace(asked, now=_as_they_are_now(asked.shown)) if asked.refusal is not None else asked


def _ask_again(asked: AskedOrder) -> None:
    st.session_state[_ORDER] = order_form.asked_again(asked)


def _as_they_are_now(shown: tuple[TransactionRow, ...]) -> tuple[TransactionRow | None, ...]:
    if any(transaction.is_hanging for transaction in shown):
        return _hanging_now(shown)
    now: list[TransactionRow | None] = []
    for transaction in shown:
        try:
            now.append(live.collector().transaction(transaction.key))
        except CollectorError as error:
            if error.failure is not Failure.UNKNOWN_KEY:
                return ()
            now.append(None)
    return tuple(now)


def _hanging_now(shown: tuple[TransactionRow, ...]) -> tuple[TransactionRow | None, ...]:
    try:
        now = {transaction.key: transaction for transaction in live.collector().hanging()}
    except CollectorError:
        return ()
    return tuple(now.get(transaction.key) for transaction in shown)


def _show_result(asked: AskedOrder, result: OrderResult) -> None:
    with st.container(key="order-result"):
        live.write(el("div", result_line(asked.action, asked.subject, result),
                      steps_table(result, asked.shown, dry_run=False), class_="order"))  # fmt: skip
    st.button("Close", key="order-close", type="primary", on_click=_put_away)
    order_form.write_over()


def _show_refusal(asked: AskedOrder, refusal: CollectorError) -> None:
    nothing_done = not asked.has_no_answer
    heading = "Refused: nothing was done." if refusal.failure is Failure.REFUSED else (
        "Nothing was done." if nothing_done else "The result is unknown.")  # fmt: skip
    said = refusal_text(refusal, {transaction.key: transaction.transaction for transaction in asked.shown})
    with st.container(key="order-refused"):
        live.write(el("div", el("p", el("b", "✖ ", heading), " ", said, class_="warn", role="alert"),
                      join([changes_table(asked.shown, asked.now)] if asked.now else []), class_="order"))  # fmt: skip
    with st.container(horizontal=True):
        order_form.ask_again_button(KEY, asked, partial(_ask_again, asked))
        now = tuple(transaction for transaction in asked.now if transaction is not None)
        still = TransactionGroup(transactions=now).orderable(asked.action) if now else ()
        if still and nothing_done:
            st.button(
                "Use the current state",
                key="order-current-state",
                type="primary",
                on_click=ask,
                args=(asked.action, still),
            )
        st.button("Close", key="order-close", on_click=_put_away)
    order_form.write_over()
