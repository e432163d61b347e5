"""The dialogs that silence alerts and end a silence: which labels, for how long, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorError
from indoubt.app.components.markup import el
from indoubt.app.dialogs.order_form import REASON_CHARACTERS
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.rows.alerts import AlertRow, SilenceRow
from indoubt.lifecycle.visible_text import visible

KEY = "silence-form"
LENGTHS = {"1 h": HOUR_MS, "4 h": 4 * HOUR_MS, "1 day": 24 * HOUR_MS, "7 days": 7 * 24 * HOUR_MS}
_ASKED = "silence_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A silence to set on an alert's labels, or a silence to end."""

    labels: Mapping[str, str] | None = None
    ends: SilenceRow | None = None
    complaint: str = ""


def ask_to_silence(alert: AlertRow) -> None:
    """Open the dialog on this alert's labels."""
    _ask(_Asked(labels=alert.labels))


def ask_to_end(silence: SilenceRow) -> None:
    """Open the dialog to end this silence."""
    _ask(_Asked(ends=silence))


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    asked: _Asked | None = st.session_state.get(_ASKED)
    if asked is not None:
        title = "Silence alerts?" if asked.ends is None else f"End silence {asked.ends.silence}?"
        st.dialog(title, width="large", on_dismiss=_put_away)(_body)()


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
            live.write(
                el("p", "Receivers get notifications of matching alerts again, also of those that already fire.")
            )
        st.text_input(
            "Reason",
            key=f"{KEY}-reason",
            max_chars=500,
            placeholder="the silence and the audit show it with your name",
        )
        if asked.complaint:
            live.write(el("p", el("b", "✖ "), asked.complaint, class_="warn", role="alert"))
        with st.container(horizontal=True):
            go = "Silence" if asked.ends is None else "End silence"
            st.form_submit_button(go, key=f"{KEY}-go", type="primary", on_click=partial(_give, asked))
            st.form_submit_button("Cancel", key=f"{KEY}-cancel", on_click=_put_away)


def _write_choice(labels: Mapping[str, str]) -> None:
    live.write(el("p", "Alerts with all of the chosen labels stay visible, but send no notification. "
                  "Fewer labels match more alerts."))  # fmt: skip
    # A rise in severity deserves a notification.
    chosen = [name for name in labels if name != "severity"]
    st.multiselect(
        "Labels", list(labels), default=chosen, key=f"{KEY}-labels",
        format_func=lambda name: f"{name}={visible(labels.get(name, ''))}",
    )  # fmt: skip
    st.segmented_control("Duration", list(LENGTHS), default="1 h", required=True, key=f"{KEY}-length")


def _give(asked: _Asked) -> None:
    """Set or end the silence, once; a complaint stays in the dialog."""
    if st.session_state.get(_ASKED) is not asked:
        return
    complaint = _given(asked)
    if complaint:
        st.session_state[_ASKED] = replace(asked, complaint=complaint)
    else:
        _put_away()


def _given(asked: _Asked) -> str:
    """Send the request; return what is wrong, or an empty text."""
    reason = (st.session_state.get(f"{KEY}-reason") or "").strip()
    if len(reason) < REASON_CHARACTERS:
        return f"Give a reason of at least {REASON_CHARACTERS} characters: it explains why notifications are missing."
    try:
        if asked.ends is not None:
            live.collector().end_silence(asked.ends.silence, reason=reason)
            return ""
        labels = asked.labels or {}
        matchers = {name: labels[name] for name in st.session_state.get(f"{KEY}-labels") or []}
        if not matchers:
            return "Choose at least one label: a silence without labels would match every alert."
        length_ms = LENGTHS[st.session_state.get(f"{KEY}-length") or "1 h"]
        live.collector().silence(matchers, reason=reason, duration_ms=length_ms)
    except CollectorError as error:
        return f"{error}. Check the list of silences before you try again."
    return ""
