"""Alerts: which fire, are pending or are silenced, by what they are about, each with its remedy; and who was notified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import tzinfo

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.facts import fact_line
from indoubt.app.components.incident_card import order_buttons
from indoubt.app.components.links_and_buttons import card_with_buttons, link, silence_button
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.paging import after_in_address, go_further, rows_a_page
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import exact, since
from indoubt.app.components.verdict_signs import Tone, WordSigns, badge, sign_of, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import new_rows
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.alerts import AlertRow, ReceiverRow, SilenceRow
from indoubt.lifecycle.rows.incidents import Incident

STANDING_SHOWN = 50
ROWS_A_PAGE = 20
_STATES = ("firing", "pending")
SEVERITIES: WordSigns = {
    "critical": ("✖", Tone.URGENT, "rows are lost or invisible, or soon will be: act now"),
    "warning": ("△", Tone.WARNING, "nothing is lost yet: act within the hour"),
}
"""Sign, tone and meaning of a severity (docs/alerts.md)."""


def show() -> None:
    """Write the page: what stands as a live region, and the resolved alerts."""
    list_menu.show("alerts", lambda: live.collector().alerts(over=False))
    with st.container(key="alerts"):
        show_region("alerts")
    live.auto_refresh(_resolved, every_s=None)


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a card for each incident that alerts are about, then silences and receivers."""
    # With thousands of transactions past their timeout there are as many alerts: all of them take long to read.
    standing = client.alerts(over=False, limit=STANDING_SHOWN)
    silences, receivers = client.silences(), client.receivers()
    active = {silence.silence: silence for silence in silences if silence.is_active}
    incidents = {one.key: one for one in client.incidents()} if standing else {}
    content: RegionContent = {"head": el("h3", "Alerts", el("small", _how_many(client, standing)))}
    if not standing:
        content["none"] = el("p", "✔ No alert is firing or pending.", class_="quiet")
    for group, about in _by_group(standing).items():
        content[f"group-{widget_token(group)}"] = _group_card(group, about, active, incidents.get(group))
    if standing.more:
        text = f"{counted(standing.more, 'less urgent alert')} not shown: indoubt alerts lists them."
        content["more"] = el("p", text, class_="more")
    if active:
        why = " matching alerts stay visible, but send no notification"
        content["silences"] = el("h3", "Silences", el("small", why))
    for silence in active.values():
        content[f"silence-{silence.silence}"] = _silence_card(silence)
    content["receivers"] = el("div", el("h3", "Receivers of notifications"), _receivers(receivers))
    return content


def _resolved() -> None:
    after = after_in_address()
    resolved = live.collector().alerts(over=True, limit=rows_a_page(ROWS_A_PAGE), after=after)
    if resolved or after:
        list_menu.show("resolved-alerts", lambda: resolved, page_size=ROWS_A_PAGE)
    live.write(el("h3", "Resolved", el("small", _how_far(resolved))))
    if not after:
        new_rows.show("alerts", resolved, over=True)
    if not resolved and not after:
        live.write(el("p", "No alert has been resolved yet.", class_="empty"))
        return
    with st.container(key="resolved-table"):
        live.write(_table(resolved, live.zone()))
    go_further(resolved.next, key="resolved")


def _how_far(resolved: Rows[AlertRow]) -> str:
    if not resolved:
        return ""
    behind = f"{resolved.more:,} older behind them" if resolved.more else "no older one"
    return f" {counted(len(resolved), 'alert')}, {behind}"


def _how_many(client: CollectorClient, alerts: Rows[AlertRow]) -> str:
    count = Counter(alert.state for alert in alerts)
    if alerts.more:
        of_state = {state: client.alerts(state=state, limit=1) for state in _STATES}
        count = Counter({state: len(found) + found.more for state, found in of_state.items()})
    silenced = sum(1 for alert in alerts if alert.silenced_by is not None)
    parts = [f"{count[state]:,} {state}" for state in _STATES if count[state]]
    if silenced:
        parts.append(f"{silenced} of {'those shown' if alerts.more else 'them'} silenced")
    return f" {', '.join(parts)}" if parts else ""


def _by_group(alerts: Sequence[AlertRow]) -> dict[str, list[AlertRow]]:
    groups: dict[str, list[AlertRow]] = {}
    for alert in alerts:
        groups.setdefault(alert.group, []).append(alert)
    return groups


