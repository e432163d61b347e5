"""The dialog of an order for transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.client.order_client import Orderable
from indoubt.app.components import shown_cluster
from indoubt.app.components.markup import Html, el, join
from indoubt.app.components.time_text import ago
from indoubt.app.components.transaction_groups import TransactionGroup
from indoubt.app.dialogs import order_form
from indoubt.app.dialogs.asked_order import AskedOrder
from indoubt.app.dialogs.order_dialog import OrderDialog
from indoubt.app.dialogs.order_text import (
    changes_table,
    how,
    named_by_ids,
    question,
    refusal_text,
    result_line,
    safety_facts,
    steps_table,
    transactions_table,
    what_happens,
)
from indoubt.app.dialogs.overtaken import MOST_KEYS, collectors_time_ms, order_since, order_under_way, said, what_became
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.identity import PREFIX_PATTERN
from indoubt.lifecycle.orders import Action, common_beginning
from indoubt.lifecycle.rows.orders import OrderResult
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.visible_text import visible

Shown = tuple[TransactionRow, ...]
_LAST = "last_order"
MOST_WATCHED = 10
"""So many an open dialog looks at, each second; the collector looks at all of an order's."""


class TransactionsDialog(OrderDialog[Shown]):
    """An order for transactions as they were shown; its result stays on the page until the user dismisses it."""

    key = "order"

    def name(self, target: Shown) -> str:
        """Return ``batch 12 of ip-count``, ``foreign transaction billing-0``, or how many there are."""
        first = target[0]
        if first.managed and first.batch is not None and PREFIX_PATTERN.fullmatch(first.pipeline):
            return f"batch {first.batch} of {first.pipeline}"
        kind = "hanging " if first.is_hanging else "" if first.managed else "foreign "
        if len(target) == 1:
            return f"{kind}transaction {visible(first.transaction)}"
        return counted(len(target), f"{kind}transaction")

    def ordered(self, target: Shown) -> Sequence[Orderable]:
        """Return the transactions."""
        return target

    def go(self, asked: AskedOrder[Shown]) -> str:
        """Return ``Abort 3 transactions``."""
        return f"{asked.action.value.capitalize()} {counted(len(asked.target), 'transaction')}"

    def confirmation_text(self, action: Action, target: Shown) -> str:
        """Return what the operator must type: the id of what an abort loses, the checkpoint that a commit rests on, or nothing."""
        if action is Action.COMMIT:
            return next((shown.commit_confirmation for shown in target if shown.commit_confirmation), "")
        # Of several it is what their ids begin with, as the collector has it.
        return common_beginning([transaction.confirmation_text for transaction in target if transaction.loses_data])

    def is_destructive(self, asked: AskedOrder[Shown]) -> bool:
        """Say whether it loses data: an abort of what no known source can restore."""
        return asked.action is Action.ABORT and any(transaction.loses_data for transaction in asked.target)

    def warning(self, action: Action) -> str:
        """Return the words before the id or the checkpoint."""
        if action is Action.ABORT:
            return "No known source can restore these rows. To abort anyway"
        return order_form.COMMIT_WARNING

    def question(self, asked: AskedOrder[Shown]) -> Html:
        """Return what happens, the time left, the evidence of the verdicts, and folded what is sent for which transactions."""
        is_safe = not self.confirmation_text(asked.action, asked.target)
        return question(
            what_happens(asked.action, asked.target, _waiting(asked.target)),
            TransactionGroup(transactions=asked.target).deadline_ms,
            el("h3", "Why it is safe" if is_safe else "What is known"),
            safety_facts(asked.action, asked.target),
            how=[
                el("p", how(asked.action, asked.target)),
                transactions_table(asked.target),
                named_by_ids(asked.target),
            ],
        )

    def overtaken(self, asked: AskedOrder[Shown]) -> AskedOrder[Shown]:
        """Return the order with who was faster, or what became of its transactions, and which of them changed."""
        keys = [transaction.key for transaction in asked.target]
        if going := order_under_way(keys):
            return replace(asked, overtaken=going)
        looked_at = asked.target[:MOST_WATCHED]
        if not _has_changed(looked_at, _as_they_are_now(looked_at)):
            return asked
        now = _as_they_are_now(asked.target)
        became = what_became(asked.target, now, collectors_time_ms())
        by_order = order_since(keys, asked.shown_at_ms)
        changed = el("details", el("summary", "What changed"), changes_table(asked.target, now))
        return replace(asked, now=now, overtaken=el("div", by_order or became, changed, class_="order"))

    def remark(self, asked: AskedOrder[Shown]) -> Html:
        """Return that the time ran out. The form stays: until the coordinator's next look an order is in time."""
        until_ms = TransactionGroup(transactions=asked.target).deadline_ms
        if until_ms is None or collectors_time_ms() < until_ms:
            return el("span")
        return said(
            el("b", "The time ran out ", ago(until_ms), "."),
            " Kafka is about to abort: an order may still be in time.",
        )

    def checked(self, asked: AskedOrder[Shown], result: OrderResult) -> Html:
        """Return a table of what would be sent."""
        heading = el("h3", f"Dry run: nothing was sent. Audit {result.audit}.")
        return el("div", heading, steps_table(result, asked.target, dry_run=True), class_="order")

    def ended(self, asked: AskedOrder[Shown], result: OrderResult) -> Html:
        """Return how many were ended so, and a table of what was sent."""
        return el("div", result_line(asked.action, self.name(asked.target), result),
                  steps_table(result, asked.target, dry_run=False), class_="order")  # fmt: skip

    def refused(self, asked: AskedOrder[Shown], refusal: CollectorError) -> Html:
        """Return why, and which transactions changed since."""
        heading = "Refused: nothing was done." if refusal.failure is Failure.REFUSED else (
            "The result is unknown." if asked.has_no_answer else "Nothing was done.")  # fmt: skip
        said = refusal_text(refusal, {transaction.key: transaction.transaction for transaction in asked.target})
        return el("div", el("p", el("b", "✖ ", heading), " ", said, class_="warn", role="alert"),
                  join([changes_table(asked.target, asked.now)] if asked.now else []), class_="order")  # fmt: skip

    def answered(self, asked: AskedOrder[Shown]) -> AskedOrder[Shown]:
        """Return an order that was refused with what was shown as it is now."""
        return asked if asked.refusal is None else replace(asked, now=_as_they_are_now(asked.target))

    def more_buttons(self, asked: AskedOrder[Shown]) -> None:
        """Write the button for a new order about what is still there after a refusal."""
        now = tuple(transaction for transaction in asked.now if transaction is not None)
        still = TransactionGroup(transactions=now).orderable(asked.action) if now else ()
        if still and not asked.has_no_answer:
            again, of = f"{self.key}-current-state", (asked.action, still)
            st.button("Use the current state", key=again, type="primary", on_click=self.ask, args=of)

    def put_away(self) -> None:
        """Close the dialog and keep a result for the page."""
        asked = self.asked()
        super().put_away()
        if asked is not None and asked.result is not None:
            st.session_state[shown_cluster.key(_LAST)] = asked

    def show_last_result(self) -> None:
        """Write the result of the last order until the user dismisses it."""
        done: AskedOrder[Shown] | None = st.session_state.get(shown_cluster.key(_LAST))
        if done is None or done.result is None:
            return
        with st.container(key="last-order", horizontal=True, vertical_alignment="center"):
            live.write(result_line(done.action, self.name(done.target), done.result))
            dismiss = "last-order-dismiss"
            st.button(
                "Dismiss",
                key=dismiss,
                type="tertiary",
                on_click=lambda: st.session_state.pop(shown_cluster.key(_LAST), None),
            )


