"""Alerts: what fires, what is about to, what is silenced by whom until when, and whether those who are to be told were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import tzinfo

import streamlit as st

from app import live, silence_dialog
from app.alert_rows import Alert, Receiver, Silence
from app.collector_rows import Rows
from app.markup import Html, el, widget_token
from app.order_text import fact_line, table
from app.time_text import clock_time, counted, exact_time, since
from app.verdict_signs import Tone, badge

BUTTONS_PX = 130
STANDING_SHOWN = 50
RESOLVED_SHOWN = 50
_SEVERITIES = {
    "critical": ("✖", Tone.URGENT, "rows are lost, invisible or about to be: look now"),
    "warning": ("△", Tone.WARNING, "nothing is lost yet: look within the hour"),
}
"""Sign, tone and meaning of a severity (docs/alerts.md)."""


def show() -> None:
    """Write the page."""
    live.looked_again(_alerts, every_s=live.LIVE_EVERY_S)


def _alerts() -> None:
    alerts, silences, receivers = (live.collector().alerts(), live.collector().silences(), live.collector().receivers())
    zone = live.zone()
    standing = [one for one in alerts if not one.is_over]
    active = [one for one in silences if one.is_active]
    live.write(el("h3", "Alerts", el("small", _how_many(alerts))))
    if not standing:
        live.write(el("p", "✔ No alert is firing or pending.", class_="quiet"))
    for alert in standing[:STANDING_SHOWN]:
        _alert(alert, {one.number: one for one in active}, zone)
    if less_urgent := max(0, len(standing) - STANDING_SHOWN) + alerts.more:
        live.write(el("p", f"{counted(less_urgent, 'less urgent alert')} not shown: python -m collector alerts lists them.",
                      class_="more"))  # fmt: skip
    if active:
        live.write(el("h3", "Silences", el("small", " matching alerts are judged and shown, and nobody is told")))
    for silence in active:
        _silence(silence, zone)
    live.write(el("h3", "Who is told"))
    live.write(_told(receivers, zone))
    if resolved := [one for one in alerts if one.is_over]:
        live.write(el("h3", "Resolved", el("small", f" the newest {min(len(resolved), RESOLVED_SHOWN)}")))
        with st.container(key="resolved-table"):
            live.write(_resolved(resolved[:RESOLVED_SHOWN], zone))


def _how_many(alerts: Rows[Alert]) -> str:
    count = Counter(one.state for one in alerts)
    silenced = sum(1 for one in alerts if one.silenced_by is not None and not one.is_over)
    parts = [f"{count[state]} {state}" for state in ("firing", "pending") if count[state]]
    if silenced:
        parts.append(f"{silenced} of them silenced")
    return f" {', '.join(parts)}" if parts else ""


def _alert(alert: Alert, silences: dict[int, Silence], zone: tzinfo) -> None:
    token = widget_token(alert.key)
    with st.container(key=f"alert-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(alert, silences.get(alert.silenced_by or -1), zone))
        if alert.silenced_by is None:
            with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
                silence_dialog.silence_button(alert)


def _card(alert: Alert, silence: Silence | None, zone: tzinfo) -> Html:
    sign, tone, meaning = _severity(alert.severity)
    title = el("div", badge(sign, f"{alert.severity}, {alert.state}", tone, meaning), el("b", alert.summary, class_="name"),
               class_="title")  # fmt: skip
    silenced = silence is not None and f"silenced until {exact_time(silence.ends_ms, zone)} by {silence.author}"
    if alert.silenced_by is not None and silence is None:
        silenced = f"silenced by {alert.silenced_by}"
    line = el("div", el("span", f"{alert.rule} {alert.name}, {alert.state} for ", since(alert.since_ms, zone)),
              silenced and el("span", silenced), el("span", _in_words(alert.labels)), class_="facts-line")  # fmt: skip
    said = el("div", title, line, el("ul", *[fact_line(fact, zone) for fact in alert.evidence]), class_="said facts")
    return el("div", said, class_=f"card {Tone.CALM.value if silenced else tone.value}")


def _severity(severity: str) -> tuple[str, Tone, str]:
    return _SEVERITIES.get(severity, ("?", Tone.NOTICE, "what this means is not known here"))


def _in_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in labels.items() if name not in ("rule", "severity"))


def _silence(silence: Silence, zone: tzinfo) -> None:
    with st.container(key=f"silence-{silence.number}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_silence_card(silence, zone))
        with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
            silence_dialog.end_button(silence)


def _silence_card(silence: Silence, zone: tzinfo) -> Html:
    matchers = [el("code", f"{name}={text}") for name, text in silence.matchers.items()]
    title = el(
        "div", f"Silence {silence.number}: ", *[part for code in matchers for part in (code, " ")], class_="title"
    )
    until = el("div", el("span", f"until {exact_time(silence.ends_ms, zone)}, by {silence.author}: {silence.reason}"),
               class_="facts-line")  # fmt: skip
    return el("div", el("div", title, until, class_="said"), class_="card calm")


def _told(receivers: Rows[Receiver], zone: tzinfo) -> Html:
    if not receivers:
        return el("p", "No receiver is set: alerts are shown here, on the command line and in /metrics, and nobody is told. "
                  "docs/alerts.md says how to name a webhook, Slack or an Alertmanager.", class_="empty")  # fmt: skip
    return table(
        ["Receiver", "Stands", "Waiting", "Oldest since", "Given up", "Newest attempt"],
        [
            [
                one.name,
                badge("✖", "failing", Tone.WARNING) if one.error else badge("●", "up", Tone.GOOD),
                str(one.waiting),
                clock_time(one.oldest_ms, zone) if one.oldest_ms is not None else "–",
                str(one.given_up),
                one.error or "nothing is wrong",
            ]
            for one in receivers
        ],
    )


def _resolved(alerts: list[Alert], zone: tzinfo) -> Html:
    return table(
        ["Resolved", "Severity", "Rule", "What", "Of what"],
        [
            [
                exact_time(one.since_ms, zone),
                badge(_severity(one.severity)[0], one.severity, Tone.CALM, _severity(one.severity)[2]),
                f"{one.rule} {one.name}",
                one.summary,
                _in_words(one.labels),
            ]
            for one in alerts
        ],
    )