def _group_card(
    group: str, about: Sequence[AlertRow], silences: Mapping[int, SilenceRow], incident: Incident | None
) -> Html:
    """Return the card of an incident: its alerts, one line a rule, and what ends it."""
    loud = [alert for alert in about if alert.silenced_by is None]
    _, tone, _ = sign_of(SEVERITIES, min((alert.severity for alert in loud), default=""))
    opening = link(_page_of(about[0]), "Open", class_="press", is_opening=True)
    by_rule: dict[str, list[AlertRow]] = {}
    for alert in about:
        by_rule.setdefault(alert.rule, []).append(alert)
    said = el(
        "div",
        el("div", el("b", group, class_="name"), class_="title"),
        *[_of_rule(of_it, silences) for of_it in by_rule.values()],
        class_="said",
    )
    orders = order_buttons(incident) if incident is not None and loud else []
    return card_with_buttons(tone if loud else Tone.CALM, said, buttons=[*orders, opening])


def _of_rule(alerts: Sequence[AlertRow], silences: Mapping[int, SilenceRow]) -> Html:
    """Return the most urgent alert of a rule, and folded behind it the others."""
    first, *others = [_alert(alert, silences.get(alert.silenced_by or -1)) for alert in alerts]
    if not others:
        return first
    more = el("details", el("summary", f"{alerts[0].name}: {len(others)} more"), *others, class_="unfolds")
    return el("div", first, more)


def _page_of(alert: AlertRow) -> str:
    return alert.path or page_paths.alert(alert.key)


def _alert(alert: AlertRow, silence: SilenceRow | None) -> Html:
    silenced: list[object] = []
    if alert.silenced_by is not None:
        silenced = [f"under silence {alert.silenced_by}"]
    if silence is not None:
        silenced = ["silenced until ", exact(silence.ends_at_ms), f" by {silence.author}"]
    facts = el("ul", *[fact_line(fact) for fact in alert.evidence])
    return el(
        "section",
        el(
            "div",
            word_badge(SEVERITIES, alert.severity, f"{alert.severity}, {alert.state}", Tone.CALM if silenced else None),
            link(_page_of(alert), alert.summary),
            class_="alert-title",
        ),
        el(
            "div",
            el("span", f"{alert.rule} {alert.name}, {alert.state} for ", since(alert.since_ms)),
            alert.absent_at_ms is not None and el("span", "not found any more for ", since(alert.absent_at_ms)),
            el("span", f"ends with: {alert.remedy}") if alert.remedy not in ("", "open") else None,
            silenced and el("span", *silenced),
            el("span", _in_words(alert.labels)),
            class_="facts-line",
        ),
        el(
            "div",
            el("details", el("summary", f"evidence: {counted(len(alert.evidence), 'fact')}"), facts, class_="unfolds"),
            silence_button("Silence", alert=alert.key) if not silenced else None,
            class_="alert-foot",
        ),
        class_="alert",
    )


def _in_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in labels.items() if name not in ("rule", "severity"))


def _silence_card(silence: SilenceRow) -> Html:
    matchers = [el("code", f"{name}={text}") for name, text in silence.matchers.items()]
    parts = [part for code in matchers for part in (code, " ")]
    title = el("div", f"Silence {silence.silence}: ", *parts, class_="title")
    until = el("span", "until ", exact(silence.ends_at_ms), f", by {silence.author}: {silence.reason}")
    said = el("div", title, el("div", until, class_="facts-line"), class_="said")
    return card_with_buttons(Tone.CALM, said, buttons=[silence_button("End", number=silence.silence)])


def _receivers(receivers: Rows[ReceiverRow]) -> Html:
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
                exact(receiver.oldest_at_ms),
                str(receiver.given_up),
                receiver.error or "–",
            ]
            for receiver in receivers
        ],
    )


def _table(alerts: Sequence[AlertRow], zone: tzinfo) -> Html:
    return table(
        ["Resolved", "Severity", "Rule", "Summary", "Labels"],
        [
            [
                Moment(alert.since_ms),
                word_badge(SEVERITIES, alert.severity, tone=Tone.CALM),
                f"{alert.rule} {alert.name}",
                link(_page_of(alert), alert.summary),
                _in_words(alert.labels),
            ]
            for alert in alerts
        ],
        zone=zone,
        narrow=("Summary", "Resolved", "Severity"),
    )