DIALOG = TransactionsDialog()


def _waiting(shown: Shown) -> Sequence[str]:
    """Return the consumer groups that wait behind these, the longest first; none where that cannot be asked."""
    try:
        parts = live.collector().parts([transaction.key for transaction in shown[:MOST_KEYS]])
    except CollectorError:
        return ()
    return [group.group for part in parts[:1] for group in part.waits]


def _has_changed(shown: Shown, now: Sequence[TransactionRow | None]) -> bool:
    pairs = zip(shown, now, strict=False)
    return any(after is None or after.revision != before.revision for before, after in pairs)


def _as_they_are_now(shown: Shown) -> tuple[TransactionRow | None, ...]:
    """Return each transaction as it is, None where it is gone; nothing where that cannot be asked."""
    client, now = live.collector(), list[TransactionRow | None]()
    try:
        if any(transaction.is_hanging for transaction in shown):
            hanging = {transaction.key: transaction for transaction in client.hanging()}
            return tuple(hanging.get(transaction.key) for transaction in shown)
        for transaction in shown:
            try:
                now.append(client.transaction(transaction.key))
            except CollectorError as error:
                if error.failure is not Failure.UNKNOWN_KEY:
                    raise
                now.append(None)
    except CollectorError:
        return ()
    return tuple(now)
