"""The dialog of an order: what will happen, why it is safe, a reason, and the result; each kind of order is a class of its own.

It uses what was shown when the button was clicked. The session keeps it. A later refresh of the page may reorder or end it, but
changes neither what the dialog names nor what it sends; the collector refuses the order if it has changed.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Generic
from uuid import uuid4

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.client.order_client import Orderable
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import since
from indoubt.app.dialogs import order_form, run_lines
from indoubt.app.dialogs.asked_order import AskedOrder, Target
from indoubt.app.dialogs.dialog import Dialog
from indoubt.app.dialogs.order_form import Filled
from indoubt.app.dialogs.overtaken import collectors_time_ms
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.orders import OrderResult, OrderRun

MOMENT_S, LOOK_S = 0.3, 0.5
"""How long an order is waited for before the dialog says that it is under way, and how often it then looks."""
WATCH_S, STAYS_S = 1.0, 2.0
"""How often an open dialog looks whether what it shows has changed, and how long its form then stays."""


class OrderDialog(Dialog[AskedOrder[Target]], Generic[Target]):
    """Its widgets' keys: ``<key>-reason``, ``<key>-confirm``, ``<key>-go``, ``<key>-dry-run``, ``<key>-cancel``,
    ``<key>-close``, ``<key>-result``, ``<key>-refused``."""

    @abstractmethod
    def name(self, target: Target) -> str:
        """Return what the order is about, in words."""

    @abstractmethod
    def ordered(self, target: Target) -> Sequence[Orderable]:
        """Return what is ordered."""

    @abstractmethod
    def question(self, asked: AskedOrder[Target]) -> Html:
        """Return what will happen, and what is known."""

    @abstractmethod
    def checked(self, asked: AskedOrder[Target], result: OrderResult) -> Html:
        """Return what a dry run would send."""

    @abstractmethod
    def ended(self, asked: AskedOrder[Target], result: OrderResult) -> Html:
        """Return what became of the order."""

    @abstractmethod
    def refused(self, asked: AskedOrder[Target], refusal: CollectorError) -> Html:
        """Return why nothing was done, or that it is not known."""

    @abstractmethod
    def overtaken(self, asked: AskedOrder[Target]) -> AskedOrder[Target]:
        """Return the order with what became of what was shown, once it has changed. Raises CollectorError."""

    def go(self, asked: AskedOrder[Target]) -> str:
        """Return what stands on the button that gives the order."""
        return asked.action.value.capitalize()

    def confirmation_text(self, action: Action, target: Target) -> str:
        """Return what the operator must type; empty: nothing."""
        return ""

    def is_destructive(self, asked: AskedOrder[Target]) -> bool:
        """Say whether the button that gives the order is red."""
        return False

    def warning(self, action: Action) -> str:
        """Return the words before what must be typed."""
        return ""

    def remark(self, asked: AskedOrder[Target]) -> Html:
        """Return what is to be said above the form while what was shown has not changed."""
        return el("span")

    def answered(self, asked: AskedOrder[Target]) -> AskedOrder[Target]:
        """Return an order whose answer has just come."""
        return asked

    def more_buttons(self, asked: AskedOrder[Target]) -> None:
        """Write buttons beside that which closes the dialog on a result."""

    def ask(self, action: Action, target: Target) -> None:
        """Open the dialog on this as it was shown."""
        self.open(AskedOrder(action=action, target=target, shown_at_ms=collectors_time_ms()))

    def put_away(self) -> None:
        """Close the dialog; what is under way has a line on the pages from now on."""
        run_lines.put_away()
        super().put_away()

    def title(self, asked: AskedOrder[Target]) -> str:
        """Return ``Commit batch 12 of ip-count?``."""
        return f"{asked.action.value.capitalize()} {self.name(asked.target)}?"

    def body(self, asked: AskedOrder[Target]) -> None:
        """Write the question, or how far its answer is."""
        asked = self._with_answer(asked)
        self.keep(asked)
        if asked.under_way is not None:
            self._show_under_way(asked.under_way)
        elif asked.refusal is not None:
            self._show_end(asked, "refused", self.refused(asked, asked.refusal))
        elif asked.result is not None:
            self._show_end(asked, "result", self.ended(asked, asked.result))
        elif asked.overtaken is not None:
            self._show_end(asked, "overtaken", asked.overtaken)
        else:
            self._show_question(asked)

    def _show_question(self, asked: AskedOrder[Target]) -> None:
        self._watch(asked)
        live.write(self.question(asked))
        if asked.dry_run_result is not None:
            with st.container(key=f"{self.key}-dry-result"):
                live.write(self.checked(asked, asked.dry_run_result))
        order_form.show(
            self.key,
            go=self.go(asked),
            warning=self.warning(asked.action),
            confirmation_text=self.confirmation_text(asked.action, asked.target),
            complaint=asked.complaint,
            is_destructive=self.is_destructive(asked),
            give=partial(self._give, asked),
            cancel=self.put_away,
        )

    def _watch(self, asked: AskedOrder[Target]) -> None:
        """Say it once what was shown has changed, and soon replace the form: the collector would refuse the order.

        Not at once: the button stays under the finger that is about to press it.
        """
        changed_s: float | None = None

        @st.fragment(run_every=WATCH_S, key=f"{self.key}-watched")
        def watch() -> None:
            nonlocal changed_s
            try:
                now = self.overtaken(asked)
            except CollectorError:
                # The top of the page says so.
                now = asked
            if now.overtaken is None:
                changed_s = None
                live.write(self.remark(asked))
                return
            changed_s = changed_s or time.monotonic()
            if time.monotonic() - changed_s < STAYS_S or self.asked() is not asked:
                live.write(now.overtaken)
                return
            self.keep(now)
            st.rerun()

        watch()

    def _show_end(self, asked: AskedOrder[Target], how: str, said: Html) -> None:
        with st.container(key=f"{self.key}-{how}"):
            live.write(said)
        with st.container(horizontal=True):
            if asked.has_no_answer:
                again = f"{self.key}-ask-again"
                st.button("Ask for the result", key=again, type="primary", on_click=self._ask_again, args=(asked,))
            self.more_buttons(asked)
            st.button("Close", key=f"{self.key}-close", on_click=self.put_away)
        order_form.write_over()

    def _show_under_way(self, run: OrderRun) -> None:
        """Write that the order is under way, until it is over. Nothing waits for it here: the dialog can be closed."""

        @st.fragment(run_every=LOOK_S, key=f"{self.key}-under-way-watched")
        def watch() -> None:
            if _as_it_is_now(run).is_over:
                # The dialog shows the result; this is not written again.
                st.rerun()
            with st.container(key=f"{self.key}-under-way"):
                going = el("b", "◌ Under way"), " for ", since(run.begun_at_ms)
                live.write(el("p", *going, class_="result", role="status"))
                live.write(el("p", "Closing this hides it: each page has a line with its result.", class_="more"))

        watch()
        order_form.write_over()

    def _give(self, asked: AskedOrder[Target], dry_run: bool) -> None:
        """Give the order that was shown, once; its result replaces it in the session."""
        if self.asked() is not asked:
            return
        confirmation_text = self.confirmation_text(asked.action, asked.target)
        filled = order_form.filled(self.key, confirmation_text=confirmation_text, dry_run=dry_run)
        if filled.complaint:
            self.keep(replace(asked, complaint=filled.complaint))
        elif dry_run:
            self.keep(self._dry_run(replace(asked, complaint=""), filled))
        else:
            self.keep(self._sent(replace(asked, complaint=""), filled))

    def _dry_run(self, asked: AskedOrder[Target], filled: Filled) -> AskedOrder[Target]:
        shown = self.ordered(asked.target)
        try:
            result = live.collector().check(asked.action, shown, reason=filled.reason, confirm=filled.confirm)
        except CollectorError as error:
            return self.answered(replace(asked, refusal=error))
        return replace(asked, dry_run_result=result)

    def _sent(self, asked: AskedOrder[Target], filled: Filled) -> AskedOrder[Target]:
        """Have the collector carry the order out; return it with its result, or under way where that takes longer."""
        asked = replace(asked, idempotency_key=uuid4().hex)
        try:
            run = live.collector().begin_run(
                asked.action,
                self.ordered(asked.target),
                subject=self.name(asked.target),
                reason=filled.reason,
                confirm=filled.confirm,
                idempotency_key=asked.idempotency_key,
            )
        except CollectorError as error:
            return self.answered(replace(asked, refusal=error))
        run_lines.show_in_dialog(run)
        waited_until_s = time.monotonic() + MOMENT_S
        while not (run := _as_it_is_now(run)).is_over and time.monotonic() < waited_until_s:
            time.sleep(LOOK_S / 10)
        return self._with_answer(replace(asked, under_way=run))

    def _with_answer(self, asked: AskedOrder[Target]) -> AskedOrder[Target]:
        """Return the order with its answer, once that is there."""
        if asked.under_way is None or not (run := _as_it_is_now(asked.under_way)).is_over:
            return asked
        live.collector().forget()
        run_lines.dismiss(run)
        if run.halted:
            failure = {"refused": Failure.REFUSED, "pending": Failure.NO_ANSWER_TO_ORDER}.get(run.outcome)
            failure = failure or Failure.UNEXPECTED
            return self.answered(replace(asked, under_way=None, refusal=CollectorError(failure, run.halted)))
        result = OrderResult(audit=run.audits[0], outcome=run.outcome, took_ms=run.took_ms, steps=run.steps)
        return self.answered(replace(asked, under_way=None, result=result))

    def _ask_again(self, asked: AskedOrder[Target]) -> None:
        """Keep the order with the result that the collector now has for it. The order is not sent a second time."""
        try:
            result = live.collector().answer(asked.idempotency_key)
        except CollectorError as error:
            if error.failure is not Failure.REFUSED:
                error = CollectorError(Failure.NO_ANSWER_TO_ORDER, f"{error}. Ask again")
            self.keep(replace(asked, refusal=error))
            return
        if result is None:
            why = (
                "the collector has no result yet. The order is still running, or it never arrived and nothing was done. "
                "Ask again in a moment, and read Audit before you repeat the order"
            )
            self.keep(replace(asked, refusal=CollectorError(Failure.NO_ANSWER_TO_ORDER, why)))
        else:
            self.keep(replace(asked, refusal=None, result=result))


def _as_it_is_now(run: OrderRun) -> OrderRun:
    """Return how far a run is, or as it was where the collector does not say so."""
    try:
        return live.collector().run(run.run, steps=True)
    except CollectorError:
        return run
