"""Alerts: which fire, are pending or are silenced, and whether receivers got their notifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import tzinfo

import streamlit as st

from app import live
from app.client.collector_rows import Rows
from app.components.markup import Html, el, widget_token
from app.components.time_text import clock_time, counted, exact_time, since
from app.components.verdict_signs import UNKNOWN_SIGN, Tone, badge
from app.dialogs import silence_dialog
from app.dialogs.order_text import fact_line, table
from lifecycle.rows.alerts import AlertRow, ReceiverRow, SilenceRow

BUTTONS_PX = 130
STANDING_SHOWN = 50
RESOLVED_SHOWN = 50
SEVERITIES = {
    "critical": ("✖", Tone.URGENT, "rows are lost or invisible, or soon will be: act now"),
    "warning": ("△", Tone.WARNING, "nothing is lost yet: act within the hour"),
}
"""Sign, tone and meaning of a severity (docs/alerts.md)."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_alerts, every_s=live.LIVE_EVERY_S)


def _alerts() -> None:
    alerts, silences, receivers = (live.collector().alerts(), live.collector().silences(), live.collector().receivers())
    zone = live.zone()
    standing = [alert for alert in alerts if not alert.is_over]
    active = [silence for silence in silences if silence.is_active]
    live.write(el("h3", "Alerts", el("small", _how_many(alerts))))
    if not standing:
        live.write(el("p", "✔ No alert is firing or pending.", class_="quiet"))
    for alert in standing[:STANDING_SHOWN]:
        _alert(alert, {silence.silence: silence for silence in active}, zone)
    if less_urgent := max(0, len(standing) - STANDING_SHOWN) + alerts.more:
        live.write(el("p", f"{counted(less_urgent, 'less urgent alert')} not shown: python -m collector alerts lists them.",
                      class_="more"))  # fmt: skip
    if active:
        live.write(el("h3", "Silences", el("small", " matching alerts stay visible, but send no notification")))
    for silence in active:
        _silence(silence, zone)
    live.write(el("h3", "Receivers of notifications"))
    live.write(_receivers(receivers, zone))
    if resolved := [alert for alert in alerts if alert.is_over]:
        live.write(el("h3", "Resolved", el("small", f" the newest {min(len(resolved), RESOLVED_SHOWN)}")))
        with st.container(key="resolved-table"):
            live.write(_resolved(resolved[:RESOLVED_SHOWN], zone))


def _how_many(alerts: Rows[AlertRow]) -> str:
    count = Counter(alert.state for alert in alerts)
    silenced = sum(1 for alert in alerts if alert.silenced_by is not None and not alert.is_over)
    parts = [f"{count[state]} {state}" for state in ("firing", "pending") if count[state]]
    if silenced:
        parts.append(f"{silenced} of them silenced")
    return f" {', '.join(parts)}" if parts else ""


def _alert(alert: AlertRow, silences: dict[int, SilenceRow], zone: tzinfo) -> None:
    token = widget_token(alert.key)
    with st.container(key=f"alert-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(alert, silences.get(alert.silenced_by or -1), zone))
        if alert.silenced_by is None:
            with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
                silence_dialog.silence_button(alert)


def _card(alert: AlertRow, silence: SilenceRow | None, zone: tzinfo) -> Html:
    sign, tone, meaning = _severity(alert.severity)
    title = el("div", badge(sign, f"{alert.severity}, {alert.state}", tone, meaning), el("b", alert.summary, class_="name"),
               class_="title")  # fmt: skip
    silenced = silence is not None and f"silenced until {exact_time(silence.ends_at_ms, zone)} by {silence.author}"
    if alert.silenced_by is not None and silence is None:
        silenced = f"under silence {alert.silenced_by}"
    line = el("div", el("span", f"{alert.rule} {alert.name}, {alert.state} for ", since(alert.since_ms, zone)),
              silenced and el("span", silenced), el("span", _in_words(alert.labels)), class_="facts-line")  # fmt: skip
    text = el("div", title, line, el("ul", *[fact_line(fact, zone) for fact in alert.evidence]), class_="said facts")
    return el("div", text, class_=f"card {Tone.CALM.value if silenced else tone.value}")


def _severity(severity: str) -> tuple[str, Tone, str]:
    return SEVERITIES.get(severity, UNKNOWN_SIGN)


def _in_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in labels.items() if name not in ("rule", "severity"))


def _silence(silence: SilenceRow, zone: tzinfo) -> None:
    with st.container(key=f"silence-{silence.silence}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_silence_card(silence, zone))
        with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
            silence_dialog.end_button(silence)


def _silence_card(silence: SilenceRow, zone: tzinfo) -> Html:
    matchers = [el("code", f"{name}={text}") for name, text in silence.matchers.items()]
    title = el(
        "div", f"Silence {silence.silence}: ", *[part for code in matchers for part in (code, " ")], class_="title"
    )
    until = el("div", el("span", f"until {exact_time(silence.ends_at_ms, zone)}, by {silence.author}: {silence.reason}"),
               class_="facts-line")  # fmt: skip
    return el("div", el("div", title, until, class_="said"), class_="card calm")


def _receivers(receivers: Rows[ReceiverRow], zone: tzinfo) -> Html:
    if not receivers:
        return el("p", "No receiver is set, so no notification is sent. Alerts appear here, on the command line and in /metrics. "
                  "docs/alerts.md explains how to set a webhook, Slack or an Alertmanager.", class_="empty")  # fmt: skip
    return table(
        ["Receiver", "State", "Waiting", "Oldest waits since", "Given up", "Last error"],
        [
            [
                receiver.receiver,
                badge("✖", "failing", Tone.WARNING) if receiver.error else badge("●", "up", Tone.GOOD),
                str(receiver.waiting),
                clock_time(receiver.oldest_at_ms, zone) if receiver.oldest_at_ms is not None else "–",
                str(receiver.given_up),
                receiver.error or "–",
            ]
            for receiver in receivers
        ],
    )


def _resolved(alerts: list[AlertRow], zone: tzinfo) -> Html:
    return table(
        ["Resolved", "Severity", "Rule", "Summary", "Labels"],
        [
            [
                exact_time(alert.since_ms, zone),
                badge(_severity(alert.severity)[0], alert.severity, Tone.CALM, _severity(alert.severity)[2]),
                f"{alert.rule} {alert.name}",
                alert.summary,
                _in_words(alert.labels),
            ]
            for alert in alerts
        ],
    )
