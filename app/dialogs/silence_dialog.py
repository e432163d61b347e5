"""The dialogs in which alerts are silenced, and a silence is ended: which labels, for how long, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from app import live
from app.alert_rows import Alert, Silence
from app.collector_client import CollectorError
from app.markup import el, visible, widget_token
from app.order_form import REASON_CHARACTERS

KEY = "silence-form"
HOUR_MS = 3_600_000
LENGTHS = {"1 h": HOUR_MS, "4 h": 4 * HOUR_MS, "1 day": 24 * HOUR_MS, "7 days": 7 * 24 * HOUR_MS}
_ASKED = "silence_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A silence to be made of an alert's labels, or one to be ended."""

    labels: Mapping[str, str] | None = None
    ends: Silence | None = None
    complaint: str = ""


def silence_button(alert: Alert) -> None:
    """Write the button that opens the dialog on this alert's labels."""
    _button("Silence …", f"silence-{widget_token(alert.key)}", _Asked(labels=alert.labels))


def end_button(silence: Silence) -> None:
    """Write the button that opens the dialog on the end of this silence."""
    _button("End …", f"end-silence-{silence.number}", _Asked(ends=silence))


def show_if_asked() -> None:
    """Show the dialog while a silence is being set or ended. Called once per run of the page, outside every fragment."""
    asked: _Asked | None = st.session_state.get(_ASKED)
    if asked is not None:
        title = "Silence alerts?" if asked.ends is None else f"End silence {asked.ends.number}?"
        st.dialog(title, width="large", on_dismiss=_put_away)(_body)()


def _button(label: str, key: str, asked: _Asked) -> None:
    is_operator = bool(st.session_state.get("is_operator"))
    st.button(
        label,
        key=key,
        disabled=not is_operator,
        help=None if is_operator else "Silences need an operator's token.",
        on_click=_ask,
        args=(asked,),
    )


def _ask(asked: _Asked) -> None:
    st.session_state[_ASKED] = asked
    st.session_state["show_dialog"] = True


def _put_away() -> None:
    st.session_state.pop(_ASKED, None)


def _body() -> None:
    asked: _Asked | None = st.session_state.get(_ASKED)
    if asked is None:
        st.rerun()
    else:
        _write_form(asked)


def _write_form(asked: _Asked) -> None:
    with st.form(KEY, border=False, enter_to_submit=False):
        if asked.labels is not None:
            _write_choice(asked.labels)
        else:
            live.write(el("p", "Who is to be told is told of matching alerts again, also of those that fire already."))
        st.text_input(
            "Reason",
            key=f"{KEY}-reason",
            max_chars=500,
            placeholder="stands beside it and in the audit, with your name",
        )
        if asked.complaint:
            live.write(el("p", el("b", "✖ "), asked.complaint, class_="warn", role="alert"))
        with st.container(horizontal=True):
            go = "Silence" if asked.ends is None else "End it"
            st.form_submit_button(go, key=f"{KEY}-go", type="primary", on_click=partial(_give, asked))
            st.form_submit_button("Cancel", key=f"{KEY}-cancel", on_click=_put_away)


def _write_choice(labels: Mapping[str, str]) -> None:
    live.write(el("p", "Alerts that carry all of the chosen labels are judged and shown as ever, and nobody is told of them. "
                  "The fewer labels, the more alerts."))  # fmt: skip
    # A rise in severity is worth to be told.
    chosen = [name for name in labels if name != "severity"]
    st.multiselect(
        "Alerts with all of", list(labels), default=chosen, key=f"{KEY}-labels",
        format_func=lambda name: f"{name}={visible(labels.get(name, ''))}",
    )  # fmt: skip
    st.segmented_control("For", list(LENGTHS), default="1 h", required=True, key=f"{KEY}-length")


def _give(asked: _Asked) -> None:
    """Set or end the silence that was asked for, once; a complaint stays in the dialog."""
    if st.session_state.get(_ASKED) is not asked:
        return
    complaint = _given(asked)
    if complaint:
        st.session_state[_ASKED] = replace(asked, complaint=complaint)
    else:
        _put_away()


def _given(asked: _Asked) -> str:
    """Return what is wrong, or nothing when it was done."""
    reason = (st.session_state.get(f"{KEY}-reason") or "").strip()
    if len(reason) < REASON_CHARACTERS:
        return f"Give a reason of at least {REASON_CHARACTERS} characters: who is not told wants to know why."
    try:
        if asked.ends is not None:
            live.collector().end_silence(asked.ends.number, reason=reason)
            return ""
        labels = asked.labels or {}
        matchers = {name: labels[name] for name in st.session_state.get(f"{KEY}-labels") or []}
        if not matchers:
            return "Choose at least one label: a silence of everything would hide everything."
        length_ms = LENGTHS[st.session_state.get(f"{KEY}-length") or "1 h"]
        live.collector().silence(matchers, reason=reason, duration_ms=length_ms)
    except CollectorError as error:
        return f"{error}. Look at the silences before you try again."
    return ""
