"""The dialog in which a pipeline is restarted or stopped: what will happen, a reason, and what its supervisor answered.

It stands on the run as it was shown when the button was pressed; the collector refuses the order when another has started.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from app import live, order_form
from app.collector_client import CollectorError
from app.collector_rows import Action, OrderResult, Pipeline
from app.markup import Html, el, plain_label, widget_token
from app.time_text import duration, since

KEY = "pipeline-order"
_ASKED = "pipeline_order"
_DONE = {Action.RESTART: "restarted", Action.STOP: "stopped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOrder(order_form.Asked):
    """An order to one pipeline's supervisor."""

    pipeline: Pipeline

    @property
    def to_type(self) -> str:
        """Return what must be typed: the prefix of a pipeline that nothing would start again."""
        return self.pipeline.pipeline if self.action is Action.STOP else ""


def buttons(pipeline: Pipeline) -> None:
    """Write the two orders; pressed, each opens the dialog on the run as shown here."""
    may_order = bool(st.session_state.get("may_order"))
    why_not = None if may_order else plain_label(st.session_state.get("why_no_orders", "")) or None
    for action in (Action.RESTART, Action.STOP):
        st.button(
            f"{action.value.capitalize()} …",
            key=f"{action.value}-{widget_token(pipeline.key)}",
            disabled=not may_order,
            help=why_not,
            on_click=_ask,
            args=(action, pipeline),
        )


def show_if_asked() -> None:
    """Show the dialog while an order is being given. Called once per run of the page, outside every fragment."""
    asked: AskedOrder | None = st.session_state.get(_ASKED)
    if asked is not None:
        title = f"{asked.action.value.capitalize()} {plain_label(asked.pipeline.pipeline)}?"
        st.dialog(title, width="large", on_dismiss=_put_away)(_body)()


def what_will_happen(action: Action, pipeline: Pipeline) -> str:
    """Return what the order does to the run that is shown, and to what it has in doubt."""
    ends = (
        f"An order for run {pipeline.attempt} is written to the topic of orders. Its supervisor ends the driver, by force when "
        "it stands still, "
    )
    if action is Action.RESTART:
        return ends + (
            "and starts the next run. That one settles first what this one left: it commits what was decided, rolls the rest "
            "back, and replays it."
        )
    return ends + (
        "and then ends itself: nothing starts this pipeline again but you. What was decided and is not committed stays in doubt "
        "until it is committed here, or until the pipeline is started again from its checkpoint directory."
    )


def _ask(action: Action, pipeline: Pipeline) -> None:
    st.session_state[_ASKED] = AskedOrder(action=action, pipeline=pipeline)
    st.session_state["show_dialog"] = True


def _put_away() -> None:
    st.session_state.pop(_ASKED, None)


def _body() -> None:
    asked: AskedOrder | None = st.session_state.get(_ASKED)
    if asked is None:
        st.rerun()
    elif asked.result is not None or asked.refusal is not None:
        with st.container(key="pipeline-order-result"):
            live.write(
                _refused(asked, asked.refusal) if asked.refusal is not None else _ended(asked.action, asked.result)
            )
        order_form.ask_again_button(KEY, asked, partial(_ask_again, asked))
        st.button("Close", key="pipeline-order-close", type="primary", on_click=_put_away)
    else:
        _show_question(asked)


def _show_question(asked: AskedOrder) -> None:
    one = asked.pipeline
    live.write(el("div", el("h4", "What will happen"), el("p", what_will_happen(asked.action, one)),
                  el("p", f"It was {one.state} when you looked, last sign of life ", since(one.sign_at_ms, live.zone()),
                     f" ago: {one.sign or 'none'}."), class_="order"))  # fmt: skip
    if asked.rehearsal is not None:
        will = "; ".join(step.will for step in asked.rehearsal.steps)
        live.write(el("p", f"Dry run: nothing was sent. Audit {asked.rehearsal.audit}. Would be written: {will}."))
    order_form.show(
        KEY,
        go=asked.action.value.capitalize(),
        warning="To stop it",
        to_type=asked.to_type,
        complaint=asked.complaint,
        give=partial(_give, asked),
        cancel=_put_away,
    )


def _give(asked: AskedOrder, dry_run: bool) -> None:
    """Give the order that was shown, once: what became of it replaces it in the session."""
    if st.session_state.get(_ASKED) is not asked:
        return
    order = order_form.filled(KEY, to_type=asked.to_type, dry_run=dry_run)
    if order.complaint:
        st.session_state[_ASKED] = replace(asked, complaint=order.complaint)
        return
    st.session_state[_ASKED] = order_form.sent(asked, [asked.pipeline], order, dry_run=dry_run)


def _ask_again(asked: AskedOrder) -> None:
    st.session_state[_ASKED] = order_form.asked_again(asked)


def _ended(action: Action, result: OrderResult) -> Html:
    """Return ``✔ restarted in 9.1 s · audit 512`` with the supervisor's answer, or that there is none yet."""
    detail = "; ".join(step.detail for step in result.steps if step.detail)
    if result.outcome == "accepted":
        head, tone = f"✔ {_DONE[action]} in {duration(result.took_ms)}", "good"
    elif result.outcome == "pending":
        head, tone = "△ sent, and not answered yet: it is followed up, Audit will tell", "urgent"
    else:
        head, tone = f"✖ not {_DONE[action]}", "urgent"
    return el("div", el("p", el("b", head), f" · audit {result.audit}", class_=f"result {tone}", role="status"),
              el("p", detail) if detail else None, class_="order")  # fmt: skip


def _refused(asked: AskedOrder, refusal: CollectorError) -> Html:
    heading = "What became of it is not known." if asked.has_no_answer else "Nothing was done."
    return el("p", el("b", "✖ ", heading), " ", str(refusal), class_="warn", role="alert")
