"""The dialog of an order by filter: everything that the collector finds for it, however many, ordered in parts.

The collector says what a filter means when the dialog opens, and the dialog keeps it. It checks each transaction again when its
part is sent: what changed since is refused alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import streamlit as st

from app import live
from app.client.collector_client import CollectorError, Failure
from app.components.key_name import key_text
from app.components.markup import Html, el, plain_label
from app.components.presses import DESTRUCTIVE
from app.components.verdict_signs import verdict_badge
from app.dialogs import order_form
from app.dialogs.order_text import fact_line
from lifecycle.counted_nouns import counted
from lifecycle.orders import Action
from lifecycle.rows.orders import OrderPreview, OrderStep, PreviewedVerdict

KEY = "filter-order"
_ASKED = "filter_order"
PART = 250
"""Transactions that are sent at once: the collector takes 1,000, and fewer show sooner how it goes."""
REFUSED_SHOWN = 50
_DONE = {
    Action.COMMIT: ("committed", ("committed", "already committed")),
    Action.ABORT: ("aborted", ("aborted",)),
}


@dataclass(kw_only=True)
class Run:
    """The parts of an order that were sent, and what became of them. Each has one idempotency key, however often it is sent."""

    order: order_form.Filled
    dry_run: bool
    id: str = field(default_factory=lambda: uuid4().hex)
    parts_sent: int = 0
    steps: list[OrderStep] = field(default_factory=list)
    audits: list[int] = field(default_factory=list)
    halted: str = ""
    """Why it does not go on; empty: it does."""


@dataclass(kw_only=True)
class AskedFilterOrder:
    """An order by filter in its dialog, with what the collector found for it; ``run`` once it was given."""

    action: Action
    filter: Mapping[str, str]
    preview: OrderPreview
    complaint: str = ""
    run: Run | None = None

    @property
    def parts(self) -> int:
        """Return how many requests it takes."""
        return -(-len(self.preview.keys) // PART)

    @property
    def words(self) -> str:
        """Return the filter in words."""
        return " and ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.filter.items())


def ask(action: Action, wanted: Mapping[str, str]) -> bool:
    """Open the dialog on what the collector finds now; False: nothing. Raises CollectorError."""
    preview = live.collector().preview(action, wanted)
    if not preview.keys:
        return False
    st.session_state[_ASKED] = AskedFilterOrder(action=action, filter=wanted, preview=preview)
    return True


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    asked = st.session_state.get(_ASKED)
    if asked is None:
        return
    title = f"{asked.action.value.capitalize()} {counted(len(asked.preview.keys), 'transaction')}?"
    st.dialog(plain_label(title), width="large", on_dismiss=_put_away)(_body)()


def _put_away() -> None:
    # A part that is under way ends; none is sent after it.
    st.session_state.pop(_ASKED, None)


def _body() -> None:
    asked: AskedFilterOrder | None = st.session_state.get(_ASKED)
    if asked is None:
        st.rerun()
    elif asked.run is None:
        _show_question(asked)
    else:
        _send_the_rest(asked, asked.run)
        _show_result(asked, asked.run)


def _show_question(asked: AskedFilterOrder) -> None:
    number, preview = len(asked.preview.keys), asked.preview
    left_out = preview.left_out_total
    what = [
        f"Each of {counted(number, 'transaction')} is {_DONE[asked.action][0]} by itself, most urgent first",
        f", in {counted(asked.parts, 'part')}" if asked.parts > 1 else "",
        ". The collector checks each one again when its turn comes: one that changed since now is refused and stays as it is.",
    ]
    live.write(
        el(
            "div",
            el("h3", "What is ordered"),
            el("p", "Everything with ", el("b", asked.words), "."),
            left_out > 0
            and el("p", f"{counted(left_out, 'other')} with it may not be {_DONE[asked.action][0]}: left out."),
            el("h3", "What will happen"),
            el("p", *what),
            el("h3", "What is known" if preview.confirm else "Why it is safe"),
            *[_known(row, asked.action) for row in preview.summary],
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


def _known(row: PreviewedVerdict, action: Action) -> Html:
    risky = (
        f", {row.loses_data:,} of them hold what an abort may lose" if row.loses_data and action is Action.ABORT else ""
    )
    size = f" {counted(row.transactions, 'transaction')} of {counted(row.pipelines, 'application')}{risky}"
    zone = live.zone()
    return el(
        "div",
        el("p", verdict_badge(row.verdict), size),
        el("p", el("small", "Evidence of the most urgent, ", el("code", row.example), ":")),
        el("ul", *[fact_line(fact, zone) for fact in row.evidence]),
        class_="facts",
    )


def _give(asked: AskedFilterOrder, dry_run: bool) -> None:
    if st.session_state.get(_ASKED) is not asked or asked.run is not None:
        return
    order = order_form.filled(KEY, confirmation_text=asked.preview.confirm, dry_run=dry_run)
    asked.complaint = order.complaint
    if not order.complaint:
        asked.run = Run(order=order, dry_run=dry_run)


def _send_the_rest(asked: AskedFilterOrder, run: Run) -> None:
    """Send part after part, with how far it is, until all are sent, one has no answer, or the user stops it."""
    if run.halted or run.parts_sent == asked.parts:
        return
    place = st.empty()
    with place.container(key=f"{KEY}-progress"):
        shown = st.progress(_share(asked, run), _how_far(asked, run))
        if asked.parts > 1:
            st.button("Stop after this part", key=f"{KEY}-stop", on_click=_stop, args=(run,))
    while not run.halted and run.parts_sent < asked.parts:
        _send_part(asked, run)
        # A press that came meanwhile ends this run of the page here; the part's answer is kept already.
        shown.progress(_share(asked, run), _how_far(asked, run))
    place.empty()


def _send_part(asked: AskedFilterOrder, run: Run) -> None:
    keys = asked.preview.keys[run.parts_sent * PART : (run.parts_sent + 1) * PART]
    which = f" (part {run.parts_sent + 1} of {asked.parts} of an order for {len(asked.preview.keys):,}: {asked.words})"
    try:
        result = live.collector().order_each(
            asked.action,
            {key: asked.preview.seen[key] for key in keys},
            reason=run.order.reason + which,
            dry_run=run.dry_run,
            confirm=run.order.confirm,
            idempotency_key="" if run.dry_run else f"{run.id}-{run.parts_sent}",
        )
    except CollectorError as error:
        if error.failure is not Failure.REFUSED:
            run.halted = str(error)
            return
        run.steps += [OrderStep(key=key, description="nothing", outcome="refused", detail=str(error)) for key in keys]
    else:
        run.steps += result.steps
        run.audits.append(result.audit)
    run.parts_sent += 1


def _stop(run: Run) -> None:
    run.halted = "You stopped it."


def _share(asked: AskedFilterOrder, run: Run) -> float:
    return run.parts_sent / asked.parts


def _how_far(asked: AskedFilterOrder, run: Run) -> str:
    return f"{len(run.steps):,} of {counted(len(asked.preview.keys), 'transaction')}"


def _show_result(asked: AskedFilterOrder, run: Run) -> None:
    with st.container(key=f"{KEY}-result"):
        live.write(el("div", *_result(asked, run), class_="order"))
    with st.container(horizontal=True):
        if run.halted:
            st.button("Go on", key=f"{KEY}-go-on", type="primary", on_click=_go_on, args=(run,))
        if run.dry_run and not run.halted:
            st.button("Back to the order", key=f"{KEY}-back", on_click=_back, args=(asked,))
        st.button("Close", key=f"{KEY}-close", on_click=_put_away)
    order_form.write_over()


def _go_on(run: Run) -> None:
    # The part whose answer never came is sent under its key again: it gets its first answer, and nothing is done twice.
    run.halted = ""


def _back(asked: AskedFilterOrder) -> None:
    asked.run = None


def _result(asked: AskedFilterOrder, run: Run) -> list[Html]:
    word, good = _DONE[asked.action]
    good = ("dry run",) if run.dry_run else good
    outcomes = Counter("done" if step.outcome in good else step.outcome for step in run.steps)
    number, done = len(asked.preview.keys), outcomes.pop("done", 0)
    others = "".join(f" · {count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    unsent = number - len(run.steps)
    audits = f" · audit {run.audits[0]}" if run.audits else ""
    audits += f" to {run.audits[-1]}" if len(run.audits) > 1 else ""
    said = (
        f"Dry run: nothing was sent. {done:,} of {number:,} would be {word}"
        if run.dry_run
        else f"{word} {done:,} of {number:,}"
    )
    is_good = done == number
    lines = [
        el(
            "p",
            el("b", "✔ " if is_good else "✖ ", said),
            others,
            unsent > 0 and f" · {unsent:,} not sent",
            audits,
            class_=f"result {'good' if is_good else 'urgent'}",
            role="status",
        )
    ]
    if run.halted:
        lines.append(el("p", el("b", "It does not go on: "), run.halted, class_="warn", role="alert"))
    why: dict[str, list[OrderStep]] = {}
    for step in run.steps:
        if step.outcome not in good:
            why.setdefault(step.outcome, []).append(step)
    for outcome, steps in why.items():
        lines += _why(outcome, steps)
    return lines


def _why(outcome: str, steps: list[OrderStep]) -> list[Html]:
    items = [el("li", key_text(step.key), " ", el("small", step.detail)) for step in steps[:REFUSED_SHOWN]]
    more = len(steps) - len(items)
    return [
        el("h3", f"{outcome.capitalize()}: {len(steps):,}"),
        el("ul", *items),
        *([el("p", f"and {counted(more, 'other')}: Audit has all of them", class_="more")] if more else []),
    ]
