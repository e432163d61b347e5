"""The page of one alert: what it found, its evidence, what it is about, and what ends it."""

from __future__ import annotations

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.facts import evidence_list
from indoubt.app.components.incident_card import order_buttons
from indoubt.app.components.incident_note import alert_note
from indoubt.app.components.links_and_buttons import card_with_buttons, link, silence_button
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import at, since
from indoubt.app.components.verdict_signs import sign_of, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens.alerts import SEVERITIES
from indoubt.app.screens.objects.object_sections import alert_list, link_to, not_there, page_address, share
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.alerts import AlertRow, SilenceRow
from indoubt.lifecycle.rows.incidents import Incident


def show() -> None:
    """Write the page."""
    key = st.query_params.get("key", "")
    with st.container(key="alert"):
        show_region("alert", {"key": key})
    live.auto_refresh(_share, every_s=live.CHARTS_EVERY_S)


def _share() -> None:
    key, client = st.query_params.get("key", ""), live.collector()
    address = page_address(page_paths.alert(key))
    alert = next((row for row in client.alerts() if row.key == key), None)
    if alert is None:
        link_to(address)
    else:
        share(address, alert_note(alert, link=address, at_ms=client.status().now_ms), f"incident-{alert.rule}.md")


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the page for the alert ``key``."""
    alerts = client.alerts()
    alert = next((row for row in alerts if row.key == query.get("key", "")), None)
    if alert is None:
        return {"none": not_there("there is no such alert any more: it was resolved long ago")}
    silence = next((row for row in client.silences() if row.silence == alert.silenced_by), None)
    same = [row for row in alerts if row.group == alert.group and row.key != alert.key and not row.is_over]
    labels = [el("li", name, ": ", el("code", text)) for name, text in alert.labels.items()]
    return {
        "head": _head(alert, silence, next(iter(client.incidents(keys=[alert.key], limit=1)), None)),
        "evidence": el("section", el("h3", "What it rests on"), evidence_list(alert.evidence)),
        "labels": el("section", el("h3", "Labels"), el("ul", *labels)),
        "same": alert_list(same) if same else el("section"),
    }


def _head(alert: AlertRow, silence: SilenceRow | None, incident: Incident | None) -> Html:
    """Return its card; ``incident``: that it is a part of, with the orders that end it."""
    _, tone, _ = sign_of(SEVERITIES, alert.severity)
    fired = alert.fired_at_ms is not None and el("span", "fired ", at(alert.fired_at_ms))
    until = silence is not None and at(silence.ends_at_ms)
    silenced = silence is not None and el("span", f"silenced by {silence.author} until ", until, f": {silence.reason}")
    said = el(
        "div",
        el("div", word_badge(SEVERITIES, alert.severity, f"{alert.severity}, {alert.state}"), el("b", alert.summary, class_="name"),
           class_="title"),
        el("div", f"{alert.rule} {alert.name}: ", alert.group, class_="why"),
        el("div", el("span", f"{alert.state} for ", since(alert.since_ms)), el("span", "found ", at(alert.found_at_ms)), fired,
           silenced, class_="facts-line"),
        el("div", el("small", "what ends it: "), alert.remedy, class_="consequence"),
        class_="said",
    )  # fmt: skip
    orders = order_buttons(incident) if incident is not None else []
    opening = link(alert.path, "Open what it is about", class_="press" if orders else "press main", is_opening=True)
    buttons = [*orders, opening]
    if alert.silenced_by is None and not alert.is_over:
        buttons.append(silence_button("Silence", alert=alert.key))
    elif silence is not None and silence.is_active:
        buttons.append(silence_button("End the silence", number=silence.silence))
    return card_with_buttons(tone, said, buttons=buttons)
