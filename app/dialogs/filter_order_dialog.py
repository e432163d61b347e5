"""The dialog of an order by filter: everything that the collector finds for it, however many, ordered in parts.

The collector says what a filter means when the dialog opens, and the dialog keeps it. It carries out what was shown as a run of its
own, and checks each transaction again in its turn: what changed since is refused alone. The dialog only watches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorError
from indoubt.app.components.links_and_buttons import DESTRUCTIVE
from indoubt.app.components.markup import el, plain_label
from indoubt.app.dialogs import order_form, run_lines
from indoubt.app.dialogs.filter_order_text import DONE, how_far, in_condition, in_one_line, known, result
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import in_words
from indoubt.lifecycle.rows.orders import OrderPreview, OrderRun, PreviewedCondition

KEY, LINES_KEY = "filter-order", "filter-runs"
_ASKED, _RUN = "filter_order", "filter_run"
LOOK_S = 0.5
"""How often the dialog looks how far the order is."""


@dataclass(kw_only=True)
class AskedFilterOrder:
    """An order by filter in its dialog, with what the collector found for it."""

    action: Action
    filter: Mapping[str, str]
    preview: OrderPreview
    condition: PreviewedCondition | None
    """The one that is ordered; None while it is not chosen: commits may rest on different checkpoints."""
    complaint: str = ""
    idempotency_key: str = field(default_factory=lambda: uuid4().hex)


def ask(action: Action, wanted: Mapping[str, str]) -> bool:
    """Open the dialog on what the collector finds now; False: nothing. Raises CollectorError."""
    preview = live.collector().preview(action, wanted)
    if not preview.keys:
        return False
    only = preview.conditions[0] if len(preview.conditions) == 1 else None
    st.session_state[_ASKED] = AskedFilterOrder(action=action, filter=wanted, preview=preview, condition=only)
    return True


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    asked: AskedFilterOrder | None = st.session_state.get(_ASKED)
    run: OrderRun | None = st.session_state.get(_RUN)
    if run is not None:
        action, number = run.action, run.transactions
    elif asked is not None:
        action, number = asked.action, len(asked.preview.keys)
    else:
        return
    title = f"{action.value.capitalize()} {counted(number, 'transaction')}?"
    st.dialog(plain_label(title), width="large", on_dismiss=_put_away)(_body)()


def show_lines() -> None:
    """Write a line for each order by filter that this person gave and has not seen the end of."""
    run_lines.show_lines(LINES_KEY, lambda run: bool(run.filter), in_one_line, _open_again)


def _open_again(run: OrderRun) -> None:
    st.session_state[_RUN] = run
    run_lines.show_in_dialog(run)


def _put_away() -> None:
    # The run goes on without the dialog; the page Transactions leads back to it until its end was seen.
    st.session_state.pop(_ASKED, None)
    run_lines.put_away()
    run: OrderRun | None = st.session_state.pop(_RUN, None)
    if run is not None and run.is_over:
        run_lines.dismiss(run)


def _body() -> None:
    asked: AskedFilterOrder | None = st.session_state.get(_ASKED)
    run: OrderRun | None = st.session_state.get(_RUN)
    if run is not None:
        try:
            run = live.collector().run(run.run)
            if run.is_over:
                run = live.collector().run(run.run, steps=True)
        except CollectorError as error:
            # It is asked again at the next look, or shown as it was.
            live.write(el("p", el("b", "✖ "), str(error), class_="warn", role="alert"))
        if run.is_over:
            st.session_state[_RUN] = run
            _show_result(asked, run)
        else:
            _show_progress(run)
    elif asked is None:
        st.rerun()
    elif asked.condition is None:
        _show_choice(asked)
    else:
        _show_question(asked, asked.condition)


def _show_choice(asked: AskedFilterOrder) -> None:
    everything = el("p", "Everything with ", el("b", in_words(asked.filter)), ".")
    why = (
        "These transactions rest on different conditions, and each condition takes an order of its own. Choose one; for the "
        "next, open this again."
    )
    live.write(el("div", el("h3", "What is ordered"), everything, el("p", why), class_="order"))
    for number, condition in enumerate(asked.preview.conditions):
        with st.container(horizontal=True, vertical_alignment="center", key=f"{KEY}-condition-{number}"):
            with st.container():
                live.write(in_condition(condition))
            label = f"{asked.action.value.capitalize()} {len(condition.keys):,} …"
            st.button(label, key=f"{KEY}-choose-{number}", on_click=_choose, args=(asked, condition))
    st.button("Cancel", key=f"{KEY}-cancel", on_click=_put_away)
    order_form.write_over()


def _choose(asked: AskedFilterOrder, condition: PreviewedCondition | None) -> None:
    asked.condition, asked.complaint = condition, ""


def _show_question(asked: AskedFilterOrder, condition: PreviewedCondition) -> None:
    number, left_out = len(condition.keys), asked.preview.left_out_total
    apart = len(asked.preview.keys) - number
    what = [
        f"Each of {counted(number, 'transaction')} is {DONE[asked.action][0]} by itself, most urgent first",
        f", in {counted(condition.parts, 'part')}" if condition.parts > 1 else "",
        ". The collector checks each one again when its turn comes: one that changed since now is refused and stays as it is.",
    ]
    live.write(
        el(
            "div",
            el("h3", "What is ordered"),
            el("p", "Everything with ", el("b", in_words(asked.filter)), "."),
            left_out > 0
            and el("p", f"{counted(left_out, 'other')} with it may not be {DONE[asked.action][0]}: left out."),
            apart > 0
            and el("p", f"{counted(apart, 'other')} with it rest on other conditions: not part of this order."),
            el("h3", "What will happen"),
            el("p", *what),
            el("h3", "What is known" if condition.confirm else "Why it is safe"),
            *[known(row, asked.action, live.zone()) for row in condition.summary],
            class_="order",
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
        is_destructive=asked.action in DESTRUCTIVE,
        give=partial(_give, asked, condition),
        cancel=_put_away,
    )
    if apart > 0:
        st.button("Another condition", key=f"{KEY}-other-condition", on_click=_choose, args=(asked, None))


def _give(asked: AskedFilterOrder, condition: PreviewedCondition, dry_run: bool) -> None:
    if st.session_state.get(_ASKED) is not asked or _RUN in st.session_state:
        return
    filled = order_form.filled(KEY, confirmation_text=condition.confirm, dry_run=dry_run)
    asked.complaint = filled.complaint
    if filled.complaint:
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
        _open_again(run)
    except CollectorError as error:
        asked.complaint = str(error)


def _show_progress(run: OrderRun) -> None:
    """Show how far a run is until it is over. Nothing waits for it here: a click in the dialog is heard at once."""

    @st.fragment(run_every=LOOK_S, key=f"{KEY}-watched")
    def watch() -> None:
        try:
            now = live.collector().run(run.run)
        except CollectorError:
            now = run
        if now.is_over:
            # The page shows the result; this is not written again.
            st.session_state[_RUN] = now
            st.rerun()
        with st.container(key=f"{KEY}-progress"):
            st.progress(now.sent / now.transactions, how_far(now))
            live.write(
                el(
                    "p",
                    "Closing this hides it: the collector goes on, and the page Transactions shows it.",
                    class_="more",
                )
            )
            if now.parts > 1 and not now.halted:
                st.button("Stop after this part", key=f"{KEY}-stop", on_click=_stop, args=(now,))

    watch()
    order_form.write_over()


def _stop(run: OrderRun) -> None:
    try:
        st.session_state[_RUN] = live.collector().stop_run(run.run)
    except CollectorError as error:
        live.write(el("p", el("b", "✖ "), str(error), class_="warn", role="alert"))


def _show_result(asked: AskedFilterOrder | None, run: OrderRun) -> None:
    with st.container(key=f"{KEY}-result"):
        live.write(el("div", *result(run), class_="order"))
    with st.container(horizontal=True):
        if run.dry_run and asked is not None:
            st.button("Back to the order", key=f"{KEY}-back", on_click=_back, args=(run,))
        st.button("Close", key=f"{KEY}-close", on_click=_put_away)
    order_form.write_over()


def _back(run: OrderRun) -> None:
    del st.session_state[_RUN]
    run_lines.put_away()
    run_lines.dismiss(run)
