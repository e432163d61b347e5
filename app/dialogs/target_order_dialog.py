"""The dialog of an order over one thing that has a key and a revision: what will happen, a reason, and what became of it.

It stands on that thing as it was shown when the button was pressed; the collector refuses the order when it has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import streamlit as st

from app import live, order_form
from app.collector_client import CollectorError
from app.collector_rows import Action, Orderable, OrderResult
from app.markup import Html, el, plain_label, widget_token
from app.time_text import duration

Named = TypeVar("Named", bound=Orderable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOrder(order_form.Asked, Generic[Named]):
    """An order over one thing, as it was shown."""

    of: Named


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Generic[Named]):
    """What the dialog says. ``name``: of the thing, in its heading; ``done``: what an order that was carried out has made of it.

    ``to_type``: what must be typed before the order is given, empty: nothing; ``warning`` stands before that.
    """

    name: Callable[[Named], str]
    what_will_happen: Callable[[Action, Named], Html]
    done: Callable[[Action, Named], str]
    to_type: Callable[[Action, Named], str] = lambda _, __: ""
    warning: str = ""


class OneOrderDialog(Generic[Named]):
    """Widgets' keys begin with ``key``: ``<key>-reason``, ``<key>-confirm``, ``<key>-go``, ``<key>-dry-run``, ``<key>-cancel``,
    ``<key>-close``, ``<key>-result``."""

    def __init__(self, key: str, words: Words[Named]) -> None:
        self._key, self._words = key, words
        self._asked_key = f"{key}-asked"

    def button(self, action: Action, of: Named, *, is_first: bool = False) -> None:
        """Write the button; pressed, it opens the dialog on the thing as shown here."""
        may_order = bool(st.session_state.get("may_order"))
        st.button(
            f"{action.value.capitalize()} …",
            key=f"{action.value}-{widget_token(of.key)}",
            type="primary" if is_first else "secondary",
            disabled=not may_order,
            help=None if may_order else plain_label(st.session_state.get("why_no_orders", "")) or None,
            on_click=self._ask,
            args=(action, of),
        )

    def show_if_asked(self) -> None:
        """Show the dialog while an order is being given. Called once per run of the page, outside every fragment."""
        asked = self._asked()
        if asked is not None:
            title = f"{asked.action.value.capitalize()} {plain_label(self._words.name(asked.of))}?"
            st.dialog(title, width="large", on_dismiss=self._put_away)(self._body)()

    def _asked(self) -> AskedOrder[Named] | None:
        asked: AskedOrder[Named] | None = st.session_state.get(self._asked_key)
        return asked

    def _ask(self, action: Action, of: Named) -> None:
        st.session_state[self._asked_key] = AskedOrder(action=action, of=of)
        st.session_state["show_dialog"] = True

    def _put_away(self) -> None:
        st.session_state.pop(self._asked_key, None)

    def _body(self) -> None:
        asked = self._asked()
        if asked is None:
            st.rerun()
        elif (ended := self._how_it_ended(asked)) is not None:
            with st.container(key=f"{self._key}-result"):
                live.write(ended)
            order_form.ask_again_button(self._key, asked, partial(self._ask_again, asked))
            st.button("Close", key=f"{self._key}-close", type="primary", on_click=self._put_away)
        else:
            self._show_question(asked)

    def _how_it_ended(self, asked: AskedOrder[Named]) -> Html | None:
        if asked.refusal is not None:
            return _refused(asked, asked.refusal)
        return self._ended(asked, asked.result) if asked.result is not None else None

    def _show_question(self, asked: AskedOrder[Named]) -> None:
        live.write(self._words.what_will_happen(asked.action, asked.of))
        if asked.rehearsal is not None:
            would = "; ".join(f"{step.key}: {step.will}" for step in asked.rehearsal.steps)
            live.write(el("p", f"Dry run: nothing was sent. Audit {asked.rehearsal.audit}. Would be done: {would}."))
        order_form.show(
            self._key,
            go=asked.action.value.capitalize(),
            warning=self._words.warning,
            to_type=self._words.to_type(asked.action, asked.of),
            complaint=asked.complaint,
            give=partial(self._give, asked),
            cancel=self._put_away,
        )

    def _give(self, asked: AskedOrder[Named], dry_run: bool) -> None:
        """Give the order that was shown, once: what became of it replaces it in the session."""
        if self._asked() is not asked:
            return
        order = order_form.filled(self._key, to_type=self._words.to_type(asked.action, asked.of), dry_run=dry_run)
        if order.complaint:
            st.session_state[self._asked_key] = replace(asked, complaint=order.complaint)
            return
        st.session_state[self._asked_key] = order_form.sent(asked, [asked.of], order, dry_run=dry_run)

    def _ask_again(self, asked: AskedOrder[Named]) -> None:
        st.session_state[self._asked_key] = order_form.asked_again(asked)

    def _ended(self, asked: AskedOrder[Named], result: OrderResult) -> Html:
        """Return ``✔ restarted in 9.1 s · audit 512`` with what was answered, or that there is no answer yet."""
        done = self._words.done(asked.action, asked.of)
        of_several = len(result.steps) > 1
        said = [
            ": ".join(filter(None, (step.key if of_several else "", step.outcome, step.detail)))
            for step in result.steps
        ]
        if result.outcome == "accepted":
            head, tone = f"✔ {done} in {duration(result.took_ms)}", "good"
        elif result.outcome == "pending":
            head, tone = "△ sent, and not answered yet: it is followed up, Audit will tell", "urgent"
        else:
            head, tone = f"✖ not {done}", "urgent"
        return el("div", el("p", el("b", head), f" · audit {result.audit}", class_=f"result {tone}", role="status"),
                  el("ul", *[el("li", line) for line in said]), class_="order")  # fmt: skip


def _refused(asked: order_form.Asked, refusal: CollectorError) -> Html:
    heading = "What became of it is not known." if asked.has_no_answer else "Nothing was done."
    return el("p", el("b", "✖ ", heading), " ", str(refusal), class_="warn", role="alert")
