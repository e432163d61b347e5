"""The dialogs that silence alerts and end a silence: what is silenced, until when, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import el, plain_label
from indoubt.app.dialogs import order_form
from indoubt.app.dialogs.dialog import Dialog
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.rows.alerts import AlertRow, SilenceRow

KEY = "silence-form"
LENGTHS = {"1 h": HOUR_MS, "4 h": 4 * HOUR_MS, "1 day": 24 * HOUR_MS, "7 days": 7 * 24 * HOUR_MS}
_SUBJECTS = {"batch": "batch", "transaction": "transaction", "partition": "partition", "observer": "source",
             "standing_order": "standing order"}  # fmt: skip
"""Labels that name the one thing that an alert is about, and in words; the first that it has counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A silence to set on what an alert is about, or a silence to end."""

    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What may be silenced, in words, the least first; and by which labels."""
    ends: SilenceRow | None = None
    at_ms: int = 0
    complaint: str = ""


class SilenceDialog(Dialog[_Asked]):
    """Sets a silence, or ends one."""

    key = KEY

    def ask_to_silence(self, alert: AlertRow) -> None:
        """Open the dialog on what this alert is about."""
        self.open(_Asked(choices=choices(alert), at_ms=now_ms()))

    def ask_to_end(self, silence: SilenceRow) -> None:
        """Open the dialog to end this silence."""
        self.open(_Asked(ends=silence))

    def title(self, asked: _Asked) -> str:
        """Return ``Silence alerts?``."""
        return "Silence alerts?" if asked.ends is None else f"End silence {asked.ends.silence}?"

    def body(self, asked: _Asked) -> None:
        """Write what is silenced, or what its end does, and the form."""
        with st.form(self.key, border=False, enter_to_submit=False):
            if asked.ends is None:
                _write_choice(asked)
            else:
                live.write(
                    el("p", "Receivers get notifications of matching alerts again, also of those that already fire.")
                )
            order_form.write_reason(self.key, "the silence and the audit show it with your name")
            order_form.write_complaint(asked.complaint)
            with st.container(horizontal=True):
                go = "Silence" if asked.ends is None else "End silence"
                st.form_submit_button(go, key=f"{KEY}-go", type="primary", on_click=partial(self._give, asked))
                st.form_submit_button("Cancel", key=f"{KEY}-cancel", on_click=self.put_away)

    def _give(self, asked: _Asked) -> None:
        """Set or end the silence, once; a complaint stays in the dialog."""
        if self.asked() is not asked:
            return
        complaint = _given(asked)
        if complaint:
            self.keep(replace(asked, complaint=complaint))
        else:
            self.put_away()


def choices(alert: AlertRow) -> dict[str, dict[str, str]]:
    """Return what may be silenced around an alert, in words, and the labels of each; what comes first silences least."""
    labels, found = alert.labels, dict[str, dict[str, str]]()
    whose = f" of {labels['pipeline']}" if "pipeline" in labels else ""
    if subject := next((name for name in _SUBJECTS if name in labels), None):
        wanted = {name: labels[name] for name in ("pipeline", subject) if name in labels}
        found[f"this {_SUBJECTS[subject]}: {labels[subject]}{whose}"] = wanted
    of_rule = {name: labels[name] for name in ("rule", "pipeline") if name in labels}
    found[f"“{alert.name}”{whose or ', whatever it is about'}"] = of_rule
    if whose:
        found[f"all{whose}"] = {"pipeline": labels["pipeline"]}
    return found


def _write_choice(asked: _Asked) -> None:
    live.write(el("p", "Its alerts stay visible, but send no notification."))
    words = list(asked.choices)
    st.radio("Silence", words, key=f"{KEY}-what", format_func=plain_label)
    lengths = list(LENGTHS)
    st.segmented_control(
        "For", lengths, default=lengths[0], required=True, key=f"{KEY}-length",
        format_func=lambda length: f"{length} · until {_until(asked.at_ms + LENGTHS[length])}",
    )  # fmt: skip


def _until(at_ms: int) -> str:
    """Return the time of day, and the date where it is not today's."""
    zone = live.zone()
    moment, today = (datetime.fromtimestamp(ms / 1000, zone) for ms in (at_ms, now_ms()))
    return f"{moment:%H:%M}" if moment.date() == today.date() else f"{moment:%d %b %H:%M}"


def _given(asked: _Asked) -> str:
    """Send the request; return what is wrong, or an empty text."""
    filled = order_form.filled(KEY)
    if filled.complaint:
        return filled.complaint
    try:
        if asked.ends is not None:
            live.collector().end_silence(asked.ends.silence, reason=filled.reason)
            return ""
        matchers = asked.choices[st.session_state.get(f"{KEY}-what") or next(iter(asked.choices))]
        length_ms = LENGTHS[st.session_state.get(f"{KEY}-length") or next(iter(LENGTHS))]
        live.collector().silence(matchers, reason=filled.reason, duration_ms=length_ms)
    except CollectorError as error:
        return f"{error}. Check the list of silences before you try again."
    return ""


DIALOG = SilenceDialog()
