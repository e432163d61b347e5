"""The dialog of an order by filter: everything that the collector finds for it, however many, ordered in parts.

The collector says what a filter means when the dialog opens, and the dialog keeps it. It carries out what was shown as a run of its
own, and checks each transaction again in its turn: what changed since is refused alone. The dialog only watches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import el
from indoubt.app.dialogs import order_form, run_lines
from indoubt.app.dialogs.dialog import Dialog
from indoubt.app.dialogs.filter_order_text import how_far, in_condition, known, result
from indoubt.app.dialogs.order_text import DONE, question
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import in_words
from indoubt.lifecycle.rows.orders import OrderPreview, OrderRun, PreviewedCondition

KEY = "filter-order"
LOOK_S = 0.5
"""How often the dialog looks how far the order is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFilterOrder:
    """An order by filter in its dialog, with what the collector found for it, and its run once it is given."""

    action: Action
    filter: Mapping[str, Any]
    preview: OrderPreview | None = None
    """None: it was given before, and its run is looked at again."""
    condition: PreviewedCondition | None = None
    """The one that is ordered; None while it is not chosen: commits may rest on different checkpoints."""
    run: OrderRun | None = None
    complaint: str = ""
    idempotency_key: str = field(default_factory=lambda: uuid4().hex)


class FilterOrderDialog(Dialog[AskedFilterOrder]):
    """A choice of one condition where there are several, the question, how far its run is, and what became of it."""

    key = KEY

    def ask(self, action: Action, wanted: Mapping[str, str]) -> bool:
        """Open the dialog on what the collector finds now; False: nothing. Raises CollectorError."""
        preview = live.collector().preview(action, wanted)
        if not preview.keys:
            return False
        only = preview.conditions[0] if len(preview.conditions) == 1 else None
        self.open(AskedFilterOrder(action=action, filter=wanted, preview=preview, condition=only))
        return True

    def title(self, asked: AskedFilterOrder) -> str:
        """Return ``Abort 620 transactions?``."""
        number = asked.run.transactions if asked.run is not None else len(asked.preview.keys) if asked.preview else 0
        return f"{asked.action.value.capitalize()} {counted(number, 'transaction')}?"

    def put_away(self) -> None:
        """Close the dialog. The run goes on without it; a line on each page leads back to it until its end was seen."""
        asked = self.asked()
        super().put_away()
        run_lines.put_away()
        if asked is not None and asked.run is not None and asked.run.is_over:
            run_lines.dismiss(asked.run)

    def body(self, asked: AskedFilterOrder) -> None:
        """Write the choice, the question, how far the run is, or its result."""
        if asked.run is not None:
            run = self._as_it_is_now(asked.run)
            if run.is_over:
                self.keep(replace(asked, run=run))
                self._show_result(asked, run)
            else:
                self._show_progress(asked, run)
        elif asked.preview is not None and asked.condition is None:
            self._show_choice(asked, asked.preview)
        elif asked.preview is not None and asked.condition is not None:
            self._show_question(asked, asked.preview, asked.condition)

    def _as_it_is_now(self, run: OrderRun) -> OrderRun:
        try:
            run = live.collector().run(run.run)
            return live.collector().run(run.run, steps=True) if run.is_over else run
        except CollectorError as error:
            # It is asked again at the next look, or shown as it was.
            order_form.write_complaint(str(error))
            return run

    def open_again(self, run: OrderRun) -> None:
        """Open the dialog on an order that was given before."""
        self.open(AskedFilterOrder(action=run.action, filter=run.filter, run=run))
        run_lines.show_in_dialog(run)

    def _show_choice(self, asked: AskedFilterOrder, preview: OrderPreview) -> None:
        everything = el("p", "Everything with ", el("b", in_words(asked.filter)), ".")
        why = (
            "These transactions rest on different conditions, and each condition takes an order of its own. Choose one; for the "
            "next, open this again."
        )
        live.write(el("div", el("h3", "What is ordered"), everything, el("p", why), class_="order"))
        for number, condition in enumerate(preview.conditions):
            with st.container(horizontal=True, vertical_alignment="center", key=f"{KEY}-condition-{number}"):
                with st.container():
                    live.write(in_condition(condition))
                label = f"{asked.action.value.capitalize()} {len(condition.keys):,} …"
                st.button(label, key=f"{KEY}-choose-{number}", on_click=self._choose, args=(asked, condition))
        st.button("Cancel", key=f"{KEY}-cancel", on_click=self.put_away)
        order_form.write_over()

    def _choose(self, asked: AskedFilterOrder, condition: PreviewedCondition | None) -> None:
        self.keep(replace(asked, condition=condition, complaint=""))

    def _show_question(self, asked: AskedFilterOrder, preview: OrderPreview, condition: PreviewedCondition) -> None:
        number, left_out = len(condition.keys), preview.left_out_total
        apart = len(preview.keys) - number
        how = [
            f"Each of {counted(number, 'transaction')} is {DONE[asked.action][0]} by itself, most urgent first",
            f", in {counted(condition.parts, 'part')}" if condition.parts > 1 else "",
            ". The collector checks each one again when its turn comes: one that changed since now is refused and stays as it is.",
        ]
        done, are = DONE[asked.action][0], "is" if number == 1 else "are"
        live.write(
            question(
                f"{counted(number, 'transaction')} {are} {done}: everything with {in_words(asked.filter)}.",
                None,
                left_out > 0 and el("p", f"{counted(left_out, 'other')} with it may not be {done}: left out."),
                apart > 0
                and el("p", f"{counted(apart, 'other')} with it rest on other conditions: not part of this order."),
                el("h3", "What is known" if condition.confirm else "Why it is safe"),
                *[known(row, asked.action) for row in condition.summary],
                how=[el("p", *how)],
            )
        )
        order_form.show(
            KEY,
            go=f"{asked.action.value.capitalize()} {counted(number, 'transaction')}",
            warning="No known source can restore the rows of all of them. To abort anyway"
            if asked.action is Action.ABORT
            else order_form.COMMIT_WARNING,
            confirmation_text=condition.confirm,
            complaint=asked.complaint,
            is_destructive=asked.action is Action.ABORT and any(row.loses_data for row in condition.summary),
            give=partial(self._give, asked, condition),
            cancel=self.put_away,
        )
        if apart > 0:
            st.button("Another condition", key=f"{KEY}-other-condition", on_click=self._choose, args=(asked, None))

    def _give(self, asked: AskedFilterOrder, condition: PreviewedCondition, dry_run: bool) -> None:
        if self.asked() is not asked:
            return
        filled = order_form.filled(KEY, confirmation_text=condition.confirm, dry_run=dry_run)
        if filled.complaint:
            self.keep(replace(asked, complaint=filled.complaint))
            return
        try:
            run = live.collector().begin_filter_run(
                asked.action,
                asked.filter,
                condition.fingerprint,
                reason=filled.reason,
                dry_run=dry_run,
                confirm=filled.confirm,
                idempotency_key="" if dry_run else asked.idempotency_key,
            )
        except CollectorError as error:
            self.keep(replace(asked, complaint=str(error)))
            return
        self.keep(replace(asked, complaint="", run=run))
        run_lines.show_in_dialog(run)

    def _show_progress(self, asked: AskedFilterOrder, run: OrderRun) -> None:
        """Show how far a run is until it is over. Nothing waits for it here: a click in the dialog is heard at once."""

        @st.fragment(run_every=LOOK_S, key=f"{KEY}-watched")
        def watch() -> None:
            try:
                now = live.collector().run(run.run)
            except CollectorError:
                now = run
            # A press on its button runs this part alone: what is asked may be newer than what this was written for.
            if now.is_over and (latest := self.asked()) is not None:
                # The page shows the result; this is not written again.
                self.keep(replace(latest, run=now))
                st.rerun()
            with st.container(key=f"{KEY}-progress"):
                st.progress(now.sent / now.transactions, how_far(now))
                live.write(
                    el(
                        "p",
                        "Closing this hides it: the collector goes on, and each page has a line with its result.",
                        class_="more",
                    )
                )
                if now.parts > 1 and not now.halted:
                    st.button("Stop after this part", key=f"{KEY}-stop", on_click=self._stop, args=(asked, now))

        watch()
        order_form.write_over()

    def _stop(self, asked: AskedFilterOrder, run: OrderRun) -> None:
        try:
            self.keep(replace(asked, run=live.collector().stop_run(run.run)))
        except CollectorError as error:
            order_form.write_complaint(str(error))

    def _show_result(self, asked: AskedFilterOrder, run: OrderRun) -> None:
        with st.container(key=f"{KEY}-result"):
            live.write(el("div", *result(run), class_="order"))
        with st.container(horizontal=True):
            if run.dry_run and asked.preview is not None:
                st.button("Back to the order", key=f"{KEY}-back", on_click=self._back, args=(asked, run))
            st.button("Close", key=f"{KEY}-close", on_click=self.put_away)
        order_form.write_over()

    def _back(self, asked: AskedFilterOrder, run: OrderRun) -> None:
        self.keep(replace(asked, run=None))
        run_lines.put_away()
        run_lines.dismiss(run)


DIALOG = FilterOrderDialog()
