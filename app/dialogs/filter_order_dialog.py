"""The dialog of an order by filter: everything that the collector finds for it, however many, ordered in parts.

The collector says what a filter means when the dialog opens, and the dialog keeps it. It checks each transaction again when its
part is sent: what changed since is refused alone. The dialog only watches how the parts are sent (``app.client.filter_runs``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from app import live
from app.client import filter_runs
from app.client.filter_runs import FilterOrder, FilterRun, Progress
from app.components.markup import el, plain_label
from app.components.presses import DESTRUCTIVE
from app.dialogs import order_form
from app.dialogs.filter_order_text import DONE, how_far, in_condition, known, result
from lifecycle.counted_nouns import counted
from lifecycle.orders import Action
from lifecycle.rows.orders import OrderPreview, PreviewedCondition

KEY = "filter-order"
_ASKED = "filter_order"
LOOK_S = 0.5
"""How often the dialog looks how far the order is."""


@dataclass(kw_only=True)
class AskedFilterOrder:
    """An order by filter in its dialog, with what the collector found for it; ``run`` once it was given."""

    action: Action
    filter: Mapping[str, str]
    preview: OrderPreview
    condition: PreviewedCondition | None = None
    """The one that was chosen of several: commits may rest on different checkpoints, each of which is typed for its own."""
    complaint: str = ""
    run: FilterRun | None = None
    is_result_shown: bool = False

    @property
    def chosen(self) -> OrderPreview:
        """Return what is ordered: all that was found, or what takes the chosen condition."""
        one = self.condition
        if one is None:
            return self.preview
        seen = {key: self.preview.seen[key] for key in one.keys}
        return replace(
            self.preview, keys=one.keys, seen=seen, confirm=one.confirm, conditions=(one,), summary=one.summary
        )


def ask(action: Action, wanted: Mapping[str, str]) -> bool:
    """Open the dialog on what the collector finds now; False: nothing. Raises CollectorError."""
    preview = live.collector().preview(action, wanted)
    if not preview.keys:
        return False
    st.session_state[_ASKED] = AskedFilterOrder(action=action, filter=wanted, preview=preview)
    return True


def open_again(run: FilterRun) -> None:
    """Open the dialog on an order that was given."""
    order = run.order
    st.session_state[_ASKED] = AskedFilterOrder(
        action=order.action, filter=order.filter, preview=order.preview, run=run
    )


def is_open() -> bool:
    """Return whether the dialog is open in this session."""
    return _ASKED in st.session_state


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    asked = st.session_state.get(_ASKED)
    if asked is None:
        return
    title = f"{asked.action.value.capitalize()} {counted(len(asked.preview.keys), 'transaction')}?"
    st.dialog(plain_label(title), width="large", on_dismiss=_put_away)(_body)()


def _put_away() -> None:
    # The parts go on without the dialog; the page Transactions leads back to them until their end was seen.
    asked: AskedFilterOrder | None = st.session_state.pop(_ASKED, None)
    if asked is not None and asked.run is not None and asked.is_result_shown and not asked.run.progress.halted:
        filter_runs.RUNS.dismiss(asked.run)


def _body() -> None:
    asked: AskedFilterOrder | None = st.session_state.get(_ASKED)
    if asked is None:
        st.rerun()
    elif asked.run is not None:
        progress = asked.run.progress
        # Most orders take one part, which is answered by then.
        progress = asked.run.wait(progress, LOOK_S) if progress.is_sending else progress
        if progress.is_sending:
            _show_progress(asked.run)
        else:
            _show_result(asked, asked.run, progress)
    elif asked.condition is None and len(asked.preview.conditions) > 1:
        _show_choice(asked)
    else:
        _show_question(asked)


def _show_choice(asked: AskedFilterOrder) -> None:
    everything = el("p", "Everything with ", el("b", filter_runs.in_words(asked.filter)), ".")
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


def _show_question(asked: AskedFilterOrder) -> None:
    preview = asked.chosen
    number, left_out = len(preview.keys), preview.left_out_total
    apart = len(asked.preview.keys) - number
    parts = filter_runs.parts_of(preview)
    what = [
        f"Each of {counted(number, 'transaction')} is {DONE[asked.action][0]} by itself, most urgent first",
        f", in {counted(parts, 'part')}" if parts > 1 else "",
        ". The collector checks each one again when its turn comes: one that changed since now is refused and stays as it is.",
    ]
    live.write(
        el(
            "div",
            el("h3", "What is ordered"),
            el("p", "Everything with ", el("b", filter_runs.in_words(asked.filter)), "."),
            left_out > 0
            and el("p", f"{counted(left_out, 'other')} with it may not be {DONE[asked.action][0]}: left out."),
            apart > 0
            and el("p", f"{counted(apart, 'other')} with it rest on other conditions: not part of this order."),
            el("h3", "What will happen"),
            el("p", *what),
            el("h3", "What is known" if preview.confirm else "Why it is safe"),
            *[known(row, asked.action, live.zone()) for row in preview.summary],
            class_="order",
        )
    )
    order_form.show(
        KEY,
        go=f"{asked.action.value.capitalize()} {counted(number, 'transaction')}",
        warning="No known source can restore the rows of all of them. To abort anyway"
        if asked.action is Action.ABORT
        else order_form.COMMIT_WARNING,
        confirmation_text=preview.confirm,
        complaint=asked.complaint,
        is_destructive=asked.action in DESTRUCTIVE,
        give=partial(_give, asked),
        cancel=_put_away,
    )
    if asked.condition is not None:
        st.button("Another condition", key=f"{KEY}-other-condition", on_click=_choose, args=(asked, None))


def _give(asked: AskedFilterOrder, dry_run: bool) -> None:
    if st.session_state.get(_ASKED) is not asked or asked.run is not None:
        return
    preview = asked.chosen
    filled = order_form.filled(KEY, confirmation_text=preview.confirm, dry_run=dry_run)
    asked.complaint = filled.complaint
    if filled.complaint:
        return
    order = FilterOrder(
        action=asked.action,
        filter=asked.filter,
        preview=preview,
        reason=filled.reason,
        confirm=filled.confirm,
        dry_run=dry_run,
        is_of_one_condition=asked.condition is not None,
    )
    asked.run = filter_runs.RUNS.begin(order, live.asking_person(), live.settings())


def _show_progress(run: FilterRun) -> None:
    """Show how far a run is until it has ended or halts. Nothing waits for it here: a press in the dialog is heard at once."""

    @st.fragment(run_every=LOOK_S, key=f"{KEY}-watched")
    def watch() -> None:
        progress = run.progress
        if not progress.is_sending:
            # The page shows the result; this is not written again.
            st.rerun()
        with st.container(key=f"{KEY}-progress"):
            st.progress(_share(run, progress), how_far(run, progress))
            live.write(
                el(
                    "p",
                    "Closing this hides it: the sending goes on, and the page Transactions shows it.",
                    class_="more",
                )
            )
            if run.parts > 1 and not progress.halted:
                st.button("Stop after this part", key=f"{KEY}-stop", on_click=run.stop)

    watch()
    order_form.write_over()


def _share(run: FilterRun, progress: Progress) -> float:
    return progress.parts_sent / run.parts


def _show_result(asked: AskedFilterOrder, run: FilterRun, progress: Progress) -> None:
    with st.container(key=f"{KEY}-result"):
        live.write(el("div", *result(run, progress), class_="order"))
    with st.container(horizontal=True):
        if progress.halted:
            st.button("Go on", key=f"{KEY}-go-on", type="primary", on_click=_go_on, args=(run,))
        if run.order.dry_run and not progress.halted:
            st.button("Back to the order", key=f"{KEY}-back", on_click=_back, args=(asked, run))
        st.button("Close", key=f"{KEY}-close", on_click=_put_away)
    order_form.write_over()
    asked.is_result_shown = True


def _go_on(run: FilterRun) -> None:
    run.go_on(live.asking_person())


def _back(asked: AskedFilterOrder, run: FilterRun) -> None:
    asked.run, asked.is_result_shown = None, False
    filter_runs.RUNS.dismiss(run)
