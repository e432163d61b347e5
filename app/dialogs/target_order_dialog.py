"""The dialog of an order for a single target, a batch or a pipeline: what will happen, a reason, and the result.

It uses the target as it was shown when the button was pressed; the collector refuses the order if the target has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import streamlit as st

from app import live
from app.client.collector_client import CollectorError
from app.client.collector_rows import Orderable
from app.components.key_name import key_text
from app.components.markup import Html, el, plain_label
from app.components.presses import DESTRUCTIVE
from app.components.time_text import duration
from app.dialogs import order_form
from app.dialogs.order_text import refusal_text
from lifecycle.orders import Action
from lifecycle.rows.orders import OrderResult

Target = TypeVar("Target", bound=Orderable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOrder(order_form.Asked, Generic[Target]):
    """An order for a single target, as it was shown."""

    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Generic[Target]):
    """The dialog's texts. ``name`` is the target's name in the heading; ``done`` is the target's state after the order.

    The operator must type ``confirmation_text`` (empty: nothing) to give the order; ``warning`` is the text before it.
    """

    name: Callable[[Target], str]
    what_will_happen: Callable[[Action, Target], Html]
    done: Callable[[Action, Target], str]
    confirmation_text: Callable[[Action, Target], str] = lambda _, __: ""
    warning: str = ""


class TargetOrderDialog(Generic[Target]):
    """Its widgets' keys begin with ``key``: ``<key>-reason``, ``<key>-confirm``, ``<key>-go``, ``<key>-dry-run``, ``<key>-cancel``,
    ``<key>-close``, ``<key>-result``."""

    def __init__(self, key: str, texts: Texts[Target]) -> None:
        self._key, self._texts = key, texts
        self._asked_key = f"{key}-asked"

    def show_if_asked(self) -> None:
        """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
        asked = self._asked()
        if asked is not None:
            title = f"{asked.action.value.capitalize()} {plain_label(self._texts.name(asked.target))}?"
            st.dialog(title, width="large", on_dismiss=self._put_away)(self._body)()

    def _asked(self) -> AskedOrder[Target] | None:
        asked: AskedOrder[Target] | None = st.session_state.get(self._asked_key)
        return asked

    def ask(self, action: Action, target: Target) -> None:
        """Open the dialog on this target as it was shown."""
        st.session_state[self._asked_key] = AskedOrder(action=action, target=target)
        st.session_state["show_dialog"] = True

    def _put_away(self) -> None:
        order_form.put_away()
        st.session_state.pop(self._asked_key, None)

    def _body(self) -> None:
        asked = self._asked()
        if asked is None:
            st.rerun()
        if asked.under_way is not None:
            st.session_state[self._asked_key] = asked = order_form.answered(asked)
        if asked.under_way is not None:
            order_form.show_under_way(self._key, asked.under_way)
        elif (ended := self._how_it_ended(asked)) is not None:
            with st.container(key=f"{self._key}-result"):
                live.write(ended)
            with st.container(horizontal=True):
                order_form.ask_again_button(self._key, asked, partial(self._ask_again, asked))
                st.button("Close", key=f"{self._key}-close", type="primary", on_click=self._put_away)
            order_form.write_over()
        else:
            self._show_question(asked)

    def _how_it_ended(self, asked: AskedOrder[Target]) -> Html | None:
        if asked.refusal is not None:
            return self._refused(asked, asked.refusal)
        return self._ended(asked, asked.result) if asked.result is not None else None

    def _show_question(self, asked: AskedOrder[Target]) -> None:
        live.write(self._texts.what_will_happen(asked.action, asked.target))
        if asked.dry_run_result is not None:
            steps = [el("li", key_text(step.key), f": {step.description}") for step in asked.dry_run_result.steps]
            said = f"Dry run: nothing was sent. Audit {asked.dry_run_result.audit}. The order would do this:"
            live.write(el("div", el("p", said), el("ul", *steps), class_="order"))
        order_form.show(
            self._key,
            go=asked.action.value.capitalize(),
            warning=self._texts.warning,
            confirmation_text=self._texts.confirmation_text(asked.action, asked.target),
            complaint=asked.complaint,
            is_destructive=asked.action in DESTRUCTIVE,
            give=partial(self._give, asked),
            cancel=self._put_away,
        )

    def _give(self, asked: AskedOrder[Target], dry_run: bool) -> None:
        """Give the order that was shown, once; its result replaces it in the session."""
        if self._asked() is not asked:
            return
        order = order_form.filled(
            self._key, confirmation_text=self._texts.confirmation_text(asked.action, asked.target), dry_run=dry_run
        )
        if order.complaint:
            st.session_state[self._asked_key] = replace(asked, complaint=order.complaint)
            return
        st.session_state[self._asked_key] = order_form.sent(
            asked, self._texts.name(asked.target), [asked.target], order, dry_run=dry_run
        )

    def _ask_again(self, asked: AskedOrder[Target]) -> None:
        st.session_state[self._asked_key] = order_form.asked_again(asked)

    def _refused(self, asked: AskedOrder[Target], refusal: CollectorError) -> Html:
        heading = "The result is unknown." if asked.has_no_answer else "Nothing was done."
        said = refusal_text(refusal, {f"batch {asked.target.key}": self._texts.name(asked.target)})
        return el("p", el("b", "✖ ", heading), " ", said, class_="warn", role="alert")

    def _ended(self, asked: AskedOrder[Target], result: OrderResult) -> Html:
        """Return ``✔ restarted in 9.1 s · audit 512`` with each step's answer, or that the answer is missing."""
        done = self._texts.done(asked.action, asked.target)
        of_several = len(result.steps) > 1
        answers = [
            el("li", of_several and [key_text(step.key), ": "], ": ".join(filter(None, (step.outcome, step.detail))))
            for step in result.steps
        ]
        if result.outcome == "accepted":
            head, tone = f"✔ {done} in {duration(result.took_ms)}", "good"
        elif result.outcome == "pending":
            head, tone = "△ sent, no answer yet: the collector keeps asking, and Audit will show the result", "urgent"
        else:
            head, tone = f"✖ not {done}", "urgent"
        return el("div", el("p", el("b", head), f" · audit {result.audit}", class_=f"result {tone}", role="status"),
                  el("ul", *answers), class_="order")  # fmt: skip
